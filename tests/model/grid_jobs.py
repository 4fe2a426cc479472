# SPDX-License-Identifier: MIT
"""The grid's jobs: small but whole models of six architectures, unmodified transformers code, under every kind of
precision, optimizer, checkpointing and attention. Each is a dict that both sides read: the job that runs on the
(simulated) device, and the flags of vramreport plan."""

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

PRECISIONS = ["fp32", "amp", "bf16"]


def jobs():
    """72 jobs: every architecture with every precision and both attentions in turn; the other axes rotate."""
    optimizers = ["adamw", "sgd", "adamw-fused", "sgd-momentum", "adamw-loop"]
    sizes = [(2, 512), (4, 256), (1, 1024), (8, 128)]
    out = []
    count = 0
    for name in MODELS:
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
