# SPDX-License-Identifier: MIT
"""Runs every real job of job.py on a simulated GPU under the recorder, and checks the recording against what PyTorch
itself counted: run.py --build BUILD [--counts FILE] [--keep FOLDER] [NAME...]. One line a test; exit 1 on a failure.
--counts writes `passed failed skipped`. Needs nothing but the interpreter whose PyTorch is to be tested."""
import argparse
import collections
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
JOB = HERE / "job.py"
BLOCK = 512  # bytes: c10's kMinBlockSize, what it rounds sizes to

# name: (GPU, variables, exit status, what the report calls the end)
Case = collections.namedtuple("Case", "gpu variables status end")
ORDINARY = Case("A100-40", {}, 0, "clean")
CASES = {
    "llama": ORDINARY,
    "llama-fused": ORDINARY,
    "llama-sgd": ORDINARY,
    "llama-checkpointing": ORDINARY,
    "llama-expandable": ORDINARY._replace(variables={"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    "gpt2": ORDINARY,
    "gpt2-amp": ORDINARY._replace(gpu="T4"),
    "bert": ORDINARY,
    "lora": ORDINARY,
    "nf4": ORDINARY,
    "adam8bit": ORDINARY,
    "fsdp2": ORDINARY._replace(gpu="H100-80"),
    "questions": ORDINARY,
    "exit-status": ORDINARY._replace(status=7),
    "out-of-memory": Case("T4", {}, 1, "oom"),
    "out-of-memory-caught": ORDINARY._replace(gpu="T4"),
    "killed": ORDINARY._replace(status=-9, end="killed"),
}


class Wrong(Exception):
    pass


def expect(what, got, want):
    if got != want:
        raise Wrong(f"{what}: {got!r}, expected {want!r}")


class Tools:
    def __init__(self, build):
        self.vramrun = build / "tools" / "vramrun"
        self.vramreport = build / "tools" / "vramreport"

    def job(self, name, case, folder, record):
        """One run of the job; the simulated device is there either way, the recorder only passes through or records."""
        variables = {**os.environ, **case.variables, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        if not record:
            variables["VRAMSHIM_DISABLE"] = "1"
        run, truth = folder / "run", folder / "truth.json"
        command = [self.vramrun, "-o", run, "--simulate", case.gpu, "--", sys.executable, JOB, name, truth]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
        done.run, done.truth = run, json.loads(truth.read_text()) if truth.exists() else None
        return done

    def report(self, *arguments, status=(0,)):
        done = subprocess.run([self.vramreport, *arguments], capture_output=True, text=True, timeout=300)
        if done.returncode not in status:
            raise Wrong(f"vramreport {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def blocks(self, run, at):
        rows = csv.DictReader(io.StringIO(self.report("blocks", run, "--at", at, "--csv")))
        return {int(row["address"], 16): (int(row["size"]), row["tag"]) for row in rows}


def check_peaks(device, truth):
    expect("allocated peak", device["max"]["allocated_bytes"], truth["max_allocated"])
    expect("reserved peak", device["max"]["reserved_bytes"], truth["max_reserved"])
    expect("allocated at the peak", device["peak"]["allocated_bytes"], truth["max_allocated"])
    expect("sum of the tags at the peak", sum(device["peak"]["tags"].values()), truth["max_allocated"])
    expect("lost events", device["events"]["lost"], 0)
    expect("allocations", device["events"]["allocations"], truth["allocations"])
    # What the job still held when it wrote its counters goes while the interpreter ends.
    expect("frees", truth["frees"] <= device["events"]["frees"] <= truth["allocations"], True)
    expect("out-of-memory events", len(device["oom"]), truth["ooms"])


def check_account(outside, truth):
    """Every byte of the card has its line, once, each time the device was asked how many are used."""
    lines = ("context_bytes", "rounding_bytes", "other_processes_bytes", "unexplained_bytes")
    libraries = sum(outside["by_library"].values())
    total = sum(outside[line] or 0 for line in lines) + outside["pytorch"]["reserved_bytes"] + libraries
    expect("sum of the card's account", total, outside["used_bytes"])
    expect("unexplained bytes", {sample["unexplained_bytes"] for sample in outside["samples"]}, {0})
    pytorch = outside["pytorch"]
    expect("PyTorch's bytes when the card was fullest", pytorch["reserved_bytes"] <= truth["max_reserved"], True)
    split = [pytorch[part] for part in ("allocated_bytes", "releasable_bytes", "pinned_bytes")]
    expect("their split", sum(split) if None not in split else None, pytorch["reserved_bytes"])


def check_mark(tools, run, mark, known):
    """Every block whose owner the job named lies in the recording at its address, with the size PyTorch rounds to and
    the owner's tag; all blocks together are what PyTorch counted."""
    blocks = tools.blocks(run, mark)
    expect(f"allocated at {mark}", sum(size for size, _ in blocks.values()), known["allocated"])
    wrong = collections.Counter()
    for tag, tensors in known["tags"].items():
        for address, size in tensors.items():
            block, found = blocks.get(int(address, 16), (0, "absent"))
            expect(f"block {address} ({tag}) at {mark}", block, -(-size // BLOCK) * BLOCK)
            if found != tag:
                wrong[f"{tag} taken for {found}"] += block
    total = sum(sum(tensors.values()) for tensors in known["tags"].values())
    if sum(wrong.values()) * 1000 > total:
        raise Wrong(f"tags at {mark}: {dict(wrong)} of {total} known bytes")


def check_prefixes(tools, run, folder):
    """A trace cut anywhere is read as far as it goes, or refused in one line; never a crash, never a hang."""
    (trace,) = run.glob("*.vst")
    whole = trace.read_bytes()
    cut = folder / "cut.vst"
    for length in sorted({*range(64), *(len(whole) * i // 60 + i for i in range(60))}):
        cut.write_bytes(whole[:length])
        done = subprocess.run([tools.vramreport, "report", "--json", cut], capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            json.loads(done.stdout)
        elif done.returncode != 2 or len(done.stderr.splitlines()) != 1:
            raise Wrong(f"trace cut at {length} of {len(whole)}: exit {done.returncode}: {done.stderr[-500:]!r}")


def counters(truth):
    """Without the marks: their addresses differ from run to run."""
    return {name: value for name, value in truth.items() if name != "marks"}


def check_oom(tools, recorded):
    """The reason is on the job's stderr before the error itself, and the run tells it again."""
    before = recorded.stderr.split("Traceback")[0]
    expect("reasons on stderr", before.count("Out of memory: full"), 1)
    expect("the request on stderr", "3.00 GiB were asked for" in before, True)
    done = subprocess.run([tools.vramreport, "oom", "--json", recorded.run], capture_output=True, text=True, timeout=60)
    expect("exit status of vramreport oom", done.returncode, 1)
    answer = json.loads(done.stdout)
    expect("cause", answer["cause"], "full")
    expect("request", answer["request_bytes"], 3 << 30)
    expect("shortfall", answer["shortfall_bytes"], answer["request_bytes"] - answer["free_bytes"] - answer["unallocated_bytes"])
    (expandable,) = [remedy for remedy in answer["remedies"] if remedy["name"] == "expandable_segments"]
    expect("expandable segments", (expandable["enough"], expandable["evidence"]), (False, "replayed"))


def exact(tools, run):
    # Exit status 1: it did not fit, as is known.
    done = subprocess.run([tools.vramreport, "whatif", "--json", run], capture_output=True, text=True, timeout=120)
    baseline = json.loads(done.stdout)["baseline"]
    return all(baseline[what + "_exact"] == baseline[what + "_total"] > 0 for what in ("addresses", "segments"))


def check(tools, name, case, folder):
    recorded = tools.job(name, case, folder / "recorded", record=True)
    plain = tools.job(name, case, folder / "plain", record=False)
    if recorded.returncode != case.status:
        raise Wrong(f"exit status {recorded.returncode}, expected {case.status}: {recorded.stderr.strip()[-2000:]}")
    expect("exit status without the recorder", plain.returncode, case.status)
    expect("stdout", recorded.stdout, plain.stdout)
    expect("PyTorch's own counters without the recorder", counters(plain.truth), counters(recorded.truth))
    if name == "out-of-memory":
        last = recorded.stderr.strip().splitlines()
        if not any(line.startswith("torch.OutOfMemoryError: CUDA out of memory.") for line in last):
            raise Wrong(f"no error of PyTorch's on stderr: {recorded.stderr[-500:]}")
        check_oom(tools, recorded)
    truth = recorded.truth
    report = json.loads(tools.report("report", recorded.run, "--json"))
    expect("processes", len(report["processes"]), 1)
    process = report["processes"][0]
    expect("end", process["exit"], case.end)
    (device,) = process["devices"]
    if name == "out-of-memory":
        truth["ooms"] = 1  # its counters were written before the request that failed
    check_peaks(device, truth)
    check_account(device["outside_pytorch"], truth)
    if name == "out-of-memory-caught":
        # Gives its segments back to CUDA in between, which the replay has to follow.
        expect("replay", exact(tools, recorded.run), True)
    peak = tools.blocks(recorded.run, "peak")
    expect("sum of blocks at the peak", sum(size for size, _ in peak.values()), truth["max_allocated"])
    for mark, known in truth["marks"].items():
        check_mark(tools, recorded.run, mark, known)
    if name == "bert":
        check_prefixes(tools, recorded.run, folder)


def one(tools, name, keep):
    started = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"vramshim-{name}-", dir=keep))
    for sub in ("recorded", "plain"):
        (folder / sub).mkdir()
    try:
        check(tools, name, CASES[name], folder)
        problem = None
    except (Wrong, subprocess.TimeoutExpired, KeyError, ValueError, OSError) as error:
        problem = error if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
    if not keep:
        shutil.rmtree(folder)
    return problem, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--counts", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="keep the runs in this folder")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    unknown = set(options.names) - set(CASES)
    if unknown:
        parser.error(f"no job named {', '.join(sorted(unknown))}: the jobs are {', '.join(CASES)}")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    tools = Tools(options.build.resolve())
    names = options.names or list(CASES)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {pool.submit(one, tools, name, options.keep): name for name in names}
        for future in concurrent.futures.as_completed(futures):
            problem, seconds = future.result()
            failed += bool(problem)
            print(f"{'FAIL' if problem else 'ok  '} {futures[future]} ({seconds:.0f} s)", flush=True)
            if problem:
                print(f"     {problem}", flush=True)
    if options.counts:
        options.counts.write_text(f"{len(names) - failed} {failed} 0\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
