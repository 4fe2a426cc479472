# SPDX-License-Identifier: MIT
"""The recorder under real PyTorch on the simulated device: what PyTorch counts is what the trace has, and nothing of
PyTorch's own is lost."""

import collections
import json
import sys

from recorder import (BUILD, CUDA_ALLOC, CUDA_FAIL, CUDA_FREE, SKIPPED, TORCH_ALLOC, TORCH_FREE, TORCH_OOM, Run, run_all,
                      torch_environments)

SIMULATED = [BUILD + "/lib/sim/" + name for name in ("libvramsim.so", "libcuda.so.1", "libnvidia-ml.so.1")]
DEVICE, PHYSICAL, MAPPED = 1, 6, 7
ENVIRONMENTS = torch_environments()

TRAIN = """
import json, torch
from torch.profiler import profile, ProfilerActivity
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
inputs = torch.randn(64, 256, device="cuda")
host = torch.randn(1000000)             # CPU tensors are not our business
def step():
    model(inputs).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
step()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
    step()
seen = sum(abs(event.device_memory_usage) for event in profiler.events())
stats = torch.cuda.memory_stats()
print(json.dumps({"profiler_bytes": seen, "allocated": stats["allocated_bytes.all.peak"],
                  "reserved": stats["reserved_bytes.all.peak"], "allocations": stats["allocation.all.allocated"],
                  "frees": stats["allocation.all.freed"], "segments": stats["segment.all.allocated"]}))
"""

OOM = """
import torch
held = []
try:
    while True:
        held.append(torch.empty(200 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    assert "CUDA out of memory" in str(error)
count = len(held)
held.clear()
torch.cuda.empty_cache()
print(count, torch.cuda.memory_reserved(), torch.cuda.memory_stats()["num_ooms"])
"""


def each(code, env=(), shim=True):
    for version, interpreter in ENVIRONMENTS:
        variables = {"VRAMSIM_GPU": "t4", "VRAMSIM_COUNT": "1"}
        variables.update(env)
        run = Run([interpreter, "-c", code], preload=SIMULATED, env=variables, shim=shim)
        assert run.status == 0, (version, run.stderr.decode()[-2000:])
        yield version, run


def linear(trace, kind):
    return [event for event in trace.of(kind) if event["memory"] == DEVICE]


def test_counters_and_profiler():
    plain = {version: json.loads(run.stdout) for version, run in each(TRAIN, shim=False)}
    for version, run in each(TRAIN):
        counted = json.loads(run.stdout)
        # torch.profiler sees the same as without us: libc10's own function is called.
        assert counted == plain[version] and counted["profiler_bytes"] > 1 << 20, (counted, plain[version])
        trace, = run.traces
        assert trace.facts["torch"].startswith(version) and trace.facts["device:0:simulated"] == "1"
        allocations, frees = trace.of(TORCH_ALLOC), trace.of(TORCH_FREE)
        assert len(allocations) == counted["allocations"]
        # Python's end frees the rest.
        assert counted["frees"] <= len(frees) <= len(allocations)
        assert max(e["allocated"] for e in allocations) == counted["allocated"]
        assert max(e["reserved"] for e in allocations) == counted["reserved"]
        segments = linear(trace, CUDA_ALLOC)
        assert len(segments) == counted["segments"] and sum(e["size"] for e in segments) == counted["reserved"]
        # Each backward runs on a thread of autograd's, where Python has nothing to say.
        other = [e for e in allocations if e["thread"] != int(trace.facts["pid"])]
        assert other and all(e["native"] and not e["python"] for e in other)
        assert all(e["python"][-1][1] == "<module>" for e in allocations if e not in other)
        assert any("libtorch_cpu" in module for e in allocations for _, module in e["native"])


def test_out_of_memory():
    for version, run in each(OOM):
        count, reserved, ooms = map(int, run.stdout.split())
        trace, = run.traces
        event, = trace.of(TORCH_OOM)
        assert ooms == 1 and event["size"] == 200 << 20 and event["allocated"] == count * (200 << 20)
        assert event["python"] and event["native"]
        failures = trace.of(CUDA_FAIL)
        assert failures and all(e["name"] == "cudaMalloc" and e["result"] == 2 for e in failures)
        assert reserved == 0 and len(linear(trace, CUDA_FREE)) == len(linear(trace, CUDA_ALLOC)) == count


def test_expandable_segments():
    setting = "expandable_segments:True"
    for version, run in each(OOM, {"PYTORCH_CUDA_ALLOC_CONF": setting, "PYTORCH_ALLOC_CONF": setting}):
        trace, = run.traces
        assert trace.facts["env:PYTORCH_CUDA_ALLOC_CONF"] == setting
        assert len(trace.of(TORCH_OOM)) == 1
        handles, mapped = set(), {}
        kinds = collections.Counter()
        for event in trace.of(CUDA_ALLOC, CUDA_FREE):
            kinds[event["memory"]] += 1
            if event["memory"] == PHYSICAL:
                assert (event["address"] in handles) == (event["event"] == CUDA_FREE)
                handles ^= {event["address"]}
            elif event["memory"] == MAPPED and event["event"] == CUDA_ALLOC:
                assert event["handle"] in handles
                mapped[event["address"]] = event["size"]
            elif event["memory"] == MAPPED:
                assert mapped.pop(event["address"]) == event["size"]
        assert kinds[PHYSICAL] > 100 and kinds[MAPPED] > 100
        # All is given back at the end.
        assert not handles and not mapped


if not ENVIRONMENTS:
    print("no PyTorch at hand")
    sys.exit(SKIPPED)
run_all(globals())
