#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""FSDP2 (fully_shard, a unit a layer and one for the rest) on one simulated rank of many, with PyTorch's fake process
group, against vramreport plan: shards.py --build BUILD --python PYTHON. Exit status 1 when a case is off by more than
3 %."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__)
CONFIG = dict(
    model_type="llama", num_hidden_layers=16, hidden_size=2048, num_attention_heads=16, num_key_value_heads=16,
    intermediate_size=5504, vocab_size=32000,
)
CASES = [(2, "none"), (8, "none"), (8, "full"), (64, "full")]


def job(ranks, checkpointing):
    import torch
    import torch.distributed as dist
    import transformers
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    config = transformers.AutoConfig.for_model(**CONFIG, use_cache=False)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config).train()
    torch.set_default_dtype(torch.float32)
    if checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    mesh = dist.device_mesh.init_device_mesh("cuda", (ranks,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.zeros(2, 1024, dtype=torch.long, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    print(torch.cuda.max_memory_allocated())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=here.parent.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        config = pathlib.Path(name) / "config.json"
        config.write_text(json.dumps(CONFIG))
        for ranks, checkpointing in CASES:
            run = subprocess.run(
                [options.build / "tools/vramrun", "-o", f"{name}/{ranks}{checkpointing}", "--simulate", "a100-80", "--"]
                + [options.python, here, "--job", str(ranks), checkpointing],
                capture_output=True, text=True,
            )
            if run.returncode:
                sys.exit(run.stderr[-2000:])
            measured = int(run.stdout.split()[-1])
            plan = subprocess.run(
                [options.build / "tools/vramreport", "plan", "--json", "--config", config, "--gpu", "a100-80"]
                + ["--batch", "2", "--seq", "1024", "--checkpointing", checkpointing]
                + ["--sharding", "fsdp", "--gpus", str(ranks)],
                capture_output=True, text=True,
            )
            error = json.loads(plan.stdout)["peak"]["refined_bytes"] / measured - 1
            worst = max(worst, abs(error))
            print(f"fsdp over {ranks:3}, checkpointing {checkpointing}: {measured / 2**20:9.1f} MiB {100 * error:+.2f} %")
    print(f"worst {100 * worst:.2f} %")
    sys.exit(0 if worst <= 0.03 else 1)


if sys.argv[1:2] == ["--job"]:
    job(int(sys.argv[2]), sys.argv[3])
else:
    main()
