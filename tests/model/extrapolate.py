#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vramreport extrapolate against the truth: from runs at (1, 512), (2, 512) and (1, 1024) it predicts (8, 2048), which
is then run on the simulated device too. Exit status 1 when a job is off by more than 2 %, or by more than it said to
expect.

    tests/model/extrapolate.py --build BUILD --python PYTHON [NUMBER...]"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here))
import grid_jobs  # noqa: E402

SMALL = [(1, 512), (2, 512), (1, 1024)]
LARGE = (8, 2048)


def run(options, folder, number, batch, seq):
    out = subprocess.run(
        [options.build / "tools/vramrun", "-o", folder, "--simulate", "b200:1", "--gpu-memory", "1000GiB"]
        + ["--", options.python, here / "extrapolate_job.py", str(number), "--batch", str(batch), "--seq", str(seq)],
        capture_output=True, text=True,
    )
    if not grid_jobs.finished(out):
        sys.exit(f"job {number} failed: {out.stderr[-2000:]}")
    return int(out.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=here.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("numbers", nargs="*", type=int, default=[])
    options = parser.parse_args()
    worst = 0.0
    kept = True
    for number in options.numbers or range(10):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for batch, seq in SMALL:
                run(options, folder / f"{batch}x{seq}", number, batch, seq)
            out = subprocess.run(
                [options.build / "tools/vramreport", "extrapolate", "--json", "--batch", "8", "--seq", "2048"]
                + [folder / f"{batch}x{seq}" for batch, seq in SMALL],
                capture_output=True, text=True,
            )
            if not out.stdout:
                sys.exit(f"job {number}: {out.stderr}")
            answer = json.loads(out.stdout)
            truth = run(options, folder / "large", number, *LARGE)
        error = answer["peak"]["predicted_bytes"] / truth - 1
        worst = max(worst, abs(error))
        kept = kept and abs(error) <= answer["expected_error"]
        print(
            f"job {number}: {truth / 2**20:10.1f} MiB, predicted {100 * error:+6.2f} %, expected within"
            f" {100 * answer['expected_error']:.2f} %, matched {100 * answer['matched']:.2f} %",
            flush=True,
        )
    print(f"worst {100 * worst:.2f} %, {'always' if kept else 'not always'} within what was expected")
    sys.exit(0 if worst <= 0.02 and kept else 1)


main()
