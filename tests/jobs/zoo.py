# SPDX-License-Identifier: MIT
"""The jobs that tags are proved on: zoo.py FOLDER [--profile|--unmodified|--snapshots all|python] <JOBS. Small models of
real architectures, random weights; unmodified code of the frameworks. Knows nothing of how it is run but the marks it writes
(roles.py)."""
import argparse
import contextlib
import gc
import importlib
import os
import pathlib
import signal
import sys
import time
import traceback

import torch
import transformers  # noqa: F401: slow to import, and nearly all jobs want it

from roles import Roles, Silence

LIMIT, LIMIT_PROFILED = 180, 900  # seconds a job; torch.profiler's analysis takes a hundred times as long as some jobs
MODULES = ["zoo_models", "zoo_memory", "zoo_optimizers", "zoo_parallel", "zoo_frameworks", "zoo_odd", "zoo_loops"]
# What else is imported before a job's seconds are counted, in its own process: it may touch the GPU.
IMPORTS = {
    "unet": ["diffusers.models.unets.unet_2d", "diffusers.schedulers.scheduling_ddpm"],
    "adamw-8bit": ["bitsandbytes"],
    "adafactor-hf": ["transformers.optimization"],
    "lora": ["peft"],
    "nf4-paged-8bit": ["bitsandbytes", "peft"],
    "trainer": ["transformers.trainer", "accelerate"],
    "accelerate": ["accelerate"],
    "lightning": ["lightning"],
    "deepspeed-zero2": ["deepspeed"],
    "deepspeed-zero3": ["deepspeed"],
    "compile": ["torch._inductor.compile_fx"],
}
# What jobs import while they run, unless it is there already: millions of calls, which a profiler of Python follows.
# Without what touches the GPU when it is imported, as bitsandbytes does and those that import it.
SLOW = {
    "torch._dynamo": "",
    "transformers": "LlamaForCausalLM GPT2LMHeadModel BertForMaskedLM T5ForConditionalGeneration Qwen2ForCausalLM "
    "ViTForImageClassification MixtralForCausalLM DynamicCache StoppingCriteria",
    "torchvision.models": "resnet50",
}


def jobs():
    """Those that the bars hold for; `all_jobs` has the others too."""
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


def all_jobs():
    return {**jobs(), **importlib.import_module("zoo_odd").UNKNOWN, **ordinary()}


def warm_up():
    """Imports what is slow to import. Touches no GPU and starts no thread: this process forks."""
    for module, names in SLOW.items():
        with contextlib.suppress(ImportError):  # the job that needs it says so
            module = importlib.import_module(module)
            for name in names.split():
                getattr(module, name)
    assert not torch.cuda.is_initialized()
    gc.collect()
    gc.freeze()  # what the truth is looked for in are the objects that the job makes


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


def run(name, folder, options):
    torch.manual_seed(0)
    job = all_jobs()[name]
    for module in IMPORTS.get(name, ()):
        importlib.import_module(module)
    if name == "run:llama-expandable":
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    after = record(options.snapshots, folder) if options.snapshots else None
    path = folder / "truth.json"
    roles = Silence(path) if options.unmodified else Roles(path, aside=options.profile, after=after)
    profile = contextlib.nullcontext()
    if options.profile:
        profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
        )
    started = time.perf_counter()
    with profile, roles.hooks():
        job(roles)
    more = {"seconds": time.perf_counter() - started - roles.seconds}
    if options.profile:
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
    signal.alarm(LIMIT_PROFILED if options.profile else LIMIT)
    try:
        run(name, folder, options)
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
    parser.add_argument("--unmodified", action="store_true", help="marks only: nothing else is done to the job")
    options = parser.parse_args()
    all_jobs()
    warm_up()
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
