# SPDX-License-Identifier: MIT
"""Are the tags right? Runs the zoo on a simulated GPU under the recorder and compares `vramreport blocks` with what each
job knows of its own memory, at every mark: tags.py --build BUILD [--cut] [--profiler] [--list] [JOB...].

right    bytes whose true role the job can prove, with that tag
false    bytes the job cannot place, tagged as one of the tags that it would know, of all allocated bytes
unknown  bytes tagged unknown at the peak
Exit status 1 where a job misses a bar."""
import argparse
import collections
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RIGHT, FALSE, UNKNOWN = 0.999, 0.005, 0.005  # the bars
RIGHT_CUT, RIGHT_CUT_FIRST = 0.98, 0.95  # the trace ends at the mark: after the second step, in the first
CLAIMS = {"weights", "gradients", "optimizer", "activations", "inputs"}
# Buffers that hold gradients beside .grad: true, and known to no Python object.
BUCKETS = ("gradients", "buckets")
# Enough variety for every push, in the time that allows.
SUBSET = "llama-bf16 gpt2-amp-scaler-clip resnet50 checkpoint nf4-paged-8bit by-hand accumulation fsdp2 trainer generation"
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


class Comparison:
    """One mark: bytes by true and found tag."""

    def __init__(self, truth, blocks, later, last=frozenset(), cut=False):
        self.known = self.right = self.false = 0
        self.allocated = sum(size for size, *_ in blocks.values())
        self.wrong = collections.Counter()
        self.examples = {}
        for address, what in truth.items():
            size, tag, detail, *origin = blocks.get(int(address, 16), (what["bytes"], "absent", ""))
            self.known += size
            # Saved for the backward, and outliving the job's last backward: that is what `outputs` means.
            held = tag == "outputs" and "activations" in what["tags"] and (address, *origin) in last
            # Only the future tells a result that is held from one that the backward will let go.
            held |= cut and tag == "activations" and "outputs" in what["tags"]
            if held or tag in what["tags"]:
                self.right += size
            else:
                self.note(f"{'+'.join(what['tags'])} taken for {tag}{'/' * bool(detail)}{detail}", size, address)
        places = {int(address, 16) for address in truth}
        for address, (size, tag, detail, *_) in blocks.items():
            # A gradient in the making is one: at the next mark the job itself says so.
            if tag in later.get(hex(address), {"tags": ()})["tags"]:
                continue
            if address not in places and tag in CLAIMS and (tag, detail) != BUCKETS:
                self.false += size
                self.note(f"nothing known taken for {tag}{'/' * bool(detail)}{detail}", size, hex(address))

    def note(self, what, size, address):
        self.wrong[what] += size
        self.examples.setdefault(what, address)

    @property
    def share_right(self):
        return self.right / self.known if self.known else 1.0

    @property
    def share_false(self):
        return self.false / self.allocated if self.allocated else 0.0


