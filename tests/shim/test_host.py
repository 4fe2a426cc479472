# SPDX-License-Identifier: MIT
"""Programs that do what programs do (host/), with and without the recorder: they print, say and return the same, and
what they counted themselves is in the traces."""

import concurrent.futures
import ctypes.util
import functools
import glob
import os
import re
import shutil
import stat
import subprocess
import tempfile

from recorder import CUDA_ALLOC, CUDA_FREE, SHIM, TOOLS, TORCH_ALLOC, TORCH_FREE, Run, run_all

HOST = TOOLS + "/host/host"
INTERPOSER = TOOLS + "/host/interpose.so"
SCENARIOS = Run([HOST, "--list"], shim=False).stdout.decode().split()

# Where the recorder cannot write its trace, it may say so: one line for each process.
SPEAKS = {"no-memory", "no-files", "tiny-files", "no-descriptors", "other-root", "other-user", "sandbox"}
# Where it cannot write all of it, or must not.
INCOMPLETE = SPEAKS
# Whose last events have a size of their own: what came before may be half done, these are seen.
LAST = {"alarms", "profiler", "alternate-stack", "alternate-stack-above", "jumps", "jumps-by-pools",
        "cancellation"}


def run(name, **options):
    result = Run([HOST, name], stdin=subprocess.DEVNULL, timeout=240,
                 read=lambda result: name in LAST or b"counted" in result.stdout, **options)
    said = [line for line in result.stderr.decode().splitlines() if line.startswith("vramshim: ")]
    if name in SPEAKS:
        result.stderr = b"".join(line for line in result.stderr.splitlines(True) if not line.startswith(b"vramshim: "))
    result.seen = (result.status, result.stdout.decode(), result.stderr.decode())
    result.said = said
    return result


@functools.lru_cache(maxsize=None)
def plain(name):
    return run(name, shim=False).seen


def same(name, result):
    assert result.seen == plain(name), "%s:\nwithout: %s\nwith:    %s" % (name, plain(name), result.seen)


def counts(traces):
    """(CUDA's events, PyTorch's) of all traces together."""
    return (sum(len(trace.of(CUDA_ALLOC, CUDA_FREE)) for trace in traces),
            sum(len(trace.of(TORCH_ALLOC, TORCH_FREE)) for trace in traces))


def complete(name, result):
    counted = re.search(r"^counted (\d+) (\d+)$", result.stdout.decode(), re.M)
    if counted and name not in INCOMPLETE:
        assert counts(result.traces) == (int(counted.group(1)), int(counted.group(2))), (name, counts(result.traces), counted.group(0))
        assert all(trace.info["lost"] == 0 for trace in result.traces), name
    if name in LAST:
        last = [[e["event"] for e in trace.events if e["size"] == 777] for trace in result.traces]
        assert [TORCH_ALLOC] in [[e for e in events if e == TORCH_ALLOC][:1] for events in last], name
        assert sum(events.count(CUDA_ALLOC) for events in last) == 10, (name, last)
        assert sum(events.count(TORCH_FREE) for events in last) == 10, (name, last)


def all_of(names, check):
    """Run a check on each scenario, two at a time; every failure is told."""
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = {pool.submit(check, name): name for name in names}
        for future in concurrent.futures.as_completed(futures):
            error = future.exception()
            if error:
                wrong.append("%s: %s: %s" % (futures[future], type(error).__name__, error))
    assert not wrong, "\n".join([""] + wrong)


def test_recorded():
    def check(name):
        result = run(name)
        same(name, result)
        complete(name, result)
    all_of(SCENARIOS, check)


def test_recorded_in_little_space():
    """A trace that is full after a few hundred events."""
    def check(name):
        result = run(name, env={"VRAMSHIM_MAX_SIZE": "131072", "VRAMSHIM_LEVEL": "light"})
        same(name, result)
        # What is missing is counted: in all traces together, nothing is unaccounted for.
    all_of(["storm", "race", "fork-amid", "alarms", "jumps", "memory-ends", "loading-in-threads"], check)


def test_refusals_are_told_in_little_stack():
    result = run("least-stacks", env={"VRAMSHIM_REPORT": "/bin/true"})
    same("least-stacks", result)
    complete("least-stacks", result)


def test_disabled():
    """The switch that makes a pure pass-through of it."""
    def check(name):
        result = run(name, env={"VRAMSHIM_DISABLE": "1"})
        same(name, result)
        assert not result.said and result.traces == []
    all_of(SCENARIOS, check)


