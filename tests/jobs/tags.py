# SPDX-License-Identifier: MIT
"""Are the tags right? Runs the zoo on a simulated GPU under the recorder and compares `vramreport blocks` with what each
job knows of its own memory, at every mark. A row for each job, with the worst of its marks:

right    bytes whose true role the job can prove, with that tag
false    bytes the job cannot place, tagged as one of the tags that it would know, of all allocated bytes
unkn.    bytes tagged unknown at the peak
acc.     bytes that count as right, or as no false claim, by the allowances below (held, open, making), of all allocated bytes
cut-1    (--cut) right where the trace ends at the mark, in the first step; cut-3: after the second step; acc. of these
unmod.   (--unmodified) bytes that are tagged otherwise when the job runs with its marks only, without the hooks that
         gather the truth; `-` where at no mark the same bytes are allocated then
torch    (--profiler) torch.profiler's categories against the same truth: right at the worst mark, right over all marks,
         false at the worst; and the seconds of the job alone, under the recorder, under torch.profiler with its analysis;
         in brackets why there are none: its own error, or how its process ended

Exit status 1 where a job misses a bar."""
import argparse
import collections
import concurrent.futures
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import compare_tags
import zoo_runs
from compare_tags import compare_all

HERE = pathlib.Path(__file__).resolve().parent
RIGHT, FALSE, UNKNOWN = 0.999, 0.005, 0.005  # the bars
RIGHT_CUT, RIGHT_CUT_FIRST = 0.98, 0.95  # the trace ends at the mark: after the second step, in the first
# Enough variety for every push, in the time that allows, and without packages beside those of the other jobs.
SUBSET = "llama-bf16 gpt2-amp-scaler-clip checkpoint nf4-paged-8bit by-hand accumulation fsdp2 trainer generation gan"
CATEGORIES = {
    "PARAMETER": "weights",
    "GRADIENT": "gradients",
    "OPTIMIZER_STATE": "optimizer",
    "ACTIVATION": "activations",
    "INPUT": "inputs",
    "TEMPORARY": "temporaries",
    "AUTOGRAD_DETAIL": "temporaries",
    None: "unknown",
}


