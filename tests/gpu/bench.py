# SPDX-License-Identifier: MIT
"""Runs things for gpu-check: each in a session of its own with a limit, so that nothing that hangs eats the whole
time, and nothing that a job leaves behind goes on."""

import json
import os
import pathlib
import signal
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
MIB, GIB = 1 << 20, 1 << 30


class CouldNot(Exception):
    """A check that cannot be made here, with the reason."""


class Ran:
    def __init__(self, status, seconds, out, err, run, told):
        self.status, self.seconds, self.out, self.err, self.run, self.told = status, seconds, out, err, run, told


class Bench:
    """`simulate`: the card that stands for the real one throughout, or None."""

    def __init__(self, build, folder, python, simulate, deadline):
        self.build, self.folder, self.python, self.simulate = build, folder, python, simulate
        self.deadline, self.number, self.dry, self.commands = deadline, 0, None, []
        extra = build / "lib" / "extra"  # what a packed build brings along
        paths = [str(extra)] if extra.is_dir() else []
        paths += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
        self.environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if paths:
            self.environment["LD_LIBRARY_PATH"] = ":".join(paths)
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "VRAMSHIM_DISABLE", "VRAMSHIM_LEVEL"):
            self.environment.pop(name, None)

    def left(self):
        return self.deadline - time.monotonic()

    def command(self, command, limit, environment=None, until=None):
        """Ran. `until`: killed by SIGKILL as soon as it has written this."""
        limit = min(limit, self.left())
        if limit < 5:
            raise CouldNot("no time is left")
        self.number += 1
        out_path, err_path = (self.folder / f"{self.number}.{name}" for name in ("out", "err"))
        started = time.monotonic()
        with open(out_path, "wb") as out, open(err_path, "wb") as err:
            process = subprocess.Popen(
                [str(word) for word in command],
                env={**self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            status = None
            while status is None and time.monotonic() - started < limit:
                if until and until in out_path.read_text(errors="replace"):
                    os.kill(process.pid, signal.SIGKILL)
                    until = None
                try:
                    status = process.wait(0.02 if until else min(0.5, max(0.01, limit - time.monotonic() + started)))
                except subprocess.TimeoutExpired:
                    pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            late = status is None
            process.wait()
        seconds = time.monotonic() - started
        texts = [path.read_text(errors="replace") for path in (out_path, err_path)]
        self.commands.append(
            {"command": [str(word) for word in command], "status": status, "seconds": round(seconds, 2)}
        )
        if late:
            raise CouldNot(f"still running after {limit:.0f} s: {' '.join(texts[1].split())[-200:]}")
        return Ran(status, seconds, *texts, None, None)

    def prefix(self, record, dry):
        """What stands before the command; its variables; the folder of the recording."""
        run = self.folder / f"run{self.number + 1}"
        vramrun = [self.build / "tools" / "vramrun", "-o", run]
        card = {"CUDA_VISIBLE_DEVICES": "0"}  # there is one, whatever number the real one has
        if dry:
            return [*vramrun, *self.dry, "--"], card, run
        if self.simulate:
            unrecorded = {} if record else {"VRAMSHIM_DISABLE": "1"}
            return [*vramrun, "--simulate", self.simulate, "--"], {**card, **unrecorded}, run
        return ([*vramrun, "--"], {}, run) if record else ([], {}, None)

    def script(self, script, *arguments, record=False, dry=False, limit=60, environment=None, until=None):
        """A script of this folder, which writes its last argument. `dry`: recorded, on the simulated card."""
        before, variables, run = self.prefix(record or dry, dry)
        path = self.folder / f"{self.number + 1}.json"
        command = [*before, self.python, HERE / script, *arguments, path]
        ran = self.command(command, limit, {**variables, **(environment or {})}, until)
        ran.run = run if record or dry else None
        if path.exists():
            try:
                ran.told = json.loads(path.read_text())
            except ValueError:  # killed while it wrote
                pass
        return ran

    def job(self, name, **options):
        return self.script("job.py", name, **options)

    def vramreport(self, *arguments, statuses=(0,)):
        ran = self.command([self.build / "tools" / "vramreport", *arguments], 60)
        if ran.status not in statuses:
            raise CouldNot(f"vramreport says {' '.join(ran.err.split())[-200:] or ran.status}")
        return ran.out

    def report(self, run):
        """The one device of the one process of a run."""
        processes = [p for p in json.loads(self.vramreport("report", "--json", run))["processes"] if p["devices"]]
        if len(processes) != 1 or len(processes[0]["devices"]) != 1:
            raise CouldNot(f"the recording has {len(processes)} processes with a GPU")
        return processes[0], processes[0]["devices"][0]

    def events(self, run):
        (process,) = json.loads(self.vramreport("dump", "--json", run))["processes"]
        return process


def worked(ran):
    """A job that was to end well."""
    if ran.status:
        lines = [line for line in ran.err.strip().splitlines() if line.strip()] or ["nothing on stderr"]
        how = f"signal {-ran.status}" if ran.status < 0 else f"status {ran.status}"
        raise CouldNot(f"the job ended with {how}: {lines[-1][-200:]}")
    if ran.told is None:
        raise CouldNot("the job wrote nothing")
    return ran.told


def size(number):
    if number is None:
        return "?"
    return f"{number / GIB:.2f} GiB" if abs(number) >= GIB else f"{number / MIB:.2f} MiB"
