#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Dry-runs the grid on the simulated device and prints the model's and the article's errors against PyTorch's own peak
of allocated bytes. Exit status 1 when the model misses its bars: 3 % in the median, 8 % at the 95th percentile.

    tests/model/grid.py --build BUILD --python PYTHON [WORD...]    WORD: part of a job's label, such as gpt2 or amp

Nothing in the model is fitted to these jobs; a job that leaves the bars points at an operator described wrongly."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here))
import grid_jobs  # noqa: E402


def measure(options, folder):
    command = [options.build / "tools/vramrun", "-o", folder / "run", "--simulate", options.gpu, "--", options.python]
    command += [here / "grid_run.py", *options.words] + ["--extra"] * options.extra
    out = subprocess.run(command, capture_output=True, text=True)
    if not grid_jobs.finished(out):
        sys.exit(f"the jobs failed: {out.stderr[-2000:]}")
    return [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]


def plan(options, folder, job):
    config = folder / "config.json"
    config.write_text(json.dumps(grid_jobs.MODELS[job["model"]]))
    command = [options.build / "tools/vramreport", "plan", "--json", "--config", config, "--gpu", options.gpu]
    for flag in ("precision", "optimizer", "attention", "checkpointing", "batch"):
        command += [f"--{flag}", str(job[flag])]
    if job["model"] != "vit":
        command += ["--seq", str(job["seq"])]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode == 2:
        sys.exit(f"plan failed: {out.stderr}")
    return json.loads(out.stdout)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=here.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", default="a100-80")
    parser.add_argument("--extra", action="store_true", help="the families that the grid leaves out")
    parser.add_argument("--counts", type=pathlib.Path, help="write the three bars as PASSED FAILED SKIPPED here")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    refined, article, reserved, counts = [], [], [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for result in measure(options, folder):
            answer = plan(options, folder, result["job"])
            peak = result["peak_allocated"]
            refined.append(answer["peak"]["refined_bytes"] / peak - 1)
            article.append(answer["peak"]["paper_bytes"] / peak - 1)
            # The jobs share a process: what it had before, PyTorch keeps in segments of its own.
            reserved.append(answer["peak"]["reserved_bytes"] / (result["peak_reserved"] - result["before"]) - 1)
            counts += answer["model"]["parameters"] == result["parameters"]
            print(
                f"{grid_jobs.label(result['job'])}  {peak / 2**20:9.1f} MiB  refined {100 * refined[-1]:+7.2f} %"
                f"  article {100 * article[-1]:+8.1f} %  reserved {100 * reserved[-1]:+6.2f} %"
                f"  {answer['peak']['instant']}",
                flush=True,
            )
    if not refined:
        sys.exit("no job has such a label")
    for label, errors in (("refined", refined), ("article", article), ("reserved", reserved)):
        sizes = [abs(e) for e in errors]
        print(
            f"{label}: median {100 * statistics.median(sizes):.2f} %, 95th percentile"
            f" {100 * percentile(sizes, 0.95):.2f} %, worst {100 * max(sizes):.2f} %"
        )
    print(f"parameters exact in {counts} of {len(refined)} jobs")
    sizes = [abs(e) for e in refined]
    bars = [statistics.median(sizes) <= 0.03, percentile(sizes, 0.95) <= 0.08, counts == len(refined)]
    if options.counts:
        options.counts.write_text(f"{sum(bars)} {len(bars) - sum(bars)} 0\n")
    sys.exit(0 if all(bars) else 1)


main()
