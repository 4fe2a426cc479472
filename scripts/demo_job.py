# SPDX-License-Identifier: MIT
"""An ordinary training script: a Llama of about a billion parameters, AdamW, bf16 autocast, three steps. It knows
nothing of vramshim, and runs the same on a real GPU."""
import time

import torch
import transformers


def main():
    config = transformers.LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        use_cache=False,
    )
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).train()
    print(f"{torch.cuda.get_device_name()}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(3):
        start = time.perf_counter()
        ids = torch.randint(0, config.vocab_size, (4, 1024), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        print(f"step {step}: {time.perf_counter() - start:.2f} s", flush=True)
    print(f"torch.cuda.max_memory_allocated: {torch.cuda.max_memory_allocated()}")
    print(f"torch.cuda.max_memory_reserved: {torch.cuda.max_memory_reserved()}")


if __name__ == "__main__":
    main()
