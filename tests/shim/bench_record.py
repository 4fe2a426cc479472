#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What recording costs: one event in a loop, a pair of an allocation and its free and a whole training step under real
PyTorch on the simulated device, beside PyTorch's own recording, and the recorder's host memory.

Whatever is compared comes from one run, turn by turn; the figures are medians over the turns."""

import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
SHIM = HERE + "/../../lib/shim/libvramshim.so"
SOURCE = os.environ.get("SOURCE") or HERE + "/../../../tests/shim"
TURNS, STEPS = 21, 3
LEVELS = {"full": "both stacks", "native": "native only", "none": "no stacks"}
median = statistics.median


def interpreters():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return sorted(glob.glob(cache + "/vramshim/*torch-*[0-9]/bin/python"), reverse=True)


def environment(folder, level):
    """Of a recorded process; level "off": passed through."""
    return dict(os.environ, VRAMSHIM_OUT=folder, VRAMSHIM_LEVEL=level, VRAMSHIM_DISABLE="1" if level == "off" else "0")


def loop(python, level, before=(), arguments=()):
    """Output of record_loop, alone or below Python."""
    command = [python, SOURCE + "/record_loop.py", HERE + "/record_loop.so"] if python else [HERE + "/record_loop"]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(list(before) + command + list(arguments), env=dict(environment(folder, level), LD_PRELOAD=SHIM),
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()


def show_loop(python):
    print("One event in a loop, 64 stacks of 28 native frames%s, warm:" % (" and 40 of Python" if python else ""))
    off, _, off_cold = map(float, loop(python, "off").split())
    colds = []
    for level, name in LEVELS.items():
        event, p99, cold = map(float, loop(python, level).split())
        colds.append(cold - off_cold)
        print("  %-12s %5.0f ns median, %5.0f ns p99 (passed through: %.0f ns, not included in the median)"
              % (name, event - off, p99, off))
    print("  where the job has filled 32 KiB of cache with its own since the last one, on the average: %s"
          % ", ".join("%s %.0f ns" % pair for pair in zip(LEVELS.values(), colds)))


# Parts of an event: the function that is all of it, less those of other parts that it calls.
PARTS = {
    "Python's frames": ("vs_python_walk", ()),
    "native frames": ("vs_stack_capture", ("vs_python_walk",)),
    "counters, clock, codec": ("vs_thread_append", ()),
    "the rest": (None, ("vs_stack_capture", "vs_thread_append")),
}


def instructions(python, level, pairs):
    """Of all events: {function: instructions, also of what it calls}; None: all."""
    with tempfile.NamedTemporaryFile() as out:
        loop(python, level, ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out.name, "--demangle=no",
                             "--toggle-collect=_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"], [str(pairs)])
        counts = {None: int(re.search(rb"^(?:totals|summary): (\d+)", out.read(), re.M).group(1))}
        lines = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", out.name], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
    for count, function in re.findall(r"^ *([\d,]+)\b[^\n]*:(vs_\w+)", lines, re.M):
        counts[function] = max(counts.get(function, 0), int(count.replace(",", "")))
    return counts


def show_instructions(python):
    if not shutil.which("valgrind"):
        print("Instructions an event: valgrind is not installed.")
        return
    print("Instructions an event (callgrind), and of which parts:")
    for frames, interpreter in (("28 native frames", None), ("28 native and 40 of Python", python)):
        for level, name in LEVELS.items():
            # The difference has no first times in it.
            few, many = (instructions(interpreter, level, pairs) for pairs in (2048, 4096))
            event = {function: (many[function] - few.get(function, 0)) / (2 * 2048) for function in many}
            parts = {part: event.get(of, 0) - sum(event.get(other, 0) for other in less) for part, (of, less) in PARTS.items()}
            print("  %-27s %-12s %5.0f  (%s)" % (frames, name, event[None],
                                                ", ".join("%s %.0f" % part for part in parts.items() if part[1] >= 0.5)))


class Job:
    def __init__(self, python, folder, level):
        settings = ["VRAMSHIM_DISABLE=1"] if level == "off" else ["VRAMSHIM_LEVEL=" + level]
        command = [HERE + "/../../tools/vramrun", "-o", "%s/%s" % (folder, level), "--simulate", "H100-80", "--",
                   "env", *settings, python, SOURCE + "/record_job.py"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("bench_record: the job has ended with status %d" % self.process.wait())
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def step(self, mode):
        """(wall, CPU) ns of a step; the first after a change is not counted."""
        times = self.ask("step %s %d" % (mode, STEPS + 1))[1:]
        return median(time[0] for time in times), median(time[1] for time in times)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def differences(rows, key, kind):
    return median(row[key][kind] - row["off " + key.split()[1]][kind] for row in rows)


def show_job(python):
    with tempfile.TemporaryDirectory() as folder:
        jobs = {level: Job(python, folder, level) for level in (*LEVELS, "off")}
        info = [job.read() for job in jobs.values()][0]
        # (mode, process): what is compared with "off" of the same process.
        runs = [("off", "full"), ("on", "full"), ("python", "full"), ("all", "full"), ("off", "native"), ("on", "native"),
                ("off", "none"), ("on", "none")]
        names = [(LEVELS[level] + ", recorder" if mode == "on" else "torch's history, stacks=\"%s\"" % mode, mode, level)
                 for mode, level in runs if mode != "off"]
        # Before PyTorch's history takes some.
        used = {level: jobs[level].ask("memory") for level in ("full", "off")}
        steps, pairs = [], []
        for _ in range(TURNS):
            steps.append({"%s %s" % (mode, level): jobs[level].step(mode) for mode, level in runs})
            pairs.append({"%s %s" % (mode, level): (jobs[level].ask("pair " + mode),) for mode, level in runs})
        for job in jobs.values():
            job.end()
    events = info["events"]
    base = [row["off full"] for row in steps]
    print("PyTorch %s: a step of a Llama of 16 layers, %d events, %.1f ms of CPU unrecorded (%.1f ms of wall time)"
          % (info["torch"], events, median(row[1] for row in base) / 1e6, median(row[0] for row in base) / 1e6))
    print("  %-32s %10s %10s %12s %14s" % ("", "step, CPU", "step, wall", "ns an event", "ns a pair more"))
    added = {}
    for name, mode, level in names:
        key = "%s %s" % (mode, level)
        ratios = [median(row[key][kind] / row["off " + level][kind] for row in steps) for kind in (1, 0)]
        added[key] = differences(steps, key, 1), differences(pairs, key, 0)
        print("  %-32s %9.3fx %9.3fx %12.0f %14.0f" % (name, *ratios, added[key][0] / events, added[key][1]))
    ours = added["on full"]
    both, native, none = (added["on " + level][1] for level in LEVELS)
    print("  of a pair's %.0f ns: %.0f Python's frames, %.0f native ones, %.0f counters, clock and codec"
          % (both, both - native, native - none, none))
    for stacks in "all", "python":
        theirs = added[stacks + " full"]
        print("  torch's stacks=\"%s\" costs %.1f times as much a step, %.1f times as much a pair"
              % (stacks, theirs[0] / ours[0], theirs[1] / ours[1]))
    print("  host memory of the recorder: %.1f MiB beside the trace, of which %.1f MiB are mapped"
          % ((used["full"]["anonymous"] - used["off"]["anonymous"]) / 2**20, used["full"]["trace"] / 2**20))


found = interpreters()
python = found[0] if found else sys.executable
show_loop(None)
show_loop(python)
show_instructions(python)
for interpreter in found:
    show_job(interpreter)