def test_nowhere_to_write():
    def check(name):
        result = run(name, env={"VRAMSHIM_OUT": "/no/such/folder"})
        assert result.traces == []
        result.seen = (result.status, result.stdout.decode(), re.sub(r"(?m)^vramshim: .*\n", "", result.stderr.decode()))
        same(name, result)
    all_of(["storm", "fork-nested", "alarms", "jumps", "aborting", "first-thread-leaves", "closed-streams",
            "closed-streams-and-few", "stderr-is-a-file", "descriptors-taken", "worked", "sandbox"], check)


def test_read_only_and_full_folders():
    if os.geteuid():
        print("not root: no file system of our own to mount")
        return
    with tempfile.TemporaryDirectory() as folder:
        for options in "size=64k", "size=512k", "ro":
            script = "mount -t tmpfs -o %s none %s && VRAMSHIM_OUT=%s LD_PRELOAD=%s exec %s %s"
            for name in "worked", "race", "fork-nested":
                command = ["unshare", "-m", "/bin/sh", "-c", script % (options, folder, folder, SHIM, HOST, name)]
                result = Run(command, shim=False)
                lines = result.stderr.decode().splitlines()
                assert (result.status, result.stdout.decode()) == plain(name)[:2], (options, name, result.stderr)
                assert all(line.startswith("vramshim: ") for line in lines) and len(lines) <= 1, lines


def test_folder_vanishes():
    folder = tempfile.mkdtemp(prefix="vramshim-test-")
    result = Run(["/bin/sh", "-c", "rm -rf %s; exec %s fork-nested" % (folder, HOST)], out=folder)
    assert (result.status, result.stdout.decode()) == plain("fork-nested")[:2]
    assert len(result.stderr.decode().splitlines()) == 1, result.stderr  # the children know from their parent


def test_other_interposers():
    """Before and after us, each call is seen once by either."""
    for name in "returning", "storm", "spawn", "plugins-in-turn", "exceptions", "jump-inside", "fork-nested":
        if name not in SCENARIOS:
            continue
        alone = run(name, shim=False, preload=[INTERPOSER])
        assert alone.seen == plain(name), (name, alone.seen)
        for before, after in ((INTERPOSER, None), (None, INTERPOSER)):
            libraries = [library for library in (before, SHIM, after) if library]
            result = run(name, shim=False, preload=libraries)
            same(name, result)
            complete(name, result)
    counted = []
    for libraries in ([INTERPOSER], [INTERPOSER, SHIM], [SHIM, INTERPOSER]):
        counted.append(run("returning", shim=False, preload=libraries, env={"INTERPOSE": "1"}).stderr)
    assert counted[0].startswith(b"interposed 10 10 30") and len(set(counted)) == 1, counted


def test_other_allocators():
    """A malloc of another library's, which calls the loader while it starts."""
    library = ctypes.util.find_library("jemalloc")
    if not library:
        print("libjemalloc is not installed: not tried")
        return
    for order in [library, SHIM], [SHIM, library]:
        for name in "storm", "fork-amid", "loading-in-threads", "plugins-before", "fork-atexit", "small-stacks":
            result = run(name, shim=False, preload=order)
            same(name, result)
            complete(name, result)


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def test_programs_that_gain_privileges():
    """The loader ignores us there; so does everything else."""
    if os.geteuid():
        print("not root: no program to make setuid")
        return
    folder = tempfile.mkdtemp(prefix="vramshim-setuid-")
    try:
        os.chmod(folder, 0o755)
        program = shutil.copy("/usr/bin/id", folder + "/id")
        os.chmod(program, stat.S_ISUID | 0o755)
        out = folder + "/out"
        os.mkdir(out)
        os.chmod(out, 0o777)
        seen = []
        for shim in False, True:
            result = Run([program, "-un"], shim=shim, out=out, preexec_fn=as_nobody)
            seen.append((result.status, result.stdout, result.stderr))
            assert result.traces == []
        assert seen[0] == seen[1] == (0, b"root\n", b""), seen
    finally:
        shutil.rmtree(folder)


def test_shells_and_tools():
    """What a job's scripts call: nothing of ours is in their output."""
    for script in ("echo a; (echo b; exit 3) | cat; x=$(echo c); echo $x; exec 3>&1; echo d >&3; false || exit 5",
                   "ls / > /dev/null; find /proc/self/fd -maxdepth 0; env -i /bin/echo bare; sed -n 1p /etc/passwd",
                   "ulimit -v 400000; echo limited; ulimit -f 0; echo none", "exec 0<&- 1>&- 2>&-; true; exit 6",
                   "trap 'echo trapped; exit 9' TERM; kill -TERM $$; sleep 5"):
        for shell in "/bin/sh", "/bin/bash":
            seen = []
            for shim in False, True:
                result = Run([shell, "-c", script], shim=shim)
                seen.append((result.status, result.stdout, result.stderr))
                assert result.traces == []
            assert seen[0] == seen[1], seen


run_all(globals())
