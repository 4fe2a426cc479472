#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vramreport compare over jobs of the grid, one run each: the model against what the recorder tagged, in the categories
that make up the peak (each at least a tenth of it). Exit status 1 when the median error is above 2 %.

    tests/model/categories.py --build BUILD --python PYTHON"""
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=here.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--every", type=int, default=5, help="every how many jobs of the grid")
    options = parser.parse_args()
    errors = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for job in grid_jobs.jobs()[:: options.every]:
            run = folder / f"run{len(list(folder.iterdir()))}"
            words = [grid_jobs.label(job).split()[i] for i in range(7)]
            out = subprocess.run(
                [options.build / "tools/vramrun", "-o", run, "--simulate", "a100-80", "--", options.python]
                + [here / "grid_run.py", *words],
                capture_output=True, text=True,
            )
            if not grid_jobs.finished(out):
                sys.exit(out.stderr[-2000:])
            config = folder / "config.json"
            config.write_text(json.dumps(grid_jobs.MODELS[job["model"]]))
            command = [options.build / "tools/vramreport", "compare", run, "--json", "--config", config]
            for flag in ("precision", "optimizer", "attention", "checkpointing", "batch"):
                command += [f"--{flag}", str(job[flag])]
            if job["model"] != "vit":
                command += ["--seq", str(job["seq"])]
            out = subprocess.run(command, capture_output=True, text=True)
            if not out.stdout:
                sys.exit(out.stderr)
            answer = json.loads(out.stdout)
            peak = answer["peak"]["measured_bytes"]
            line = []
            for row in answer["rows"]:
                if row["measured_bytes"] >= peak / 10:
                    errors.append(abs(row["refined_bytes"] / row["measured_bytes"] - 1))
                    line.append(f"{row['category']} {100 * (row['refined_bytes'] / row['measured_bytes'] - 1):+.2f} %")
            print(f"{grid_jobs.label(job)}  {', '.join(line)}", flush=True)
    print(f"{len(errors)} categories: median {100 * statistics.median(errors):.2f} %, worst {100 * max(errors):.2f} %")
    sys.exit(0 if statistics.median(errors) <= 0.02 else 1)


main()
