# SPDX-License-Identifier: MIT
"""Random CUDA calls on the simulated device, recorded, and the ledger held against the device's own books:
run.py --build BUILD [--calls N] [--seeds N] [--threads N]. Exit status 0 where they agree at every instant."""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile


def one(build, seed, calls, threads, keep):
    folder = tempfile.mkdtemp(prefix="vramshim-sequence-")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VRAMSHIM_", "VRAMSIM_"))}
    environment.update(
        LD_PRELOAD=f"{build}/lib/shim/libvramshim.so:{build}/lib/sim/libvramsim.so",
        LD_LIBRARY_PATH=f"{build}/lib/sim",
        VRAMSHIM_OUT=folder,
        VRAMSHIM_MAX_SIZE=str(4 << 30),
        VRAMSHIM_OOM="quiet",
        VRAMSIM_GPU="A100-80",
        VRAMSIM_COUNT="2",
    )
    try:
        command = [f"{build}/tests/sequence/sequence", str(seed), str(calls), str(threads)]
        job = subprocess.run(command, env=environment, capture_output=True, text=True)
        print(f"seed {seed}: {job.stdout.strip()}", flush=True)
        if job.returncode or job.stderr:
            print(f"seed {seed}: exit status {job.returncode}: {job.stderr.strip()}")
            return False
        if threads == 1:
            environment["LD_PRELOAD"] = f"{build}/lib/sim/libvramsim.so"
            plain = subprocess.run(command, env=environment, capture_output=True, text=True)
            if (plain.returncode, plain.stdout, plain.stderr) != (0, job.stdout, ""):
                print(f"seed {seed}: unrecorded, it returns something else: {plain.stdout.strip()} {plain.stderr.strip()}")
                return False
        (trace,) = glob.glob(folder + "/*.vst")
        check = subprocess.run([f"{build}/tests/sequence/sequence_check", trace], capture_output=True, text=True)
        print(f"seed {seed}: {check.stdout.strip()}", flush=True)
        return check.returncode == 0
    finally:
        if not keep:
            shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--calls", type=int, default=1000000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--keep", action="store_true", help="keep the traces, in the folder for temporary files")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    seeds = range(options.first, options.first + options.seeds)
    good = [one(build, seed, options.calls, options.threads, options.keep) for seed in seeds]
    print(f"{sum(good)} of {len(good)} sequences without a byte lost or counted twice")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
