#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One simulated rank of many, with PyTorch's fake process group, against vramreport plan: FSDP2 (fully_shard, a unit a
layer and one for the rest), DistributedDataParallel and, where it is installed, DeepSpeed's ZeRO with bf16 and its
default settings: shards.py --build BUILD --python PYTHON. Exit status 1 when a case is off by more than 3 %."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__)
sys.path.insert(0, str(here.parent))
import grid_jobs  # noqa: E402

CONFIG = dict(
    model_type="llama", num_hidden_layers=16, hidden_size=2048, num_attention_heads=16, num_key_value_heads=16,
    intermediate_size=5504, vocab_size=32000,
)
# Sharding, ranks, checkpointing, layers.
CASES = [
    ("fsdp", 2, "none", 16),
    ("fsdp", 8, "none", 16),
    ("fsdp", 8, "full", 16),
    ("fsdp", 64, "full", 16),
    ("ddp", 8, "none", 16),
    ("ddp", 8, "full", 16),
    ("zero1", 8, "none", 16),
    ("zero1", 2, "full", 16),
    ("zero2", 8, "none", 16),
    ("zero2", 64, "full", 16),
    ("zero3", 8, "none", 16),
    ("zero3", 8, "full", 32),
    ("zero3", 64, "none", 48),
]


def build(checkpointing, layers):
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(**{**CONFIG, "num_hidden_layers": layers}, use_cache=False)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config).train()
    torch.set_default_dtype(torch.float32)
    if checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def reduced(_, bucket):
    """The fake process group's work has no result, which DistributedDataParallel would ask for."""
    import torch

    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def shard(model, sharding, ranks):
    """Returns the functions of a step: forward to the loss, backward from it, and the update."""
    import torch
    import torch.distributed as dist

    if sharding.startswith("zero"):
        import deepspeed

        settings = dict(
            train_micro_batch_size_per_gpu=2, bf16=dict(enabled=True), zero_allow_untested_optimizer=True,
            zero_optimization=dict(stage=int(sharding[-1])),
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings, dist_init_required=False)
        return engine, engine.backward, engine.step
    if sharding == "fsdp":
        mesh = dist.device_mesh.init_device_mesh("cuda", (ranks,))
        for layer in model.model.layers:
            dist.fsdp.fully_shard(layer, mesh=mesh)
        dist.fsdp.fully_shard(model, mesh=mesh)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
        model.register_comm_hook(None, reduced)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return model, lambda loss: loss.backward(), step


def job(sharding, ranks, checkpointing, layers):
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(ranks), DS_IGNORE_CUDA_DETECTION="1")
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    forward, backward, step = shard(build(checkpointing, layers), sharding, ranks)
    tokens = torch.zeros(2, 1024, dtype=torch.long, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        backward(forward(input_ids=tokens, labels=tokens).loss)
        step()
    print("peak", torch.cuda.max_memory_allocated())


def plan(options, folder, sharding, ranks, checkpointing, layers):
    config = pathlib.Path(folder) / "config.json"
    config.write_text(json.dumps({**CONFIG, "num_hidden_layers": layers}))
    command = [options.build / "tools/vramreport", "plan", "--json", "--config", config, "--gpu", "b200"]
    command += ["--batch", "2", "--seq", "1024", "--checkpointing", checkpointing, "--sharding", sharding]
    command += ["--gpus", str(ranks), "--precision", "bf16-master" if sharding.startswith("zero") else "bf16"]
    out = subprocess.run(command, capture_output=True, text=True)
    return json.loads(out.stdout)["peak"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=here.parent.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    out = subprocess.run([options.python, "-c", "import importlib.util as i; print(i.find_spec('deepspeed'))"],
                         capture_output=True, text=True)
    deepspeed = out.stdout.strip() not in ("", "None")
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        for number, case in enumerate(CASES):
            if case[0].startswith("zero") and not deepspeed:
                print(f"{case[0]}: skipped: {options.python} has no deepspeed")
                continue
            words = [str(word) for word in case]
            run = subprocess.run(
                [options.build / "tools/vramrun", "-o", f"{name}/{number}", "--simulate", "b200:1", "--"]
                + [options.python, here, "--job", *words],
                capture_output=True, text=True,
            )
            peaks = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("peak ")]
            if not grid_jobs.finished(run) or not peaks:
                sys.exit(run.stderr[-2000:])
            measured = int(peaks[0])
            answer = plan(options, name, *case)
            error = answer["refined_bytes"] / measured - 1
            worst = max(worst, abs(error))
            print(
                f"{case[0]:5} over {case[1]:2}, checkpointing {case[2]}, {case[3]} layers: {measured / 2**20:9.1f} MiB"
                f" {100 * error:+.2f} %  {answer['instant']}",
                flush=True,
            )
    print(f"worst {100 * worst:.2f} %")
    sys.exit(0 if worst <= 0.03 else 1)


if sys.argv[1:2] == ["--job"]:
    job(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
else:
    main()
