#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tags of snapshots that PyTorch writes of every job in tests/jobs, against what the jobs know of their own memory.

    snapshot_tags.py --build BUILD [--python PYTHON] [--stacks all|python] [--keep FOLDER] [--verbose] [JOB...]

PyTorch records with stacks="all", then with stacks="python", and dumps a snapshot at each mark of the job. Of the bytes
whose true role the job can prove at all its marks together, at least 99 % and 95 % must carry that tag. `worst` is the
mark with the smallest share. Exits 1 where a job misses a bar, 77 where PYTHON lacks what the jobs import.
"""

import argparse
import collections
import csv
import io
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
JOBS = HERE.parent / "jobs"
sys.path.insert(0, str(JOBS))
import compare_tags  # noqa: E402: in tests/jobs
import zoo_runs  # noqa: E402

BARS = {"all": 0.99, "python": 0.95}
# Jobs of tests/jobs/job.py (run:NAME) of which nothing is known, and why.
LEFT_OUT = {
    "run:questions": "holds nothing that has a role",
    "run:out-of-memory": "ends in an error, without a mark",
    "run:killed": "ends by SIGKILL; run:llama until then",
    "run:exit-status": "is run:llama",
}


def blocks(options, snapshot):
    done = subprocess.run([options.build / "tools/vramreport", "blocks", snapshot, "--at", "end", "--csv"], text=True,
                          capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return {int(row["address"], 16): (int(row["size"]), row["tag"], row["detail"], None)
            for row in csv.DictReader(io.StringIO(done.stdout))}


class Row:
    """One job under one kind of stacks."""

    def __init__(self, options, zoo, name):
        self.folder, self.marks, self.error = zoo.folder / name, {}, ""
        started = time.monotonic()
        try:
            truths = zoo.job(name)[1]["marks"]
            found = {mark: blocks(options, self.folder / f"{mark}.pickle") for mark in truths}
            # Of the future nothing is known, as at the end of a trace.
            self.marks = compare_tags.compare_all(truths, found, found, True)
        except (RuntimeError, OSError, ValueError) as error:
            self.error = str(error)
        self.seconds = time.monotonic() - started
        self.known = sum(mark.known for mark in self.marks.values())
        self.right = sum(mark.right for mark in self.marks.values())
        self.share = self.right / self.known if self.known else 0.0

    def good(self, bar):
        return not self.error and self.share >= bar

    def show(self, options, name, stacks):
        if self.error:
            print(f"{name:<24} {stacks:<7} FAIL did not run: {self.error}", flush=True)
            return
        worst = min(self.marks, key=lambda mark: self.marks[mark].share_right)
        good = self.good(BARS[stacks])
        print(f"{name:<24} {stacks:<7} {len(self.marks):>5} {self.known:>14} {100 * self.share:8.3f} "
              f"{100 * self.marks[worst].share_right:8.3f}  {'ok' if good else 'FAIL'}  {worst} ({self.seconds:.0f} s)", flush=True)
        if good and not options.verbose:
            return
        wrong, examples = collections.Counter(), {}
        for mark, comparison in self.marks.items():
            wrong.update({what: size for what, size in comparison.wrong.items() if not what.startswith("nothing known")})
            for what, address in comparison.examples.items():
                examples.setdefault(what, f"{mark} {address}")
        for what, size in wrong.most_common(8):
            print(f"    {what}: {size} ({examples[what]})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", default="A100-40")
    parser.add_argument("--tail", type=int, default=800, help="characters of a failed job's output to show")
    parser.add_argument("--stacks", choices=list(BARS), action="append")
    parser.add_argument("--counts", type=pathlib.Path, help="file for `passed failed skipped`")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the snapshots in this folder, and use them "
                        "again while what makes them is unchanged")
    parser.add_argument("--verbose", action="store_true", help="say of all jobs what is wrong")
    parser.add_argument("names", nargs="*", metavar="JOB")
    options = parser.parse_args()
    options.build = options.build.resolve()
    listed = subprocess.run([options.python, "-c", "import zoo; print(*zoo.jobs(), *zoo.ordinary())"], cwd=JOBS,
                            capture_output=True, text=True)
    if listed.returncode:
        print("skipped:", options.python, "cannot run the jobs:", listed.stderr.strip().splitlines()[-1])
        return 77
    names = options.names or [name for name in listed.stdout.split() if name not in LEFT_OUT]
    unknown = set(names) - set(listed.stdout.split())
    if unknown:
        parser.error(f"no job named {', '.join(sorted(unknown))}")
    passed = rows = 0
    print(f"{'job':<24} {'stacks':<7} {'marks':>5} {'known bytes':>14} {'right %':>8} {'worst %':>8}", flush=True)
    with tempfile.TemporaryDirectory(prefix="vramshim-tags-") as temporary:
        for stacks in options.stacks or BARS:
            way = zoo_runs.Way(stacks, False, ("--snapshots", stacks))
            zoo = zoo_runs.Zoo(options, (options.keep or pathlib.Path(temporary)).resolve(), way)
            for name in names:
                row = Row(options, zoo, name)
                row.show(options, name, stacks)
                rows += 1
                passed += row.good(BARS[stacks])
                for pickle in () if options.keep else row.folder.glob("*.pickle"):
                    pickle.unlink()
            zoo.close()
    if not options.names:
        for name, why in LEFT_OUT.items():
            print(f"left out: {name} {why}")
    print(f"{passed} passed, {rows - passed} failed")
    if options.counts:
        options.counts.write_text(f"{passed} {rows - passed} 0\n")
    return 0 if passed == rows else 1


if __name__ == "__main__":
    sys.exit(main())