class Zoo:
    """A process that runs jobs one at a time (zoo.py): what takes long to import is imported once."""

    def __init__(self, options, folder, record=True, more=()):
        self.folder, self.tail = folder, options.tail
        folder.mkdir(parents=True, exist_ok=True)
        self.run = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=folder))
        variables = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        if not record:
            variables["VRAMSHIM_DISABLE"] = "1"
        command = [options.tools / "vramrun", "-o", self.run, "--force", "--simulate", options.gpu, "--"]
        command += [options.python, HERE / "zoo.py", folder, *more]
        self.process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def job(self, name):
        """The job's trace (None without one) and truth; RuntimeError with what it said where it failed."""
        self.process.stdin.write(f"{name}\n")
        line = self.process.stdout.readline().split()
        if len(line) != 3:
            raise RuntimeError(f"the process that runs the jobs is gone: exit status {self.process.wait()}")
        _, pid, status = line
        if status != "0":
            output = (self.folder / name / "output.txt").read_text(errors="replace").strip()
            raise RuntimeError(f"exit status {status}: {output[-self.tail:]}")
        trace = next(self.run.glob(f"*-{pid}.vst"), None)
        if trace:
            trace = trace.rename(self.folder / name / "trace.vst")
        return trace, json.loads((self.folder / name / "truth.json").read_text())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Runner:
    def __init__(self, options):
        self.options = options

    def report(self, *arguments):
        done = subprocess.run([self.options.tools / "vramreport", *arguments], capture_output=True, text=True, timeout=120)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"vramreport {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout

    def blocks(self, run, mark, *more):
        rows = csv.DictReader(io.StringIO(self.report("blocks", run, "--at", mark, "--csv", *more)))
        return {
            int(row["address"], 16): (int(row["size"]), row["tag"], row["detail"], row["step"], row["stack"]) for row in rows
        }

    def compare(self, result, trace, truth):
        result["seconds"] = truth["seconds"]
        marks = list(truth["marks"].items())
        last = {(hex(address), *block[3:]) for address, block in self.blocks(trace, marks[-1][0]).items()}
        for i, (mark, what) in enumerate(marks):
            later = marks[i + 1][1]["blocks"] if i + 1 < len(marks) else {}
            result["marks"][mark] = Comparison(what["blocks"], self.blocks(trace, mark), later, last)
            if self.options.cut:
                blocks = self.blocks(trace, mark, "--cut")
                result["cut"][mark] = Comparison(what["blocks"], blocks, later, last, True)
        (process,) = json.loads(self.report("report", "--json", trace))["processes"]
        (device,) = process["devices"]
        result["unknown"] = device["peak"]["tags"]["unknown"] / max(1, device["peak"]["allocated_bytes"])

    def profile(self, result, plain, profiled):
        """The same job without the recorder, then under PyTorch's profiler."""
        name = result["name"]
        result["plain_seconds"] = plain.job(name)[1]["seconds"]
        try:
            _, truth = profiled.job(name)
        except RuntimeError as error:
            result["profiler_error"] = str(error)
            return
        result["profiler_seconds"] = truth["seconds"] + truth["analysis_seconds"]
        if "categories" not in truth:
            result["profiler_error"] = truth["categories_error"]
            return
        marks = list(truth["marks"])
        for mark, live in truth["categories"].items():
            following = marks[marks.index(mark) + 1 :][:1]
            later = truth["marks"][following[0]]["blocks"] if following else {}
            blocks = {int(place, 16): (size, CATEGORIES[category], "") for place, (size, category) in live.items()}
            result["profiler"][mark] = Comparison(truth["marks"][mark]["blocks"], blocks, later)

    def work(self, names, on_result):
        """All of it for some jobs, one after another."""
        options, zoos = self.options, []
        if not options.again:
            zoos.append(Zoo(options, options.keep))
        if options.profiler:
            zoos += [Zoo(options, options.keep / "plain", False), Zoo(options, options.keep / "profiler", False, ["--profile"])]
        for name in names:
            started = time.monotonic()
            result = {"name": name, "marks": {}, "cut": {}, "profiler": {}}
            kept = options.keep / name
            try:
                if options.again:
                    trace, truth = kept / "trace.vst", json.loads((kept / "truth.json").read_text())
                else:
                    trace, truth = zoos[0].job(name)
                self.compare(result, trace, truth)
                if options.profiler:
                    self.profile(result, *zoos[-2:])
            except (RuntimeError, subprocess.TimeoutExpired, ValueError, KeyError, OSError) as error:
                result["error"] = str(error)
            result["wall"] = time.monotonic() - started
            on_result(result)
        for zoo in zoos:
            zoo.close()


def percent(share):
    return f"{100 * share:6.2f}"


def worst(marks):
    return min(marks.values(), key=lambda c: c.share_right), max(marks.values(), key=lambda c: c.share_false)


def cut_shares(marks):
    """The worst cut of the first step and the worst of those after the second step, by the number in the mark's name."""
    first, later = [1.0], [1.0]
    for mark, comparison in marks.items():
        step = int(mark.rsplit(" ", 1)[-1].split(".")[0])
        if step == 0:
            first.append(comparison.share_right)
        elif step >= 2:
            later.append(comparison.share_right)
    return min(first), min(later)


