# SPDX-License-Identifier: MIT
"""What the recorder's tests share: run something under the preload, read its traces, find interpreters.

The build folder comes in the environment variable BUILD.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
SHIM = BUILD + "/lib/shim/libvramshim.so"
TOOLS = BUILD + "/tests/shim"

TORCH_ALLOC, TORCH_FREE, TORCH_OOM, CUDA_ALLOC, CUDA_FREE, CUDA_FAIL, MARK, MEMINFO, EXIT = range(1, 10)
TORCH_ON_REQUEST = {"2.6.0"}
SKIPPED = 77  # what meson takes for "skipped"


class Trace:
    def __init__(self, path):
        self.path, self.size = path, os.path.getsize(path)
        self.events, self.facts, self.info = [], {}, {}
        stacks = {0: {"native": [], "python": [], "truncated": False}}
        output = subprocess.run([TOOLS + "/show", path], check=True, stdout=subprocess.PIPE).stdout
        for line in output.decode("utf-8").splitlines():
            record = json.loads(line)
            if "event" in record:
                self.events.append(record)
            elif "stack" in record:
                stacks[record["stack"]] = record
            elif "fact" in record:
                self.facts[record["fact"][0]] = record["fact"][1]
            else:
                self.info = record["info"]
        for event in self.events:
            for key in "native", "python", "truncated":
                event[key] = stacks[event["stack"]][key]

    def of(self, *types):
        return [event for event in self.events if event["event"] in types]


class Run:
    """A finished command: .status, .stdout, .stderr, .traces (where `read`, given the command, says so: it takes time)."""

    def __init__(self, command, out=None, preload=(), shim=True, env=(), kill_after=None, timeout=120, read=None, **arguments):
        self.folder = out or tempfile.mkdtemp(prefix="vramshim-test-")
        environment = dict(os.environ)
        environment.pop("LD_LIBRARY_PATH", None)  # meson sets it; the job must find things by itself
        for name in list(environment):
            if name.startswith(("VRAMSHIM_", "VRAMSIM_")):
                del environment[name]
        libraries = ([SHIM] if shim else []) + list(preload)
        if libraries:
            environment["LD_PRELOAD"] = ":".join(libraries)
        environment["VRAMSHIM_OUT"] = self.folder
        environment.update(env)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **arguments)
        if kill_after:
            process.stdout.readline()
            kill_after(process)
        try:
            self.stdout, self.stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.status = process.returncode
        paths = sorted(glob.glob(self.folder + "/*.vst"))
        self.traces = [Trace(path) for path in paths] if not read or read(self) else []
        if not out:
            shutil.rmtree(self.folder)


def interpreters(minors):
    """[(minor, path)] of the CPython 3.x at hand: one a minor version, at the most."""
    found = {}
    candidates = [shutil.which("python3.%d" % minor) for minor in minors]
    candidates += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    candidates += [sys.executable]
    for path in candidates:
        # pyenv's shims are scripts that know nothing of our environment.
        if not path or "/shims/" in path:
            continue
        result = subprocess.run([path, "-c", "import sys; print(sys.version_info[1])"], stdout=subprocess.PIPE)
        minor = int(result.stdout or 0)
        if minor in minors:
            found.setdefault(minor, path)
    return sorted(found.items())


def torch_environments():
    """[(version, interpreter)] of the private environments that scripts/test makes. Those it makes only on request
    count only on request, so that its usual run is the same on every machine: TORCH=VERSION is that one alone."""
    chosen, found = os.environ.get("TORCH"), []
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for path in sorted(glob.glob(cache + "/vramshim/python*torch*/bin/python")):  # not partial-*: being installed
        match = re.search(r"torch-([0-9.]+)/", path)
        if match and (match.group(1) == chosen if chosen else match.group(1) not in TORCH_ON_REQUEST):
            found.append((match.group(1), path))
    return found


def run_all(namespace):
    """Run every function test_* of a module's globals(); exit 0, or 1 with what failed."""
    import traceback

    chosen = sys.argv[1:]
    tests = [name for name in namespace if name.startswith("test_") and (not chosen or name in chosen)]
    failed = []
    for name in tests:
        try:
            namespace[name]()
            print("ok", name, flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
            print("FAILED", name, flush=True)
    finish(len(tests) - len(failed), len(failed))


def finish(passed, failed):
    """Exit, after summing up as cmocka does, so that scripts/test counts the cases of both alike."""
    print("[  PASSED  ] %d test(s)." % passed)
    if failed:
        print("[  FAILED  ] %d test(s)" % failed)
    sys.exit(1 if failed or not passed else 0)
