#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory that runs out in a PyTorch job, by every way there is, on a simulated card: the reason on the job's stderr, once
where it matters and never where PyTorch's own second try succeeds.

    refusals.py --build BUILD --python PYTHON [--counts FILE] [CASE...]

Exits 1 where a case fails, 77 where torch is absent.
"""

import argparse
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GIB = 1 << 30


def empty(gib):
    import torch

    return torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda")


def greedy(library):
    import ctypes

    library = ctypes.CDLL(library)
    library.greedy_once.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library


# What the jobs do; each in a process of its own. Live tensors are kept in `held`.


def ends(library, held):
    while True:
        held.append(empty(3))


def second_try(library, held):
    """What is cached is given back, and the second cudaMalloc succeeds."""
    held += [empty(1) for _ in range(13)]
    del held[:]
    held.append(empty(12.5))


def caught(library, held):
    import torch

    held += [empty(3) for _ in range(4)]
    try:
        held.append(empty(3))
    except torch.OutOfMemoryError:
        held.append(empty(1))


def pluggable(library, held):
    import torch

    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "greedy_alloc", "greedy_free")
    torch.cuda.memory.change_current_allocator(allocator)
    held += [empty(3) for _ in range(4)]
    empty(3)  # this allocator answers NULL, and PyTorch takes it for memory


def refused_library(library, held):
    """PyTorch's cache has the memory, and keeps it."""
    held.append(empty(6))
    held.append(empty(7))
    del held[1]
    assert greedy(library).greedy_once(b"cuMemAlloc_v2", 3 * GIB) == 2


def snapshot(library, held):
    """PyTorch's own recording of an error, beside ours: whole, and without its history."""
    import pickle

    import torch

    folder = pathlib.Path(os.environ["SNAPSHOTS"])
    torch.cuda.memory._record_memory_history()
    held += [empty(3) for _ in range(4)]
    try:
        empty(3)
    except torch.OutOfMemoryError:
        torch.cuda.memory._dump_snapshot(str(folder / "whole.pickle"))
        bare = dict(torch.cuda.memory._snapshot(), device_traces=[[]])
        (folder / "bare.pickle").write_bytes(pickle.dumps(bare))
        raise


def pinned(library, held):
    """A small tensor splits a large cached block, and pins all of it, unless max_split_size forbids that. Expandable
    segments cannot help: each of their pages keeps a small tensor from the start."""
    large = []
    for _ in range(360):
        large.append(empty(19 / 1024))
        held.append(empty(2 / 1024))
    large.clear()
    del large
    big = empty(6)
    del big
    held.append(empty(30 / 1024))
    held.append(empty(10))


JOBS = {f.__name__: f for f in (pinned, ends, second_try, caught, pluggable, refused_library, snapshot)}

FULL = {"cause": "full", "request_bytes": 3 * GIB}
# name: (job, variables, reasons on stderr, words of them, what oom --json says: None where memory did not run out)
CASES = {
    "ends": ("ends", {}, 1, "full: ", FULL),
    "expandable": ("ends", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, 1, "full: ", FULL),
    "second-try": ("second_try", {}, 0, "", None),
    "caught": ("caught", {}, 1, "full: ", FULL),
    "async": ("ends", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, 1, "(cudaMallocAsync), which PyTorch uses "
              "without its own cache here", FULL),
    "uncached": ("ends", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, 1, "(cudaMalloc), which PyTorch uses without its own "
                 "cache here", FULL),
    "pluggable": ("pluggable", {}, 1, "to greedy.so (cudaMalloc)", FULL),
    "library": ("refused_library", {}, 1, "PyTorch's cache has it: 7.00 GiB are reserved but unallocated",
                {"cause": "fragmentation", "request_bytes": 3 * GIB, "unallocated_bytes": 7 * GIB}),
    "snapshot": ("snapshot", {}, 1, "full: ", FULL),
    "others": ("ends", {"VRAMSIM_OTHERS": str(8 * GIB)}, 1, "Other processes hold 8.00 GiB of this card",
               {"cause": "other_process", "other_processes_bytes": 8 * GIB, "request_bytes": 3 * GIB}),
    "pinned": ("pinned", {}, 1, "max_split_size 64 (needs 13.76 GiB)",
               {"cause": "full", "request_bytes": 10 * GIB, "shortfall_bytes": 0}),
    "quiet": ("ends", {"VRAMSHIM_OOM": "quiet"}, 0, "", FULL),
}


def fail(what, got, want):
    raise AssertionError(f"{what}: {got!r}, expected {want!r}")


def run(options, name, folder):
    job, variables, reasons, words, answer = CASES[name]
    greedy_path = options.build / "tests" / "tools" / "greedy.so"
    trace = folder / name
    command = [options.build / "tools" / "vramrun", "-o", trace, "--simulate", "t4", "--", options.python, __file__,
               "--child", job, greedy_path]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "240", "SNAPSHOTS": str(folder), **variables}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, timeout=300)
    said = " ".join(done.stderr.split())
    if said.count("Out of memory: ") != reasons:
        fail("reasons on stderr", done.stderr, reasons)
    if words not in said:
        fail("words", done.stderr, words)
    found = subprocess.run([options.build / "tools" / "vramreport", "oom", "--json", trace], capture_output=True, text=True)
    told = json.loads(found.stdout)
    for key, value in (answer or {"cause": None}).items():
        if told[key] != value:
            fail(key, told[key], value)
    for remedy in told["remedies"]:
        if remedy["evidence"] not in ("replayed", "estimated", "stated"):
            fail("evidence", remedy, "one of three")
    if job == "ends" and answer:
        same_text(options, done.stderr, told)
    if name == "pinned":
        by_another_setting(options, folder, trace, told)
    if job == "snapshot":
        of_snapshots(options, folder, told)
    post = subprocess.run([options.build / "tools" / "vramreport", "oom", trace], capture_output=True, text=True).stdout
    if (name == "caught") != ("The job caught the error and went on." in " ".join(post.split())):
        fail("said to be caught", post, name == "caught")


