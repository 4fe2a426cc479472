#!/usr/bin/env python3
"""What vramreport snapshot writes, against PyTorch's own snapshot of the same job and PyTorch's own viewer.

    viewer.py --build BUILD --python PYTHON

A job runs under vramrun on the simulated device and dumps PyTorch's snapshot at its end. Ours, made from the trace,
must have the same segments, the same live blocks and the same allocations, and torch.cuda._memory_viz must open it.
Exits 1 where not, 77 where torch is absent.
"""

import argparse
import pathlib
import pickle
import pickletools
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = {"default": "", "expandable": "expandable_segments:True", "split": "max_split_size_mb:64"}


def job(name, path):
    import torch

    sys.path.insert(0, str(HERE))
    import jobs

    jobs.run(torch, {"job": name}, path)


def view(path):
    """Under the interpreter that has torch."""
    from torch.cuda import _memory_viz

    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    for show in (_memory_viz.segsum, _memory_viz.trace, _memory_viz.trace_plot, _memory_viz.segment_plot):
        assert len(show(snapshot)) > 100, show


def live(snapshot):
    return sorted((block["address"], block["size"]) for segment in snapshot["segments"]
                  for block in segment["blocks"] if block["state"] == "active_allocated")


def segments(snapshot):
    return [(s["device"], s["address"], s["total_size"], s["allocated_size"], s["segment_type"], s["is_expandable"])
            for s in snapshot["segments"]]


def allocations(snapshot):
    return [(e["action"], e["addr"]) for e in snapshot["device_traces"][0]
            if e["action"] in ("alloc", "segment_alloc", "segment_free", "free_requested")]


def compare(ours, theirs):
    wrong = [what.__name__ for what in (segments, live, allocations) if what(ours) != what(theirs)]
    categories = {e.get("category") for e in ours["device_traces"][0]}
    wrong += [f"no category {name}" for name in ("weights", "gradients", "unknown") if name not in categories]
    wrong += [] if any(e["frames"] for e in ours["device_traces"][0]) else ["no frames"]
    for segment in ours["segments"]:
        if sum(block["size"] for block in segment["blocks"]) != segment["total_size"]:
            wrong.append("blocks do not fill a segment")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--counts", type=pathlib.Path, help="file for `passed failed skipped`")
    parser.add_argument("--job", nargs=2)
    parser.add_argument("--view")
    args = parser.parse_args()
    if args.job:
        return job(*args.job)
    if args.view:
        return view(args.view)
    if subprocess.run([args.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        print("skipped: no torch in", args.python)
        return 77
    tools = args.build.resolve() / "tools"
    bad = 0
    for name, text in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            run, theirs, ours = (str(pathlib.Path(folder) / part) for part in ("run", "theirs", "ours"))
            command = ["env", f"PYTORCH_CUDA_ALLOC_CONF={text}", tools / "vramrun", "-o", run, "--simulate", "a100-40",
                       "--", args.python, __file__, "--job", "transformer", theirs]
            subprocess.run(command, check=True)
            subprocess.run([tools / "vramreport", "snapshot", run, "-o", ours], check=True)
            with open(ours, "rb") as mine, open(theirs, "rb") as other:
                wrong = compare(pickle.load(mine), pickle.load(other))
            with open(ours, "rb") as mine:
                opcodes = {opcode.name for opcode, _, _ in pickletools.genops(mine)}
            wrong += sorted(opcodes & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "LONG4", "BUILD"})
            if subprocess.run([args.python, __file__, "--view", ours]).returncode:
                wrong.append("torch.cuda._memory_viz does not open it")
            print(f"{name:11} {'; '.join(wrong) or 'the same'}", flush=True)
            bad += bool(wrong)
    print(f"{len(SETTINGS) - bad} passed, {bad} failed")
    if args.counts:
        args.counts.write_text(f"{len(SETTINGS) - bad} {bad} 0\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
