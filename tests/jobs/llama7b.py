# SPDX-License-Identifier: MIT
"""Llama-2-7B's shape in bf16 with gradient checkpointing and fused AdamW: two steps, the second one timed. Prints how
long the start-up and the step took and the largest host memory of the process."""
import time

started = time.perf_counter()

import resource  # noqa: E402

import torch  # noqa: E402
import transformers  # noqa: E402


def main():
    config = transformers.LlamaConfig(  # the defaults are Llama-2-7B's: 32 layers of 4096, 32 heads
        intermediate_size=11008, vocab_size=32000, use_cache=False, dtype="bfloat16"
    )
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM._from_config(config, dtype=torch.bfloat16).train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for _ in range(2):
        begin = time.perf_counter()
        ids = torch.randint(0, config.vocab_size, (1, 2048), device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
    print(f"{torch.cuda.get_device_name()}: {sum(p.numel() for p in model.parameters()):,} parameters")
    print(f"start-up and first step: {begin - started:.1f} s")
    print(f"one training step: {seconds:.3f} s")
    # ru_maxrss counts KiB on Linux.
    print(f"largest host memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2:.2f} GiB")
    print(f"allocated peak on the GPU: {torch.cuda.max_memory_allocated() / 1024**3:.2f} GiB")


if __name__ == "__main__":
    main()
