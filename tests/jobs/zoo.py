# SPDX-License-Identifier: MIT
"""The jobs that tags are proved on: zoo.py FOLDER [--profile] [--snapshots all|python] <JOBS. Small models of real
architectures, random weights; unmodified code of the frameworks. Knows nothing of how it is run but the marks it writes
(roles.py)."""
import argparse
import contextlib
import importlib
import os
import pathlib
import signal
import sys
import time
import traceback

import torch
import transformers  # noqa: F401: slow to import, and nearly all jobs want it

from roles import Roles

LIMIT = 180  # seconds a job
MODULES = ["zoo_models", "zoo_memory", "zoo_optimizers", "zoo_parallel", "zoo_frameworks"]


def jobs():
    found = {}
    for name in MODULES:
        found.update(importlib.import_module(name).JOBS)
    return found


class AsTruth:
    """What the jobs of job.py take, before the same marks."""

    def __init__(self, roles):
        self.roles = roles

    def mark(self, name, model=None, optimizer=None, inputs=()):
        if model is not None and not self.roles.models:
            self.roles.watch(model, optimizers=[optimizer])
        self.roles.mark(name, inputs=inputs)

    def write(self):
        self.roles.write()


def ordinary():
    """The jobs of job.py, as `run:NAME`."""
    import job

    return {f"run:{name}": lambda roles, run=run: run(AsTruth(roles)) for name, run in job.JOBS.items()}


def record(stacks, folder):
    """PyTorch's own recording, and what writes its snapshot at each mark."""
    torch.cuda.memory._record_memory_history(stacks=stacks, max_entries=1 << 20)
    return lambda mark: torch.cuda.memory._dump_snapshot(str(folder / f"{mark}.pickle"))


def categories(profile):
    """PyTorch's own word for each storage at each mark: {mark: {address: [bytes, category]}}."""
    from torch.profiler import _memory_profiler as memory

    analysis = profile._memory_profile()
    marks = {}

    def visit(nodes):
        for node in nodes:
            if node.name.startswith("mark:"):
                marks[node.name.removeprefix("mark:")] = node.start_time_ns
            visit(node.children)

    visit(profile.profiler.kineto_results.experimental_event_tree())
    found, live = {}, {}
    pending = sorted(marks.items(), key=lambda item: item[1])

    def look(until):
        while pending and (until is None or pending[0][1] <= until):
            found[pending.pop(0)[0]] = dict(live)

    for at, action, (key, version), size in analysis.timeline:
        if at > 0:  # -1: alive before the profile
            look(at)
        if key.device.type != "cuda" or not isinstance(key, memory.TensorKey):
            continue
        category = analysis._categories.get(key, version + (action == memory.Action.INCREMENT_VERSION))
        if action == memory.Action.DESTROY:
            live.pop(hex(key.storage.ptr), None)
        else:
            live[hex(key.storage.ptr)] = [size, category.name if category else None]
    look(None)
    return found


def run(name, folder, profiled, snapshots):
    torch.manual_seed(0)
    job = {**jobs(), **ordinary()}[name]
    if name == "run:llama-expandable":
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    after = record(snapshots, folder) if snapshots else None
    roles = Roles(folder / "truth.json", aside=profiled, after=after)
    profile = contextlib.nullcontext()
    if profiled:
        profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
        )
    started = time.perf_counter()
    with profile, roles.hooks():
        job(roles)
    more = {"seconds": time.perf_counter() - started - roles.seconds}
    if profiled:
        started = time.perf_counter()
        try:
            more["categories"] = categories(profile)
        except Exception as error:  # its own assertions fire on some jobs: a result, too
            more["categories_error"] = f"{type(error).__name__}: {error}"[:300]
        more["analysis_seconds"] = time.perf_counter() - started
    roles.write(
        max_allocated=torch.cuda.max_memory_allocated(), max_reserved=torch.cuda.max_memory_reserved(), **more
    )


def child(name, folder, options):
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.alarm(LIMIT)
    try:
        run(name, folder, options.profile, options.snapshots)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main():
    """Reads names of jobs, a line each, and runs each in a fork of this process, which has imported what takes long and
    has touched no GPU: its own process to the recorder, its own trace. Prints `JOB PID STATUS` when one has ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--profile", action="store_true", help="under torch.profiler, which then says its categories too")
    parser.add_argument("--snapshots", choices=["all", "python"], help="PyTorch's own snapshot at each mark, these stacks")
    options = parser.parse_args()
    jobs()
    for line in sys.stdin:
        name = line.strip()
        folder = options.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "truth.json").unlink(missing_ok=True)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            status = child(name, folder, options)
            sys.stdout.flush()
            sys.stderr.flush()
            if status:
                os._exit(status)
            return  # the interpreter's own end: the trace is closed as any job's
        _, status = os.waitpid(pid, 0)
        print(name, pid, os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
