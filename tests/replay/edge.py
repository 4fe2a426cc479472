#!/usr/bin/env python3
"""Jobs at the edge of the card: what vramreport whatif says of a capacity against what really running there does.

    edge.py --build BUILD --python PYTHON [--every N]

Each job runs once on a large card. Then the capacity is swept in steps of 2 %, from less than its live bytes to more
than its reserved peak, under the default and under expandable segments; whatif must give the same verdict in at least
99 % of the cases, and the same reserved peak, to the byte, wherever the job fits. Exits 1 where it does not, 77 where
torch is absent.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import harness

MIB = 1 << 20
SETTINGS = {"default": "", "expandable": "expandable_segments:True"}


def ask(vramreport, snapshot, text, capacity, outside, version):
    command = [vramreport, "whatif", "--json", "--settings", text, "--gpu-memory", capacity, "--outside", outside,
               "--torch", version, snapshot]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode > 1:
        raise SystemExit(result.stderr)
    answer = json.loads(result.stdout)
    return answer["baseline"]["exact"], answer["scenarios"][0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--counts", type=pathlib.Path, help="file for `passed failed skipped`")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th capacity")
    args = parser.parse_args()
    build = args.build.resolve()
    vramreport = build / "tools" / "vramreport"
    with tempfile.TemporaryDirectory() as folder:
        torch = harness.Torch(build, args.python, folder)
        if not torch.version:
            print("skipped: no torch in", args.python)
            return 77
        print("torch", torch.version)
        cases = same = peaks = peaks_same = inexact = 0
        for job in ("mlp", "transformer", "inference"):
            base = torch.run({"job": job, "memory": 32768 * MIB, "name": job})
            outside = base["total"] - base["free"] - base["reserved"]
            for name, text in SETTINGS.items():
                exact, told = ask(vramreport, base["path"], text, 32768 * MIB, outside, torch.version)
                inexact += not exact
                verdicts = ""
                capacity, step = base["allocated_peak"] * 0.95, 0
                while capacity < told["reserved_peak_bytes"] * 1.03:
                    capacity, step = capacity * 1.02, step + 1
                    if step % args.every:
                        continue
                    capacity_bytes = int(capacity) + outside
                    real = torch.run({"job": job, "memory": capacity_bytes, "conf": text,
                                      "name": f"{job}-{name}-{step}"})
                    exact, told_here = ask(vramreport, base["path"], text, capacity_bytes, outside, torch.version)
                    fits = not real["ooms"]
                    cases += 1
                    same += fits == told_here["fits"]
                    verdicts += {True: "+", False: "-"}[fits] if fits == told_here["fits"] else "X"
                    if fits:
                        peaks += 1
                        peaks_same += real["reserved_peak"] == told_here["reserved_peak_bytes"]
                        if real["reserved_peak"] != told_here["reserved_peak_bytes"]:
                            verdicts += f"({told_here['reserved_peak_bytes'] - real['reserved_peak']:+d})"
                print(f"{job:12} {name:11} peak {told['reserved_peak_bytes']:>12}  {verdicts}", flush=True)
        torch.close()
    print(f"verdict as in reality in {same} of {cases} cases; reserved peak to the byte in {peaks_same} of {peaks}")
    good = not inexact and same >= 0.99 * cases and peaks_same == peaks
    print(f"{1 if good else 0} passed, {0 if good else 1} failed")
    if args.counts:
        args.counts.write_text("1 0 0\n" if good else "0 1 0\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