def by_another_setting(options, folder, trace, told):
    """Which settings serve it is as running with them tells."""
    remedies = {remedy["name"]: remedy for remedy in told["remedies"] if remedy["evidence"] == "replayed"}
    other = remedies["allocator_settings"]
    if other["enough"] is not True:
        fail("the setting that helps", other, "enough")
    if remedies["expandable_segments"]["enough"] is not False:
        fail("expandable segments", remedies["expandable_segments"], "not enough")
    swept = json.loads(subprocess.run([options.build / "tools" / "vramreport", "whatif", "--sweep", "--json", trace],
                                      capture_output=True, text=True).stdout)
    if not swept["baseline"]["exact"]:
        fail("replay", swept["baseline"], "exact")
    fits = {scenario["settings"]: scenario["fits"] for scenario in swept["scenarios"] if scenario["name"] != "perfect"}
    serve = {setting for setting, whether in fits.items() if whether}
    if not serve or not all(setting.startswith("max_split_size") for setting in serve):
        fail("settings that serve it", fits, "max_split_size alone")
    text = subprocess.run([options.build / "tools" / "vramreport", "oom", trace], capture_output=True, text=True).stdout
    named = re.findall(r"\(enough\): PYTORCH_CUDA_ALLOC_CONF=(\S+?)\.?\n", text)
    if len(named) != 1 or named[0] not in serve:
        fail("the setting named", text, f"one of {serve}")
    for setting in (*named, "expandable_segments:True", "roundup_power2_divisions:4"):
        done = subprocess.run([options.build / "tools" / "vramrun", "-o", folder / setting.replace(":", "-"),
                               "--simulate", "t4", "--", options.python, __file__, "--child", "pinned", "none"],
                              capture_output=True, text=True, env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting})
        if (done.returncode == 0) != (setting in serve):
            fail(f"running with {setting}", done.stderr, f"as said: {setting in serve}")


def of_snapshots(options, folder, told):
    """PyTorch's snapshot of the same error says the same, packed or not; one without history does not make one up."""
    whole = folder / "whole.pickle"
    packed = folder / "whole.pickle.gz"
    packed.write_bytes(gzip.compress(whole.read_bytes()))
    oom = [options.build / "tools" / "vramreport", "oom"]
    for path in (whole, packed):
        read = json.loads(subprocess.run([*oom, "--json", path], capture_output=True, text=True).stdout)
        for key in ("cause", "request_bytes", "free_bytes", "allocated_bytes", "reserved_bytes", "shortfall_bytes"):
            if read[key] != told[key]:
                fail(f"{path.name}: {key}", read[key], told[key])
        if not [r for r in read["remedies"] if r["evidence"] == "replayed"]:
            fail(f"{path.name}: remedies", read["remedies"], "one that was replayed")
    done = subprocess.run([*oom, folder / "bare.pickle"], capture_output=True, text=True)
    if done.returncode or "No out-of-memory error is in this snapshot" not in done.stdout or "12.00 GiB of 12.00 GiB" not in done.stdout:
        fail("without history", done.stdout + done.stderr, "no error, and what the segments say")


def same_text(options, stderr, told):
    """The error's own text, where it has numbers, leads to the same verdict as the recording."""
    text = stderr[stderr.index("Traceback"):]
    found = subprocess.run([options.build / "tools" / "vramreport", "oom", "--json", "--message", "-"], input=text,
                           capture_output=True, text=True)
    read = json.loads(found.stdout)
    if read["request_bytes"] is None:  # CUDA error: out of memory
        return
    if read["cause"] != told["cause"]:
        fail("cause by the text", read["cause"], told["cause"])
    for key in ("request_bytes", "total_bytes", "free_bytes", "allocated_bytes"):
        # Texts have two decimals of GiB.
        if read[key] is not None and abs(read[key] - told[key]) > 0.006 * GIB:
            fail(f"{key} by the text {text[-800:]}", read[key], told[key])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--counts", type=pathlib.Path, help="file for `passed failed skipped`")
    parser.add_argument("--child", nargs=2)
    parser.add_argument("names", nargs="*", default=list(CASES))
    options = parser.parse_args()
    if options.child:
        return JOBS[options.child[0]](options.child[1], [])
    if subprocess.run([options.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        print("skipped: no torch in", options.python)
        return 77
    options.build = options.build.resolve()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="vramshim-refusals-") as folder:
        for name in options.names:
            try:
                run(options, name, pathlib.Path(folder))
                print(f"{name:<12} ok", flush=True)
            except (AssertionError, ValueError, KeyError) as error:
                bad += 1
                print(f"{name:<12} FAIL {type(error).__name__}: {error}", flush=True)
    print(f"{len(options.names) - bad} passed, {bad} failed")
    if options.counts:
        options.counts.write_text(f"{len(options.names) - bad} {bad} 0\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
