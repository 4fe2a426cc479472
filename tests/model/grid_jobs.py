# SPDX-License-Identifier: MIT
"""The grid's jobs: small but whole models of six architectures, unmodified transformers code, under every kind of
precision, optimizer, checkpointing and attention. Each is a dict that both sides read: the job that runs on the
(simulated) device, and the flags of vramreport plan."""
import signal

MODELS = {
    "llama": dict(
        model_type="llama", num_hidden_layers=8, hidden_size=2048, num_attention_heads=16, num_key_value_heads=16,
        intermediate_size=5504, vocab_size=32000,
    ),
    "llama-gqa": dict(
        model_type="llama", num_hidden_layers=8, hidden_size=2048, num_attention_heads=32, num_key_value_heads=8,
        intermediate_size=8192, vocab_size=64128, tie_word_embeddings=True, head_dim=64,
    ),
    "qwen3": dict(
        model_type="qwen3", num_hidden_layers=8, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, intermediate_size=3072, vocab_size=151936, tie_word_embeddings=True,
    ),
    "gpt2": dict(
        model_type="gpt2", n_layer=12, n_embd=1280, n_head=20, n_positions=2048, vocab_size=50257,
        architectures=["GPT2LMHeadModel"],
    ),
    "bert": dict(
        model_type="bert", num_hidden_layers=12, hidden_size=1024, num_attention_heads=16, intermediate_size=4096,
        vocab_size=30522, max_position_embeddings=2048, architectures=["BertForMaskedLM"],
    ),
    "vit": dict(
        model_type="vit", num_hidden_layers=12, hidden_size=1024, num_attention_heads=16, intermediate_size=4096,
        image_size=384, patch_size=16, num_labels=1000, architectures=["ViTForImageClassification"],
    ),
}

GRID = list(MODELS)

# Families that no operator of the model was checked on while it was written.
EXTRA = {
    "gemma": dict(
        model_type="gemma", num_hidden_layers=6, hidden_size=1024, num_attention_heads=8, num_key_value_heads=1,
        head_dim=128, intermediate_size=4096, vocab_size=64000,
    ),
    "gemma2": dict(
        model_type="gemma2", num_hidden_layers=6, hidden_size=1024, num_attention_heads=8, num_key_value_heads=4,
        head_dim=128, intermediate_size=4096, vocab_size=64000,
    ),
    "mistral": dict(
        model_type="mistral", num_hidden_layers=6, hidden_size=1536, num_attention_heads=12, num_key_value_heads=4,
        intermediate_size=4608, vocab_size=32000, sliding_window=None,
    ),
    "qwen2": dict(
        model_type="qwen2", num_hidden_layers=6, hidden_size=1536, num_attention_heads=12, num_key_value_heads=2,
        intermediate_size=8960, vocab_size=151936, tie_word_embeddings=True,
    ),
    "mixtral": dict(
        model_type="mixtral", num_hidden_layers=3, hidden_size=1024, num_attention_heads=16, num_key_value_heads=4,
        intermediate_size=3584, vocab_size=32000, num_local_experts=8, num_experts_per_tok=2,
    ),
    "qwen3-moe": dict(
        model_type="qwen3_moe", num_hidden_layers=3, hidden_size=1024, num_attention_heads=16, num_key_value_heads=4,
        head_dim=64, intermediate_size=3072, vocab_size=32000, num_experts=16, num_experts_per_tok=4,
        moe_intermediate_size=512,
    ),
    "deepseek": dict(
        model_type="deepseek_v3", num_hidden_layers=4, hidden_size=1024, num_attention_heads=16,
        num_key_value_heads=16, intermediate_size=4096, vocab_size=32000, n_routed_experts=16, n_shared_experts=1,
        num_experts_per_tok=4, moe_intermediate_size=512, first_k_dense_replace=1, q_lora_rank=384,
        kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64, n_group=4, topk_group=2,
    ),
    "t5": dict(
        model_type="t5", num_layers=6, d_model=768, num_heads=12, d_kv=64, d_ff=3072, vocab_size=32128, decoder_start_token_id=0,
        architectures=["T5ForConditionalGeneration"],
    ),
}
MODELS.update(EXTRA)

# For inferred.py: matrices of less than 10 MiB, which share segments, so that blocks of one size are not all alike; a
# feed-forward that is not a round number.
MODELS["llama-narrow"] = dict(MODELS["llama"], hidden_size=1024, intermediate_size=2816)

PRECISIONS = ["fp32", "amp", "bf16"]


def jobs():
    """72 jobs: every architecture with every precision and both attentions in turn; the other axes rotate."""
    optimizers = ["adamw", "sgd", "adamw-fused", "sgd-momentum", "adamw-loop"]
    sizes = [(2, 512), (4, 256), (1, 1024), (8, 128)]
    out = []
    count = 0
    for name in GRID:
        for precision in PRECISIONS:
            for attention in ("sdpa", "eager"):
                for checkpointing in ("none", "full"):
                    batch, seq = sizes[count % len(sizes)]
                    if name == "vit":
                        batch = batch * 2
                    out.append(
                        dict(
                            model=name, precision=precision, attention=attention, checkpointing=checkpointing,
                            optimizer=optimizers[(count + count // 5) % len(optimizers)], batch=batch, seq=seq,
                        )
                    )
                    count += 1
    return out


def label(job):
    return "{model:9} {precision:5} {attention:5} {checkpointing:4} {optimizer:12} b{batch} s{seq}".format(**job)


def extra_jobs():
    """The families of EXTRA, four jobs each."""
    return [
        dict(
            model=name, precision=precision, attention=attention, checkpointing=checkpointing, optimizer=optimizer,
            batch=2, seq=768,
        )
        for name in EXTRA
        for precision, attention, checkpointing, optimizer in (
            ("bf16", "sdpa", "none", "sgd"),
            ("bf16", "eager", "full", "adamw-fused"),
            ("amp", "eager", "none", "sgd"),
            ("fp32", "sdpa", "none", "adamw"),
        )
        if not (name == "gemma2" and attention == "sdpa")
    ]


def finished(out):
    """Did the job of subprocess.run() get to its end? In about one of ten runs with checkpoints PyTorch aborts after
    that (CPython 3.11): autograd's thread, destroying the last GraphTask and Python objects in its thread-local state,
    asks for the interpreter's lock in Py_FinalizeEx(), which ends threads by unwinding them, through a destructor that
    may not throw. No frame of ours is in any of its threads."""
    aborted = out.returncode in (-signal.SIGABRT, 128 + signal.SIGABRT) and "terminate called without an active exception" in out.stderr
    return out.returncode == 0 or (aborted and bool(out.stdout))
