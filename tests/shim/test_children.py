# SPDX-License-Identifier: MIT
"""The processes that a PyTorch job starts, on the simulated device: the job's output is the same with and without the
recorder, and there is a trace for each that touched the GPU, and for no other."""

import sys
import tempfile

from recorder import BUILD, SKIPPED, TORCH_ALLOC, Run, run_all, torch_environments

SIMULATED = [BUILD + "/lib/sim/" + name for name in ("libvramsim.so", "libcuda.so.1", "libnvidia-ml.so.1")]
VARIABLES = {"VRAMSIM_GPU": "t4", "VRAMSIM_COUNT": "2", "PYTHONWARNINGS": "ignore", "TORCHELASTIC_ERROR_FILE": "",
             "OMP_NUM_THREADS": "1"}
ENVIRONMENTS = torch_environments()[-1:]

LOADER = """
import subprocess, sys
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return torch.tensor([index * index])

def main():
    weight = torch.ones(1, device="cuda", requires_grad=True)
    for context in "fork", "spawn", "forkserver":
        loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=context)
        print(context, [batch.flatten().tolist() for batch in loader], flush=True)
    (weight * torch.ones(1000, device="cuda")).sum().backward()
    print(subprocess.run(["/bin/sh", "-c", "echo from a shell; exit 3"], capture_output=True))

if __name__ == "__main__":
    main()
"""

PROCESSES = """
import multiprocessing, sys
import torch

def work(index):
    if index < 2:                        # the third one touches no GPU
        block = torch.ones(1000 + index, device="cuda:%d" % index)
    return index, torch.cuda.is_initialized()

def main():
    for method in "spawn", "forkserver":
        with multiprocessing.get_context(method).Pool(3, maxtasksperchild=1) as pool:
            print(method, pool.map(work, range(3), chunksize=1), flush=True)
    print(torch.cuda.is_initialized())

if __name__ == "__main__":
    main()
"""

RANKS = """
import os, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
block = torch.ones(4096, device="cuda")
print("rank", rank, torch.cuda.memory_allocated(), flush=True)
"""

FAULT = """
import faulthandler, os, sys, torch
faulthandler.enable()
block = torch.ones(4096, device="cuda")
sys.stdout.write("before\\n")
sys.stdout.flush()
os.kill(os.getpid(), 11)
"""


def both(code, command=(), **options):
    """The job with and without us; its trace's allocations, by process."""
    for version, interpreter in ENVIRONMENTS:
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/job.py", "w") as file:
                file.write(code)
            job = [interpreter, *command, folder + "/job.py"]
            plain = Run(job, preload=SIMULATED, env=VARIABLES, shim=False, timeout=240, **options)
            run = Run(job, preload=SIMULATED, env=VARIABLES, timeout=240, **options)
        yield version, plain, run


def lines(output):
    return sorted(output.decode().splitlines())


def test_data_loaders():
    for version, plain, run in both(LOADER):
        assert plain.status == 0, plain.stderr[-2000:]
        assert (run.status, run.stdout, run.stderr) == (plain.status, plain.stdout, plain.stderr), run.stderr[-2000:]
        trace, = run.traces
        assert len(trace.of(TORCH_ALLOC)) >= 3


def test_pools_of_processes():
    for version, plain, run in both(PROCESSES):
        assert plain.status == 0, plain.stderr[-2000:]
        assert (run.status, run.stdout, run.stderr) == (plain.status, plain.stdout, plain.stderr), run.stderr[-2000:]
        assert [len(trace.of(TORCH_ALLOC)) for trace in run.traces] == [1, 1, 1, 1], run.traces
        assert sorted(trace.of(TORCH_ALLOC)[0]["device"] for trace in run.traces) == [0, 0, 1, 1]


def test_torchrun():
    for version, plain, run in both(RANKS, ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]):
        assert plain.status == 0, plain.stderr[-2000:]
        assert (run.status, lines(run.stdout)) == (plain.status, lines(plain.stdout)), run.stderr[-2000:]
        assert b"vramshim" not in run.stderr
        assert sorted(trace.facts["rank"] for trace in run.traces) == ["0", "1"]


def test_faulthandler():
    """A fatal signal is reported by the job's own handler, and ends it as ever."""
    for version, plain, run in both(FAULT):
        assert plain.status == -11 and b"Segmentation fault" in plain.stderr
        assert (run.status, run.stdout) == (plain.status, plain.stdout)
        assert len(run.stderr.splitlines()) == len(plain.stderr.splitlines())
        assert not run.traces[0].info["clean"] and len(run.traces[0].of(TORCH_ALLOC)) == 1


if not ENVIRONMENTS:
    print("no PyTorch at hand")
    sys.exit(SKIPPED)
run_all(globals())
