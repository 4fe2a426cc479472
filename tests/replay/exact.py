#!/usr/bin/env python3
"""Snapshots that real PyTorch writes on the simulated device, under every allocator setting, against the model.

    exact.py --build BUILD --python PYTHON [--seeds N] [--keep FOLDER] [--only TEXT]

PYTHON has torch. Prints the exactness table and exits 1 where a row is not exact, 77 where torch is absent.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
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


def pairs():
    """Each setting alone, then each two that can stand together."""
    for name, text in SETTINGS.items():
        yield name, text
    names = [name for name in SETTINGS if name != "default"]
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            keys = [part.split(":")[0] for name in (first, second) for part in SETTINGS[name].split(",")]
            if first.startswith("split") and second in ("split21", "rounding") or first.startswith("roundup") and second == "roundup-list":
                continue
            if len(set(keys)) < len(keys):
                continue
            # max_split_size must exceed the large segment: order matters to the parser
            text = ",".join(sorted([SETTINGS[first], SETTINGS[second]], key=lambda t: "large_segment" not in t))
            if "large_segment_size_mb:40" in text and "max_split_size_mb:21" in text:
                continue
            yield f"{first}+{second}", text


def cases(seeds):
    for name, text in pairs():
        for seed in range(seeds):
            gc = "garbage" in text
            shapes = {
                "roomy": {"memory": 16384 * MIB, "kind": "mixed", "count": 3000},
                "tight": {"memory": 1536 * MIB, "kind": "mixed", "count": 3000, "grow": 0.53},
                "full": {"memory": 3072 * MIB, "kind": "large", "count": 1500, "grow": 0.6, "empty": False},
                "streams": {"memory": 2048 * MIB, "kind": "mixed", "count": 3000, "streams": 3},
                "pools": {"memory": 2048 * MIB, "kind": "mixed", "count": 2000, "streams": 1, "pools": 2},
            }
            for shape, case in shapes.items():
                case = dict(case, seed=seed * 1000 + len(shape), conf=text, name=f"{name}/{shape}/{seed}")
                if gc or seed % 3 == 2:
                    case["fraction"] = 0.8
                yield case


def child(case, path):
    """In a process of its own: torch is imported, CUDA is not yet up."""
    os.environ["VRAMSIM_MEMORY"] = str(case["memory"])
    import torch

    sys.path.insert(0, str(HERE))
    if case.get("conf"):
        torch._C._accelerator_setAllocatorSettings(case["conf"])
    if case.get("job"):
        import jobs

        report = jobs.run(torch, case, path)
    else:
        import random_requests

        report = random_requests.run(torch, case, path)
    with open(path + ".json", "w") as file:
        json.dump(dict(case, **report), file)


def worker(folder):
    """Reads cases from stdin, forks one process for each."""
    import torch  # noqa: F401

    print("torch", torch.__version__, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        path = os.path.join(folder, case["name"].replace("/", "-") + ".pickle")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child(case, path)
                status = 0
            except BaseException as error:  # the parent must hear of everything
                print("failed", case["name"], type(error).__name__, error, flush=True)
            sys.stdout.flush()
            os._exit(status)
        _, status = os.waitpid(pid, 0)
        print("done" if status == 0 else f"failed {status}", case["name"], path, flush=True)


def simulated(build, gpu):
    folder = build / "lib" / "sim"
    env = dict(os.environ)
    env["LD_PRELOAD"] = ":".join(str(folder / name) for name in ("libvramsim.so", "libcuda.so.1", "libnvidia-ml.so.1"))
    env["LD_LIBRARY_PATH"] = str(folder)
    env.update(VRAMSIM_GPU=gpu, VRAMSIM_COUNT="1")
    env.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    return env


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--only", default="")
    parser.add_argument("--worker")
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return 0
    build = args.build.resolve()
    exactness = build / "tests" / "replay" / "exactness"
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or temporary
        os.makedirs(folder, exist_ok=True)
        wanted = [case for case in cases(args.seeds) if args.only in case["name"]]
        run = subprocess.Popen(
            [args.python, __file__, "--build", str(build), "--worker", folder],
            env=simulated(build, "a100-40"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = run.stdout.readline()
        if not first.startswith("torch"):
            print("skipped: no torch in", args.python)
            return 77
        print(first.strip())
        version = first.split()[1].split(".")
        number = 100 * int(version[0]) + int(version[1])
        bad = ooms = retries = rows = 0
        for case in wanted:
            run.stdin.write(json.dumps(case) + "\n")
            run.stdin.flush()
            while not (line := run.stdout.readline()).startswith(("done", "failed " )) :
                if not line:
                    break
                print(line.strip())
            if not line.startswith("done"):
                print(line.strip())
                if line.split()[1].lstrip("-").isdigit() is False:
                    print(run.stdout.readline().strip())
                bad += 1
                continue
            path = line.split()[2]
            report = json.load(open(path + ".json"))
            command = [exactness, "--total", str(report["total"]), "--version", str(number)]
            command += ["--outside", str(report["total"] - report["free"] - report["reserved"])]
            if case.get("fraction"):
                command += ["--fraction", repr(case["fraction"])]
            command += ["--expect-peak", str(report["reserved_peak"]), path]
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            print("\n".join(result.stdout.splitlines()[1:]), f"retries {report['retries']} ooms {report['ooms']}")
            if result.returncode:
                print(result.stderr, end="")
                bad += 1
            ooms += report["ooms"]
            retries += report["retries"]
            rows += 1
        run.stdin.close()
        run.wait()
        print(f"{rows} snapshots, {bad} not exact; {retries} retries, {ooms} refusals among them")
        return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
