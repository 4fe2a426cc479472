# SPDX-License-Identifier: MIT
"""Small random models of real architectures, unmodified transformers code, made on the GPU."""
import torch
import transformers


def llama_config(attention="sdpa", **changes):
    shape = {
        "vocab_size": 4096,
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 512,
        "use_cache": False,
        "attn_implementation": attention,
    }
    return transformers.LlamaConfig(**{**shape, **changes})


def llama(attention="sdpa", **changes):
    with torch.device("cuda"):
        return transformers.LlamaForCausalLM(llama_config(attention, **changes)).train()


def gpt2():
    config = transformers.GPT2Config(vocab_size=4096, n_positions=256, n_embd=256, n_layer=4, n_head=8, use_cache=False)
    with torch.device("cuda"):
        return transformers.GPT2LMHeadModel(config).train()


def bert():
    config = transformers.BertConfig(
        vocab_size=4096, hidden_size=256, num_hidden_layers=4, num_attention_heads=8, intermediate_size=1024
    )
    with torch.device("cuda"):
        return transformers.BertForMaskedLM(config).train()


def tokens(model, batch=4, length=128):
    return torch.randint(0, model.config.vocab_size, (batch, length), device="cuda")
