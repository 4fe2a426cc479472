# SPDX-License-Identifier: MIT
"""Tags where evidence is missing: tags_bad_input.py --build BUILD [--counts FILE] [--keep FOLDER]. Real jobs, whose traces
are then made poorer, as by a Python that cannot be read, libraries without names, and stacks cut at some depth
(tests/tools/weaken_trace.c); jobs recorded at --level light; and jobs in which little is to be seen. Of what the job knows
at any mark, no more than WRONG may get a wrong tag (`unknown` is none), and the report must say in one line what is missing.
One line a test; exit 1 on a failure."""
import argparse
import csv
import io
import pathlib
import subprocess
import sys
import tempfile

import zoo_runs
from compare_tags import compare_all

WRONG = 0.001
LIGHT = zoo_runs.Way("light", True, (), ("--level", "light"))
NO_PYTHON = "No Python frames were recorded"
NO_NAMES = "No native frame has a name"
CUT = "stacks are deeper than the recorder keeps"
# what is taken away: what the report says of it
POORER = {"python": [NO_PYTHON], "names": [NO_NAMES], "both": [NO_PYTHON, NO_NAMES], "depth=24": [CUT], "depth=12": [CUT]}
ORDINARY = ["llama", "gpt2", "accumulation", "by-hand"]


class Bench:
    def __init__(self, options, keep):
        self.build, self.keep = options.build, keep
        self.zoos = {way: zoo_runs.Zoo(options, keep, way) for way in (zoo_runs.RECORDED, LIGHT)}

    def report(self, *arguments):
        done = subprocess.run([self.build / "tools/vramreport", *arguments], capture_output=True, text=True, timeout=120)
        if done.returncode not in (0, 1):
            raise AssertionError(f"vramreport: {done.stderr.strip()}")
        return done.stdout

    def blocks(self, trace, mark):
        rows = csv.DictReader(io.StringIO(self.report("blocks", trace, "--at", mark, "--csv")))
        return {
            int(row["address"], 16): (int(row["size"]), row["tag"], row["detail"], (row["step"], row["stack"])) for row in rows
        }

    def check(self, trace, truth, says=()):
        """The share tagged unknown at the worst mark."""
        found = {mark: self.blocks(trace, mark) for mark in truth["marks"]}
        unknown = 0.0
        for mark, comparison in compare_all(truth["marks"], found, found).items():
            missing = sum(size for what, size in comparison.wrong.items() if what.endswith(" taken for unknown"))
            unknown = max(unknown, missing / comparison.known)
            wrong = (comparison.known - comparison.right - missing) / comparison.known
            assert wrong <= WRONG, f"{100 * wrong:.2f} % wrong at {mark}: {comparison.describe()}"
        text = " ".join(self.report("report", trace).split())
        for line in says:
            assert text.count(line) == 1, f"the report does not say: {line}"
        return unknown

    def poorer(self, job, what):
        trace, truth = self.zoos[zoo_runs.RECORDED].job(job)
        new = self.keep / f"{job}-{what}.vst"
        new.unlink(missing_ok=True)
        subprocess.run([self.build / "tests/tools/weaken_trace", trace, new, what], check=True)
        return self.check(new, truth, POORER[what])

    def light(self, job):
        return self.check(*self.zoos[LIGHT].job(job))

    def little(self, job):
        """Nothing is said that is not known: whatever is not right is unknown."""
        unknown = self.check(*self.zoos[zoo_runs.RECORDED].job(job))
        assert unknown > 0.1, "what cannot be known is said to be known"
        return unknown

    def close(self):
        for zoo in self.zoos.values():
            zoo.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", default="A100-40")
    parser.add_argument("--counts", type=pathlib.Path, help="write `passed failed skipped` here")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the runs")
    options = parser.parse_args()
    options.build, options.tail = options.build.resolve(), 1500
    tests = [("poorer", job, what) for job in ORDINARY for what in POORER]
    tests += [("light", job) for job in ORDINARY] + [("little", job) for job in ("inference-by-hand", "deep-by-hand")]
    passed = 0
    with tempfile.TemporaryDirectory(prefix="vramshim-tags-bad-") as temporary:
        bench = Bench(options, (options.keep or pathlib.Path(temporary)).resolve())
        for kind, *arguments in tests:
            try:
                unknown = getattr(bench, kind)(*arguments)
                print(f"ok   {kind} {' '.join(arguments)}: unknown {100 * unknown:.2f} %", flush=True)
                passed += 1
            except (AssertionError, RuntimeError, OSError, subprocess.SubprocessError) as problem:
                print(f"FAIL {kind} {' '.join(arguments)}: {problem}", flush=True)
        bench.close()
    print(f"tags where evidence is missing: {passed} passed, {len(tests) - passed} failed")
    if options.counts:
        options.counts.write_text(f"{passed} {len(tests) - passed} 0\n")
    return 0 if passed == len(tests) else 1


if __name__ == "__main__":
    sys.exit(main())
