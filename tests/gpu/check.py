# SPDX-License-Identifier: MIT
"""The programme of scripts/gpu-check, which says what this is: parts with a limit each, one line a check, one JSON."""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import check_driver
import check_jobs
from bench import Bench, CouldNot

SECONDS = 460  # of all parts together, so that the whole stays below 8 minutes
PARTS = [  # in order of what is missed most when time runs out; the second column: part of --short
    ("machine", check_driver.machine, True),
    ("driver", check_driver.booked_once, True),
    ("simulation", check_driver.driver_model, True),
    ("training", check_jobs.pair, True),
    ("account", check_jobs.ledger, True),
    ("dry run", check_jobs.dry_step, False),
    ("killed", check_jobs.killed, True),
    ("out of memory", check_jobs.out_of_memory, True),
    ("expandable", check_jobs.expandable, False),
    ("libraries", check_jobs.mixed, False),
    ("graphs", check_jobs.graphs, False),
    ("async pool", check_jobs.asynchronous, False),
]
WORDS = {True: "ok", False: "differs", None: "could not"}


def arguments():
    parser = argparse.ArgumentParser(prog="gpu-check", add_help=False)
    parser.add_argument("--simulate")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--counts", type=pathlib.Path)
    parser.add_argument("--spent", type=float, default=0, help="seconds that the build took")
    return parser.parse_args()


class Lines:
    def __init__(self):
        self.rows = []

    def add(self, part, name, holds, detail):
        self.rows.append({"part": part, "check": name, "status": WORDS[holds], "detail": detail})
        where = f"{part}: {name}" if name else part
        print(f"{WORDS[holds]:<9}  {where:<44}  {detail}", flush=True)

    def count(self, status):
        return sum(row["status"] == status for row in self.rows)


def run_part(bench, lines, found, name, part):
    try:
        rows = part(bench, found)
    except CouldNot as problem:
        rows = (None, str(problem))
    except Exception as problem:  # a check that breaks must not take the others with it
        where = traceback.extract_tb(problem.__traceback__)[-1]
        found.setdefault("broken", []).append(traceback.format_exc())
        rows = (None, f"{type(problem).__name__}: {problem} ({pathlib.Path(where.filename).name}:{where.lineno})")
    for row in rows if isinstance(rows, list) else [("", *rows)]:
        lines.add(name, *row)


def write(path, bench, lines, found, started):
    found = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in found.items()}
    whole = {
        "schema": "vramshim/gpu-check/1",
        "simulated": bench.simulate,
        "seconds": round(time.monotonic() - started, 1),
        "checks": lines.rows,
        "found": found,
        "commands": bench.commands,
    }
    path.write_text(json.dumps(whole, indent=1, default=str) + "\n")


def main():
    options = arguments()
    started = time.monotonic()
    if options.json:
        options.json.write_text("{}\n")  # what cannot be written is better known now
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-", dir=options.keep))
    bench = Bench(options.build.resolve(), folder, sys.executable, options.simulate, started + SECONDS - options.spent)
    bench.short = options.short
    lines, found = Lines(), {}
    for name, part, in_short in PARTS:
        if options.short and not in_short:
            continue
        run_part(bench, lines, found, name, part)
        if options.json:  # each time: what is known is there even if the machine goes away
            write(options.json, bench, lines, found, started)
        if "card" not in found:
            print("gpu-check: without a card that PyTorch can use there is nothing to check", file=sys.stderr)
            break
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    ok, differ, could_not = (lines.count(word) for word in ("ok", "differs", "could not"))
    print(
        f"{ok} ok, {differ} differ, {could_not} could not; {time.monotonic() - started + options.spent:.0f} s",
        flush=True,
    )
    if options.counts:
        options.counts.write_text(f"{ok} {differ + could_not} 0\n")
    if "card" not in found:
        return 2
    return 1 if differ or could_not else 0


if __name__ == "__main__":
    sys.exit(main())