class Runner:
    def __init__(self, options):
        self.options = options
        ways = [zoo_runs.RECORDED]
        ways += [zoo_runs.UNMODIFIED] * options.unmodified
        ways += [zoo_runs.PLAIN, zoo_runs.PROFILED] * options.profiler
        self.zoos = {way.name: zoo_runs.Zoo(options, options.keep, way) for way in ways}

    def report(self, *arguments):
        command = [self.options.build / "tools/vramreport", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"vramreport {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout

    def blocks(self, trace, mark, *more):
        rows = csv.DictReader(io.StringIO(self.report("blocks", trace, "--at", mark, "--csv", *more)))
        return {
            int(row["address"], 16): (int(row["size"]), row["tag"], row["detail"], (row["step"], row["stack"])) for row in rows
        }

    def compare(self, result, name):
        trace, truth = self.zoos["recorded"].job(name)
        truths = truth["marks"]
        result["seconds"] = truth["seconds"]
        found = {mark: self.blocks(trace, mark) for mark in truths}
        result["marks"] = compare_all(truths, found, found)
        if self.options.cut:
            result["cut"] = compare_all(truths, {mark: self.blocks(trace, mark, "--cut") for mark in truths}, found, True)
        (process,) = json.loads(self.report("report", "--json", trace))["processes"]
        (device,) = process["devices"]
        result["unknown"] = device["peak"]["tags"]["unknown"] / max(1, device["peak"]["allocated_bytes"])
        if self.options.unmodified:
            trace, _ = self.zoos["unmodified"].job(name)
            shares = [differing(found[mark], self.blocks(trace, mark)) for mark in truths]
            result["unmodified"] = max((share for share in shares if share is not None), default=None)

    def profile(self, result, name):
        """The same job without the recorder, then under PyTorch's profiler."""
        result["plain_seconds"] = self.zoos["plain"].job(name)[1]["seconds"]
        try:
            _, truth = self.zoos["profiled"].job(name)
        except RuntimeError as error:
            result["profiler_error"] = str(error)
            return
        result["profiler_seconds"] = truth["seconds"] + truth["analysis_seconds"]
        if "categories" not in truth:
            result["profiler_error"] = truth["categories_error"]
            return
        found = {
            mark: {int(place, 16): (size, CATEGORIES[category], "", None) for place, (size, category) in live.items()}
            for mark, live in truth["categories"].items()
        }
        # It has no word for results: as at a cut, `activations` will do.
        result["profiler"] = compare_all(truth["marks"], found, found, True)

    def work(self, names, on_result):
        """All of it for some jobs, one after another."""
        for name in names:
            started = time.monotonic()
            result = {"name": name, "marks": {}, "cut": {}, "profiler": {}}
            try:
                self.compare(result, name)
                if self.options.profiler:
                    self.profile(result, name)
            except (RuntimeError, subprocess.TimeoutExpired, ValueError, KeyError, OSError) as error:
                result["error"] = str(error)
            result["wall"] = time.monotonic() - started
            on_result(result)
        for zoo in self.zoos.values():
            zoo.close()


def differing(these, those):
    """Share of bytes that two runs of one job tag otherwise; None where they do not hold the same bytes: what is collected
    as garbage is so at other moments."""
    sums = collections.Counter()
    for sign, blocks in ((1, these), (-1, those)):
        for size, tag, *_ in blocks.values():
            sums[tag] += sign * size
    if sum(sums.values()):
        return None
    return sum(map(abs, sums.values())) / 2 / max(1, sum(size for size, *_ in these.values()))


def percent(share):
    return f"{100 * share:6.2f}"


def least_right(marks):
    return min((c.share_right for c in marks), default=1.0)


def cut_steps(marks):
    """The cuts in the first step and those after the second, by the number in the mark's name."""
    steps = {mark: int(mark.rsplit(" ", 1)[-1].split(".")[0]) for mark in marks}
    return [marks[m] for m in marks if steps[m] == 0], [marks[m] for m in marks if steps[m] >= 2]


def columns(options):
    names = "marks right% false% unkn.%   acc."
    names += " cut-1% cut-3%   acc." if options.cut else ""
    names += " unmod." if options.unmodified else ""
    names += "  torch    all  false plain  ours torch s" if options.profiler else ""
    return names


def row(result, options):
    """The text of a job's row, and whether it is within the bars."""
    marks = result["marks"].values()
    right, false = least_right(marks), max(c.share_false for c in marks)
    good = right >= RIGHT and false <= FALSE and result["unknown"] <= UNKNOWN
    cells = [f"{len(marks):>5}", percent(right), percent(false), percent(result["unknown"])]
    cells.append(percent(max(c.share_accepted for c in marks)))
    if options.cut:
        first, later = map(least_right, cut_steps(result["cut"]))
        good &= first >= RIGHT_CUT_FIRST and later >= RIGHT_CUT
        cells += [percent(first), percent(later), percent(max(c.share_accepted for c in result["cut"].values()))]
    if options.unmodified:
        good &= not result["unmodified"]
        cells.append("     -" if result["unmodified"] is None else percent(result["unmodified"]))
    if options.profiler:
        theirs = result["profiler"].values()
        seconds = f"{result['plain_seconds']:5.1f} {result['seconds']:5.1f}"
        if theirs:
            all_right = sum(c.right for c in theirs) / max(1, sum(c.known for c in theirs))
            claims = max(c.share_false for c in theirs)
            cells += [percent(least_right(theirs)), percent(all_right), percent(claims), seconds]
            cells.append(f"{result['profiler_seconds']:7.1f}")
        else:
            cells += [f"     -      -      - {seconds}       - ({result['profiler_error'].splitlines()[0][:60]})"]
    return " ".join(cells), good


def show(result, options):
    if "error" in result:
        print(f"{result['name']:<22} FAIL did not run: {result['error']}", flush=True)
        return False
    text, good = row(result, options)
    print(f"{result['name']:<22} {text}  {'ok' if good else 'FAIL'} ({result['wall']:.0f} s)", flush=True)
    for label, marks, bar in (("", result["marks"], RIGHT), ("cut ", result["cut"], RIGHT_CUT_FIRST)):
        for mark, comparison in marks.items():
            bad = comparison.share_right < bar or (not label and comparison.share_false > FALSE)
            if options.verbose or (bad and not good):
                print(f"    {label}{mark}: {comparison.describe()}", flush=True)
    return good


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="How one mark is compared. " + compare_tags.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--gpu", default="A100-40")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cut", action="store_true", help="also: judge as if the trace ended at each mark")
    parser.add_argument("--unmodified", action="store_true", help="also: the job without the hooks of the truth")
    parser.add_argument("--profiler", action="store_true", help="also: torch.profiler's categories, and seconds of all")
    parser.add_argument("--subset", action="store_true", help="the jobs for every push")
    parser.add_argument("--again", action="store_true", help="compare the kept runs again, whatever has changed since")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep the runs: those whose job, recorder and "
                        "simulated device are unchanged are not run again")  # fmt: skip
    parser.add_argument("--counts", type=pathlib.Path, help="write `passed failed skipped` here")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tail", type=int, default=1500, help="characters of a failed job's output to show")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*", metavar="JOB")
    options = parser.parse_args()
    options.build = options.build.resolve()
    listed = subprocess.run(
        [options.python, "-c", "import zoo; print(*zoo.jobs())"], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout.split()
    unknown = set(options.names) - set(listed)
    if unknown:
        parser.error(f"no job named {', '.join(sorted(unknown))}: --list names them")
    options.names = options.names or (SUBSET.split() if options.subset else listed)
    return options


def main():
    options = arguments()
    if options.list:
        print(*options.names, sep="\n")
        return 0
    print(f"{'worst mark of each job':<22} {columns(options)}", flush=True)
    passed = []
    with tempfile.TemporaryDirectory(prefix="vramshim-tags-") as folder:
        options.keep = (options.keep or pathlib.Path(folder)).resolve()
        shares = [options.names[i :: options.workers] for i in range(min(options.workers, len(options.names)))]
        with concurrent.futures.ThreadPoolExecutor(len(shares)) as pool:
            on_result = lambda result: passed.append(show(result, options))  # noqa: E731
            for future in [pool.submit(Runner(options).work, share, on_result) for share in shares]:
                future.result()
    print(f"{sum(passed)} of {len(options.names)} jobs within the bars")
    if options.counts:
        options.counts.write_text(f"{sum(passed)} {len(options.names) - sum(passed)} 0\n")
    return 0 if sum(passed) == len(options.names) else 1


if __name__ == "__main__":
    sys.exit(main())