def show(result, options):
    name = result["name"]
    if "error" in result:
        print(f"{name:<22} FAIL did not run: {result['error']}", flush=True)
        return False
    right, false = worst(result["marks"])
    good = right.share_right >= RIGHT and false.share_false <= FALSE and result["unknown"] <= UNKNOWN
    line = f"{name:<22} {len(result['marks']):>5} {percent(right.share_right)} {percent(false.share_false)} "
    line += f"{percent(result['unknown'])}"
    if options.cut:
        first, later = cut_shares(result["cut"])
        good &= first >= RIGHT_CUT_FIRST and later >= RIGHT_CUT
        line += f" {percent(first)} {percent(later)}"
    if options.profiler:
        seconds = f"{result['plain_seconds']:5.1f} {result['seconds']:5.1f}"
        if result["profiler"]:
            theirs, claims = worst(result["profiler"])
            everywhere = sum(c.right for c in result["profiler"].values()) / sum(c.known for c in result["profiler"].values())
            line += f" {percent(theirs.share_right)} {percent(everywhere)} {percent(claims.share_false)} {seconds} {result['profiler_seconds']:5.1f}"
        else:
            line += f"      -      -      - {seconds}     -  ({result['profiler_error'].splitlines()[-1][:60]})"
    print(f"{line}  {'ok' if good else 'FAIL'} ({result['wall']:.0f} s)", flush=True)
    for label, marks, bar in (("", result["marks"], RIGHT), ("cut ", result["cut"], RIGHT_CUT_FIRST)):
        for mark, comparison in marks.items():
            bad = comparison.share_right < bar or (not label and comparison.share_false > FALSE)
            if options.verbose or (bad and not good):
                pairs = [f"{what} {size} ({comparison.examples[what]})" for what, size in comparison.wrong.most_common(4)]
                print(f"    {label}{mark}: {comparison.right} of {comparison.known} right; {'; '.join(pairs)}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--gpu", default="A100-40")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cut", action="store_true", help="also: judge as if the trace ended at each mark")
    parser.add_argument("--profiler", action="store_true", help="also: torch.profiler's categories, and seconds of all")
    parser.add_argument("--subset", action="store_true", help="the jobs for every push")
    parser.add_argument("--again", action="store_true", help="compare the runs kept by --keep again")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--counts", type=pathlib.Path, help="write `passed failed skipped` here")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tail", type=int, default=1500, help="characters of a failed job's output to show")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*", metavar="JOB")
    options = parser.parse_args()
    listed = subprocess.run(
        [options.python, "-c", "import zoo; print(*zoo.jobs())"], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout.split()
    if options.list:
        print(*listed, sep="\n")
        return 0
    unknown = set(options.names) - set(listed)
    if unknown:
        parser.error(f"no job named {', '.join(sorted(unknown))}: --list names them")
    names = options.names or (SUBSET.split() if options.subset else listed)
    line = f"{'worst mark of each job':<22} marks right% false% unkn.%"
    line += " cut-1% cut-3%" if options.cut else ""
    line += "  torch    all  false plain  ours torch s" if options.profiler else ""
    print(line, flush=True)
    passed = []
    with tempfile.TemporaryDirectory(prefix="vramshim-tags-") as folder:
        options.keep = (options.keep or pathlib.Path(folder)).resolve()
        options.tools = options.build.resolve() / "tools"
        runner = Runner(options)
        shares = [names[i :: options.workers] for i in range(min(options.workers, len(names)))]
        with concurrent.futures.ThreadPoolExecutor(len(shares)) as pool:
            for future in [pool.submit(runner.work, share, lambda r: passed.append(show(r, options))) for share in shares]:
                future.result()
    print(f"{sum(passed)} of {len(names)} jobs within the bars")
    if options.counts:
        options.counts.write_text(f"{sum(passed)} {len(names) - sum(passed)} 0\n")
    return 0 if sum(passed) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
