# SPDX-License-Identifier: MIT
"""Runs jobs of the zoo on a simulated GPU, in one of several ways, and keeps what came of it."""
import dataclasses
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JOBS = ("zoo.py", "zoo_[!r]*.py", "roles.py", "models.py", "job.py")  # what decides a run, beside the libraries in it
LIBRARIES = ("lib/shim/libvramshim.so", "lib/sim/libvramsim.so")


@dataclasses.dataclass(frozen=True)
class Way:
    name: str
    recorded: bool = False
    arguments: tuple = ()  # of zoo.py
    recorder: tuple = ()  # options of vramrun


RECORDED = Way("recorded", True)  # under the recorder, the truth written at each mark
UNMODIFIED = Way("unmodified", True, ("--unmodified",))  # under the recorder, and nothing else done to the job
PLAIN = Way("plain")  # as recorded, without the recorder: what its seconds are compared with
PROFILED = Way("profiled", False, ("--profile",))  # under torch.profiler, which says its categories at each mark


def ended(status):
    """How a job failed, in a word: by what follows, its last output, nobody knows."""
    if status == -signal.SIGALRM:
        return "took too long"
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


class Zoo:
    """A process that runs jobs one at a time (zoo.py): what takes long to import is imported once. Started by the first
    job that has not been run already: runs in the folder `keep` serve again while nothing that decides them has
    changed."""

    def __init__(self, options, keep, way):
        self.options, self.way, self.folder = options, way, keep / way.name
        self.process = None
        self.stamp = self._stamp()

    def _stamp(self):
        text = hashlib.sha256(f"{self.options.gpu} {self.options.python}".encode())
        for file in sorted(path for pattern in JOBS for path in HERE.glob(pattern)):
            text.update(file.read_bytes())
        for library in LIBRARIES:
            text.update((self.options.build / library).read_bytes())
        return text.hexdigest()

    def _start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.run = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        variables = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        if not self.way.recorded:
            variables["VRAMSHIM_DISABLE"] = "1"
        command = [self.options.build / "tools/vramrun", "-o", self.run, "--force", "--simulate", self.options.gpu]
        command += [*self.way.recorder, "--", self.options.python, HERE / "zoo.py", self.folder, *self.way.arguments]
        with open(self.folder / "stderr.txt", "a") as errors:  # what jobs say is in their output.txt
            self.process = subprocess.Popen(
                command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
            )

    def job(self, name):
        """The job's trace (None without one) and truth; RuntimeError with what it said where it failed."""
        kept = self.folder / name
        stamp = kept / "stamp"
        again = stamp.exists() and getattr(self.options, "again", False)
        if not again and (not stamp.exists() or stamp.read_text() != self.stamp):
            if not self.process:
                self._start()
            stamp.unlink(missing_ok=True)
            self.process.stdin.write(f"{name}\n")
            line = self.process.stdout.readline().split()
            if len(line) != 3:
                raise RuntimeError(f"the process that runs the jobs is gone: exit status {self.process.wait()}")
            _, pid, status = line
            if status != "0":
                output = (kept / "output.txt").read_text(errors="replace").strip()
                raise RuntimeError(f"{ended(int(status))}: {output[-self.options.tail:]}")
            trace = next(self.run.glob(f"*-{pid}.vst"), None)
            if trace:
                trace.rename(kept / "trace.vst")
            stamp.write_text(self.stamp)
        trace = kept / "trace.vst"
        return trace if trace.exists() else None, json.loads((kept / "truth.json").read_text())

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
