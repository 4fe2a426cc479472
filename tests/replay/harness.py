"""One process that imports torch once, on the simulated device, and forks a child for each case."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def child(case, path):
    """In a process of its own: torch is imported, CUDA is not yet up."""
    os.environ["VRAMSIM_MEMORY"] = str(case["memory"])
    import torch

    sys.path.insert(0, str(HERE))
    if case.get("conf"):
        # The second name is that of versions before 2.10.
        configure = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
        (configure or torch.cuda.memory._set_allocator_settings)(case["conf"])
    if case.get("job"):
        import jobs

        report = jobs.run(torch, case, path)
    else:
        import random_requests

        report = random_requests.run(torch, case, path)
    with open(path + ".json", "w") as file:
        json.dump(dict(case, **report), file)


def serve(folder):
    """Reads cases from stdin, answers each with `done PATH` or `failed WHY`."""
    import torch

    print("torch", torch.__version__, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        path = os.path.join(folder, case["name"].replace("/", "-") + ".pickle")
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                child(case, path)
                os._exit(0)
            except BaseException as error:  # the parent must hear of everything
                with open(path + ".error", "w") as file:
                    file.write(f"{type(error).__name__}: {error}")
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            print("done", path, flush=True)
        else:
            why = pathlib.Path(path + ".error")
            text = why.read_text() if why.exists() else f"status {status}"
            print("failed", " ".join(text.split()), flush=True)


class Torch:
    """The other side of serve()."""

    def __init__(self, build, python, folder, gpu="a100-40"):
        libraries = build / "lib" / "sim"
        env = dict(os.environ)
        env["LD_PRELOAD"] = ":".join(
            str(libraries / name) for name in ("libvramsim.so", "libcuda.so.1", "libnvidia-ml.so.1"))
        env["LD_LIBRARY_PATH"] = str(libraries)
        env.update(VRAMSIM_GPU=gpu, VRAMSIM_COUNT="1")
        env.pop("PYTORCH_CUDA_ALLOC_CONF", None)
        env.pop("PYTORCH_ALLOC_CONF", None)
        self.process = subprocess.Popen([python, __file__, folder], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        first = self.process.stdout.readline().split()
        self.version = first[1] if first[:1] == ["torch"] else None
        self.number = 0
        if self.version:
            major, minor = self.version.split(".")[:2]
            self.number = 100 * int(major) + int(minor)

    def run(self, case):
        """The report of a case, with `path`; or {"failed": why}."""
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            if not line:
                return {"failed": "torch is gone"}
            if line.startswith("failed"):
                return {"failed": line[7:].strip()}
            if line.startswith("done"):
                path = line[5:].strip()
                with open(path + ".json") as file:
                    return dict(json.load(file), path=path)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    serve(sys.argv[1])
