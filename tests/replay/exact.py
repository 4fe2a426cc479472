#!/usr/bin/env python3
"""Snapshots that real PyTorch writes on the simulated device, under every allocator setting, against the model.

    exact.py --build BUILD --python PYTHON [--first-seed N] [--seeds N] [--every N]
             [--keep FOLDER] [--only TEXT] [--real FOLDER]

PYTHON has torch. --real: snapshots that were taken on real GPUs come first. Every case is replayed twice: with the recording's addresses and refusals checked one by one, and
freely on a card of the same size, whose reserved peak and refusals must be what torch itself counted. Prints the
exactness table and exits 1 where a row is not exact, 77 where torch is absent.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import harness

MIB = 1 << 20

SETTINGS = {
    "default": "",
    "expandable": "expandable_segments:True",
    "split": "max_split_size_mb:64",
    "split21": "max_split_size_mb:21",
    "roundup": "roundup_power2_divisions:4",
    "roundup-list": "roundup_power2_divisions:[1:2,16:8,256:1,>:4]",
    "gc": "garbage_collection_threshold:0.6",
    "segment": "large_segment_size_mb:40",
    "rounding": "max_non_split_rounding_mb:64,max_split_size_mb:64",
}


def keys(text):
    return [pair.split(":")[0] for pair in text.split(",") if "_" in pair]


def settings():
    """Each setting alone, then each two that can stand together."""
    yield from SETTINGS.items()
    names = [name for name in SETTINGS if name != "default"]
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            both = keys(SETTINGS[first]) + keys(SETTINGS[second])
            if len(set(both)) < len(both) or {first, second} == {"split21", "segment"}:
                continue  # the same key twice; a split size below the large segment is refused
            # the parser checks the split size against the large segment it knows by then
            yield f"{first}+{second}", ",".join(
                sorted([SETTINGS[first], SETTINGS[second]], key=lambda text: "large_segment" not in text))


SHAPES = {
    "roomy": {"memory": 16384 * MIB, "kind": "mixed", "count": 3000},
    "tight": {"memory": 1536 * MIB, "kind": "mixed", "count": 3000, "grow": 0.53},
    "full": {"memory": 3072 * MIB, "kind": "large", "count": 1500, "grow": 0.6, "empty": False},
    "streams": {"memory": 2048 * MIB, "kind": "mixed", "count": 3000, "streams": 3},
    "pools": {"memory": 2048 * MIB, "kind": "mixed", "count": 2000, "streams": 1, "pools": 2},
    "pools-full": {"memory": 1300 * MIB, "kind": "mixed", "count": 1200, "pools": 2, "grow": 0.6},
    "mlp": {"memory": 4096 * MIB, "job": "mlp"},
    "transformer": {"memory": 8192 * MIB, "job": "transformer", "amp": True},
    "inference": {"memory": 2048 * MIB, "job": "inference"},
}


def cases(first, seeds):
    for name, text in settings():
        for seed in range(first, first + seeds):
            for shape, case in SHAPES.items():
                if seed > first and "job" in case:
                    continue
                case = dict(case, seed=seed * 1000 + len(shape), conf=text, name=f"{name}/{shape}/{seed}")
                if "garbage" in text or seed % 3 == 2:
                    case["fraction"] = 0.8
                yield case


def check(exactness, case, report):
    command = [exactness, "--total", report["total"], "--expect-peak", report["reserved_peak"],
               "--outside", report["total"] - report["free"] - report["reserved"]]
    if case.get("fraction"):
        command += ["--fraction", repr(case["fraction"])]
    result = subprocess.run([str(part) for part in command + [report["path"]]], capture_output=True, text=True)
    rows = "\n".join(result.stdout.splitlines()[1:])
    print(f"{rows}  {report['retries']} retries, {report['ooms']} refusals", result.stderr.strip(), flush=True)
    return result.returncode == 0


def real(exactness, folder):
    """How many snapshots of real GPUs there are, and how many of them are not exact."""
    files = sorted(folder.glob("*.pickle*"))
    if not files:
        print("no snapshots of real GPUs in", folder)
    results = [subprocess.run([exactness, file], capture_output=True, text=True) for file in files]
    for result in results:
        print("\n".join(result.stdout.splitlines()[1:]), result.stderr.strip(), flush=True)
    return len(files), sum(result.returncode != 0 for result in results)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--counts", type=pathlib.Path, help="file for `passed failed skipped`")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="only every so many-th case")
    parser.add_argument("--keep")
    parser.add_argument("--only", default="")
    parser.add_argument("--real", type=pathlib.Path)
    args = parser.parse_args()
    exactness = args.build.resolve() / "tests" / "replay" / "exactness"
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or temporary
        os.makedirs(folder, exist_ok=True)
        torch = harness.Torch(args.build.resolve(), args.python, folder)
        if not torch.version:
            print("skipped: no torch in", args.python)
            return 77
        rows = bad = ooms = retries = left_out = 0
        if args.real:
            rows, bad = real(exactness, args.real)
        print("torch", torch.version, flush=True)
        for number, case in enumerate(cases(args.first_seed, args.seeds)):
            if number % args.every or args.only not in case["name"]:
                continue
            report = torch.run(case)
            if "Unrecognized CachingAllocator option" in report.get("failed", ""):
                left_out += 1
                print(f"{case['name']:<44} left out: this PyTorch has no such setting", flush=True)
                continue
            rows += 1
            if "failed" in report:
                print(case["name"], "failed:", report["failed"])
                bad += 1
                continue
            bad += not check(exactness, case, report)
            ooms += report["ooms"]
            retries += report["retries"]
        torch.close()
    print(f"{rows} snapshots, {bad} not exact, {left_out} left out; {retries} retries and {ooms} refusals among them")
    print(f"{rows - bad} passed, {bad} failed")
    if args.counts:
        args.counts.write_text(f"{rows - bad} {bad} 0\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
