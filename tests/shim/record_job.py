# SPDX-License-Identifier: MIT
"""A training job that says what its steps take, under one kind of recording after the other in the same process.

Reads lines "step MODE COUNT" and "pair MODE" and answers each with one line of JSON. MODE: off, on (the recorder), python,
all (PyTorch's own torch.cuda.memory._record_memory_history with these stacks, for allocations and frees).
  step: [[wall ns, CPU ns], ...], one a step; 16 layers of Llama-2-7B's shape in bf16, AdamW
  pair: nanoseconds of one torch.empty() and its free, median of batches, called in a hook of a layer deep in the model
"""

import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import time

import torch
import transformers

LAYERS, LENGTH = 16, 2048
# What PyTorch's documentation of memory snapshots uses.
HISTORY_ENTRIES = 100000


def recording_switch():
    """The recorder's own switch (vs_recording in thread.h; off: calls are passed through), by its symbol; None without."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip().endswith("/libvramshim.so"):
                base, path = int(line.split("-")[0], 16), line.split()[-1]
                symbols = subprocess.run(["nm", path], stdout=subprocess.PIPE, check=True).stdout.decode()
                offset = re.search(r"^([0-9a-f]+) \w vs_recording$", symbols, re.M).group(1)
                return ctypes.c_bool.from_address(base + int(offset, 16))
    return None


config = transformers.LlamaConfig(num_hidden_layers=LAYERS, intermediate_size=11008, vocab_size=32000, use_cache=False,
                                  dtype="bfloat16")
with torch.device("cuda"):
    model = transformers.LlamaForCausalLM._from_config(config, dtype=torch.bfloat16).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
switch = recording_switch()
switch_on = switch.value
mode_now = "on" if switch_on else "off"


def set_mode(mode):
    global mode_now
    if mode == mode_now:
        return
    if mode_now in ("python", "all"):
        torch.cuda.memory._record_memory_history(None)
    switch.value = mode == "on" and switch_on
    if mode in ("python", "all"):
        torch.cuda.memory._record_memory_history("all", context="all", stacks=mode, max_entries=HISTORY_ENTRIES)
    mode_now = mode


def step():
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    ids = torch.randint(0, config.vocab_size, (1, LENGTH), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return time.perf_counter_ns() - wall, time.process_time_ns() - cpu


pairs = []


def measure_pairs(*_):
    empty, device, clock = torch.empty, torch.device("cuda"), time.perf_counter_ns
    for _ in range(40):
        begin = clock()
        for _ in range(200):
            empty(1000, device=device)
        pairs.append((clock() - begin) / 200)


def pair():
    pairs.clear()
    hook = model.model.layers[3].mlp.register_forward_hook(measure_pairs)
    with torch.no_grad():
        model(input_ids=torch.zeros((1, 8), dtype=torch.long, device="cuda"))
    hook.remove()
    return statistics.median(pairs)


def events():
    stats = torch.cuda.memory_stats()
    return stats["allocation.all.allocated"] + stats["allocation.all.freed"]


def memory():
    """Bytes of host memory: anonymous, and of the trace's mappings."""
    anonymous = trace = 0
    ours = False
    with open("/proc/self/smaps") as maps:
        for line in maps:
            if re.match(r"[0-9a-f]+-", line):
                ours = line.rstrip().endswith(".vst")
            elif line.startswith("Anonymous:"):
                anonymous += int(line.split()[1]) << 10
            elif line.startswith("Rss:") and ours:
                trace += int(line.split()[1]) << 10
    return {"anonymous": anonymous, "trace": trace}


for _ in range(3):
    step()
before = events()
step()
print(json.dumps({"events": events() - before, "torch": torch.__version__}), flush=True)
for line in sys.stdin:
    what, *arguments = line.split()
    if what == "memory":
        answer = memory()
    else:
        set_mode(arguments[0])
        answer = pair() if what == "pair" else [step() for _ in range(int(arguments[1]))]
    print(json.dumps(answer), flush=True)
# PyTorch aborts at its end now and then, which is not our concern here.
os._exit(0)
