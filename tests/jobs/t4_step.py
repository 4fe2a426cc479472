# SPDX-License-Identifier: MIT
"""One LoRA training step as shared/data/t4-lora-steps.csv was measured, with PyTorch's peaks by phase in MiB.

The order of every call matters to the allocator: it is that of the measuring program (see shared/data/README.md),
down to fp16 bases being loaded on the CPU and moved, and to K/V being repeated only for SDPA."""
import contextlib
import os
import pathlib
import shutil

import torch
import transformers

MIB = 1024.0**2


def saved_model(row, cache):
    """The folder of a model of the row's shape with zero weights: the bytes allocated do not depend on their values."""
    folder = pathlib.Path(cache) / row["model"]
    if not (folder / "model.safetensors").exists():
        config = transformers.LlamaConfig(
            vocab_size=int(row["vocab"]),
            hidden_size=int(row["hidden"]),
            intermediate_size=int(row["ffn"]),
            num_hidden_layers=int(row["layers"]),
            num_attention_heads=int(row["heads"]),
            num_key_value_heads=int(row["kv_heads"]),
            head_dim=int(row["head_dim"]),
            max_position_embeddings=8192,
            tie_word_embeddings=row["tied"] == "True",
            dtype="float16",
        )
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM(config)
        state = {name: torch.zeros(value.shape, dtype=torch.float16) for name, value in model.state_dict().items()}
        if config.tie_word_embeddings:
            del state["lm_head.weight"]
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        model.save_pretrained(partial, state_dict=state)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)  # whole or not there
    return folder


def repeat_keys_for_sdpa():
    """EFFICIENT_ATTENTION refuses grouped queries: repeat the keys and values before it, as eager attention does."""
    original = torch.nn.functional.scaled_dot_product_attention

    def repeated(query, key, value, *arguments, **options):
        if key.size(-3) != query.size(-3):
            groups = query.size(-3) // key.size(-3)
            key = key.repeat_interleave(groups, dim=-3)
            value = value.repeat_interleave(groups, dim=-3)
            options.pop("enable_gqa", None)
        return original(query, key, value, *arguments, **options)

    torch.nn.functional.scaled_dot_product_attention = repeated


def build(row, folder):
    import peft

    options = {"dtype": torch.float16, "attn_implementation": row["attention"]}
    if row["base"] == "nf4":
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=torch.float16,
            bnb_4bit_use_double_quant=False,
        )
        options["device_map"] = {"": 0}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
    if row["base"] == "none":
        model = model.cuda()
    model.config.use_cache = False
    if row["base"] == "nf4":
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)
    rank = int(row["lora_rank"])
    model = peft.get_peft_model(
        model,
        peft.LoraConfig(
            r=rank,
            lora_alpha=rank * 2,
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
            target_modules=row["lora_targets"].split("+"),
        ),
    )
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model.train()
    return model


def measure(row, cache):
    torch.manual_seed(0)
    torch.cuda.init()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    attention = contextlib.nullcontext()
    if row["attention"] == "sdpa":
        repeat_keys_for_sdpa()
        attention = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION)
    model = build(row, saved_model(row, cache))
    result = {"after_load_mib": torch.cuda.memory_allocated() / MIB}
    parameters = [p for p in model.parameters() if p.requires_grad]
    for parameter in parameters:
        if parameter.dtype != torch.float32:
            parameter.data = parameter.data.float()
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    batch = torch.randint(0, int(row["vocab"]), (int(row["batch"]), int(row["seq"])), device="cuda", dtype=torch.long)

    def step():
        optimizer.zero_grad(set_to_none=True)
        out = model(input_ids=batch, labels=batch)
        out.loss.backward()
        optimizer.step()

    def peak():
        value = torch.cuda.max_memory_allocated() / MIB
        torch.cuda.reset_peak_memory_stats()
        return value

    with attention:
        step()
        torch.cuda.reset_peak_memory_stats()
        step()
        result["peak_allocated_mib"] = torch.cuda.max_memory_allocated() / MIB
        result["peak_reserved_mib"] = torch.cuda.max_memory_reserved() / MIB
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.reset_peak_memory_stats()
        out = model(input_ids=batch, labels=batch)
        result["peak_forward_mib"] = peak()
        out.loss.backward()
        result["peak_backward_mib"] = peak()
        optimizer.step()
        result["peak_optimizer_mib"] = peak()
    return result
