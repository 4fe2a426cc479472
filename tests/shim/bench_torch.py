#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What recording costs a real PyTorch: one tensor allocated and freed, below 25 Python frames, on the simulated device;
plain, under the recorder, and under PyTorch's own torch.cuda.memory._record_memory_history(stacks="all")."""

import glob
import os
import subprocess
import sys
import tempfile

BUILD = os.path.dirname(os.path.abspath(sys.argv[0])) + "/../.."
JOB = """
import sys, time, torch
def work(count):
    empty, device = torch.empty, torch.device("cuda")
    begin = time.perf_counter()
    for _ in range(count):
        empty(1000, device=device)
    return (time.perf_counter() - begin) / count
def below(depth):
    return below(depth - 1) if depth else sorted(work(200) for _ in range(400))[100]
torch.empty(1, device="cuda")
if sys.argv[1] == "history":
    torch.cuda.memory._record_memory_history(stacks="all", max_entries=100000)
below(25)
print(below(25) * 1e9)
"""


def measure(interpreter, mode):
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, VRAMSHIM_DISABLE="0" if mode == "recorder" else "1")
        return float(subprocess.run(
            [BUILD + "/tools/vramrun", "-o", folder + "/run", "--simulate", "A100-80", "--", interpreter, "-c", JOB, mode],
            env=environment, check=True, stdout=subprocess.PIPE).stdout)


cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
for interpreter in sorted(glob.glob(cache + "/vramshim/*torch-*[0-9]/bin/python")):
    plain, recorded, history = (measure(interpreter, mode) for mode in ("plain", "recorder", "history"))
    ours, theirs = recorded - plain, history - plain
    print("%s: an allocation and a free %.0f ns, recorded +%.0f, torch's history +%.0f: 1 / %.1f of it"
          % (interpreter.split("/")[-3], plain, ours, theirs, theirs / max(ours, 1)))
