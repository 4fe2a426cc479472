# SPDX-License-Identifier: MIT
"""LoRA training steps measured on a real Tesla T4 (shared/data/t4-lora-steps.csv), run again on a simulated one:
t4_rows.py --build BUILD --data CSV [--models NAME,NAME|all]. Needs PyTorch 2.11. Prints ours, the T4's and the
difference of each, and ends with exit status 1 where a bar is missed, 77 where the data is absent."""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77  # automake's word for it
PHASES = ["after_load_mib", "peak_forward_mib", "peak_backward_mib", "peak_optimizer_mib", "peak_allocated_mib"]
COLUMNS = [*PHASES, "peak_reserved_mib"]
# The bars. Rows with fp16 weights: allocated in every phase to 0.1 MiB with eager attention and to 0.6 % with SDPA (as
# exact, but for the optimizer of one row: 0.38 MiB), reserved to 0.5 %. Rows with nf4 weights: peak allocated to 0.6 %. What bitsandbytes leaves after loading depends on how its loading threads
# interleave: the T4 itself had 388.2 MiB in one row of the 360M model and 381.6 MiB in another, so that phase has no one
# right number there.
EXACT_MIB = 0.1
ALLOCATED = 0.006
RESERVED = 0.005


def worker(row, cache):
    """Runs inside the process under vramrun; the last line of its stdout is the result."""
    import t4_step

    print(json.dumps(t4_step.measure(row, cache)))


def run(options, row):
    with tempfile.TemporaryDirectory(prefix="vramshim-t4-") as folder:
        command = [options.build / "tools" / "vramrun", "-o", f"{folder}/run", "--simulate", "T4", "--"]
        command += [sys.executable, HERE / "t4_rows.py", "--worker", json.dumps(row), "--cache", options.cache]
        variables = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)
    if done.returncode:
        return {"error": f"exit status {done.returncode}: {done.stderr.strip()[-1500:]}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def missed(row, ours):
    """The bars this row misses, in words."""

    def off(column):
        return abs(ours[column] - float(row[column]))

    def off_relative(column, bar):
        return [f"{column} off by {100 * off(column) / float(row[column]):.2f} %"] if off(column) > bar * float(row[column]) else []

    if row["base"] == "nf4":
        return off_relative("peak_allocated_mib", ALLOCATED)
    if row["attention"] == "eager":
        allocated = [f"{column} off by {off(column):.2f} MiB" for column in PHASES if off(column) > EXACT_MIB]
    else:
        allocated = [problem for column in PHASES for problem in off_relative(column, ALLOCATED)]
    return allocated + off_relative("peak_reserved_mib", RESERVED)


def show(row, ours):
    title = f"{row['model']} {'fp16' if row['base'] == 'none' else row['base']} {row['attention']}"
    print(f"{title}, batch {row['batch']} x {row['seq']}")
    if "error" in ours:
        print(f"  FAIL {ours['error']}", flush=True)
        return False
    for column in COLUMNS:
        got, want = ours[column], float(row[column])
        name = column.removeprefix("peak_").removesuffix("_mib").replace("_", " ")
        print(f"  {name:<12} {got:>10.2f} MiB   T4 {want:>10.2f}   {got - want:>+9.2f}   {100 * (got / want - 1):>+7.3f} %")
    problems = missed(row, ours)
    for problem in problems:
        print(f"  FAIL {problem}")
    sys.stdout.flush()
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--models", default="SmolLM2-135M,SmolLM2-360M")
    parser.add_argument("--counts", type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, help="where the random-weight models are kept")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(json.loads(options.worker), options.cache)
    if not options.data.exists():
        print(f"skip: {options.data} is not there")
        return SKIPPED
    if not options.cache:
        options.cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "vramshim/models"
    options.build = options.build.resolve()
    with open(options.data) as file:
        rows = [row for row in csv.DictReader(file) if options.models == "all" or row["model"] in options.models.split(",")]
    import t4_step

    for row in rows:  # once, before the runs share them
        t4_step.saved_model(row, options.cache)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = [show(row, ours) for row, ours in zip(rows, pool.map(lambda row: run(options, row), rows))]
    print(f"{sum(passed)} of {len(rows)} rows within the bars")
    if options.counts:
        options.counts.write_text(f"{sum(passed)} {len(passed) - sum(passed)} 0\n")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
