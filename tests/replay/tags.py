#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tags of snapshots that PyTorch writes of the jobs in tests/jobs, against what the jobs know of their own blocks.

    tags.py --build BUILD --python PYTHON [--counts FILE] [JOB...]

Each job records with stacks="all" and stacks="python", and a snapshot is written at its last two marks. Of the bytes
whose owner the job names, at least 99 % and 95 % must carry the owner's tag. Exits 1 where they do not, 77 where torch
is absent.
"""

import argparse
import collections
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BARS = {"all": 0.99, "python": 0.95}
JOBS = ("llama", "gpt2-amp", "lora", "llama-checkpointing", "nf4", "adam8bit")
MARKS = ("backward 2", "optimizer 2")


def child(name, stacks, folder):
    import torch

    sys.path.insert(0, str(HERE.parent / "jobs"))
    import job
    import truth

    class Snapshots(truth.Truth):
        def mark(self, mark, *args, **keywords):
            super().mark(mark, *args, **keywords)
            if mark in MARKS:
                torch.cuda.memory._dump_snapshot(os.path.join(folder, mark + ".pickle"))

    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history(stacks=stacks, max_entries=1 << 20)
    job.JOBS[name](Snapshots(os.path.join(folder, "truth.json")))


def wrong_bytes(vramreport, snapshot, known, misses):
    """Of the bytes the job named: all, and those with another tag."""
    answer = subprocess.run([vramreport, "blocks", snapshot, "--at", "end", "--csv"], capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(answer.stderr)
    found = {int(row["address"], 16): row["tag"] for row in csv.DictReader(io.StringIO(answer.stdout))}
    total = 0
    for tag, tensors in known["tags"].items():
        for address, size in tensors.items():
            total += size
            got = found.get(int(address, 16), "absent")
            if got != tag:
                misses[f"{tag} taken for {got}"] += size
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--counts", type=pathlib.Path, help="file for `passed failed skipped`")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the snapshots in this folder")
    parser.add_argument("jobs", nargs="*", default=JOBS)
    args = parser.parse_args()
    if subprocess.run([args.python, "-c", "import torch"], capture_output=True).returncode:
        print("skipped: no torch in", args.python)
        return 77
    tools = args.build.resolve() / "tools"
    bad = rows = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in args.jobs:
            for stacks, bar in BARS.items():
                folder = (args.keep or pathlib.Path(temporary)) / f"{name}-{stacks}"
                folder.mkdir(parents=True)
                command = [tools / "vramrun", "-o", folder / "run", "--simulate", "A100-40", "--", args.python, __file__,
                           "child", name, stacks, folder]
                done = subprocess.run(command, env=dict(os.environ, VRAMSHIM_DISABLE="1"), capture_output=True,
                                      text=True)
                rows += 1
                if done.returncode:
                    bad += 1
                    print(f"{name} {stacks}: exit {done.returncode}: {done.stderr.strip()[-500:]}", flush=True)
                    continue
                marks = json.loads((folder / "truth.json").read_text())["marks"]
                misses = collections.Counter()
                total = sum(wrong_bytes(tools / "vramreport", folder / f"{mark}.pickle", marks[mark], misses)
                            for mark in MARKS)
                share = 1 - sum(misses.values()) / total
                bad += share < bar
                print(f"{name:20} stacks={stacks:7} {100 * share:7.3f} % of {total} bytes", dict(misses) or "",
                      flush=True)
    print(f"{rows - bad} passed, {bad} failed")
    if args.counts:
        args.counts.write_text(f"{rows - bad} {bad} 0\n")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(main())
