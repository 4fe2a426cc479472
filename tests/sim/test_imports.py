# SPDX-License-Identifier: MIT
"""Every CUDA symbol that the libraries of a PyTorch environment import is exported by the simulated device:
test_imports.py LIBVRAMSIM [PYTHON_ENVIRONMENT...]. Without environments, those in the user's cache are read.
Also: the simulated device exports nothing but CUDA's names and its gateways.
Exit status 77 where there is no environment."""
import pathlib
import re
import subprocess
import sys

SKIPPED = 77  # automake's word for it

# The libraries that are stood in for. Left alone, because they need no device or are opened only on request:
# NVRTC (a compiler), cuFile, NVSHMEM, cuRAND, NVBLAS.
SIMULATED = "cudart cublas cublasLt cudnn cusparse cusparseLt cusolver cufft nccl cupti cuda nvidia-ml".split()
NAMES = re.compile(r"^(__cuda|cuda|cublas|cudnn|cusparse|cusolver|cufft|cupti|nccl|nvml)[A-Z]|^cu[A-Z]|^vramsim_")
# Of libc's, what must know of the simulated libraries and device files.
GATEWAYS = {"dlopen", "access", "euidaccess", "faccessat", "fstatat", "fstatat64", "lstat", "lstat64", "stat", "stat64",
            "statx", "__lxstat", "__lxstat64", "__xstat", "__xstat64"}
IMPORTERS = ["torch/lib/*.so*", "bitsandbytes/*cuda1[23]*.so", "torch/_C*.so", "torchvision/*.so", "torchaudio/**/*.so"]


def symbols(library, which):
    out = subprocess.run(["nm", "-D", which, library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}


def providers(packages):
    """Which simulated library exports a name, by the environment's own copies."""
    found = {}
    for library in packages.glob("nvidia/*/lib/lib*.so*"):
        name = library.name.removeprefix("lib").split(".so")[0]
        if name in SIMULATED:
            for symbol in symbols(library, "--defined-only"):
                if NAMES.match(symbol):
                    found[symbol] = library.name
    return found


def missing(packages, exported):
    known = providers(packages)
    for pattern in IMPORTERS:
        for library in sorted(packages.glob(pattern)):
            for symbol in sorted(symbols(library, "--undefined-only")):
                # The driver's library is no part of an environment: its names are told by their form.
                ours = known.get(symbol) or (re.match(r"^cu[A-Z](?!File)", symbol) and "libcuda.so.1")
                if ours and symbol not in exported and not symbol.startswith("cuFile"):
                    yield f"{library.name} imports {symbol} of {ours}"


def main():
    device, *environments = sys.argv[1:]
    exported = symbols(device, "--defined-only")
    strange = sorted(name for name in exported if not NAMES.match(name) and name not in GATEWAYS)
    for name in strange:
        print(f"FAIL exports {name}, which is no name of CUDA's, and no gateway")
    roots = [pathlib.Path(e) for e in environments] or sorted((pathlib.Path.home() / ".cache/vramshim").glob("python*"))
    failures, seen = len(strange), 0
    for root in roots:
        for packages in root.glob("lib/python3*/site-packages"):
            if not (packages / "torch/lib").is_dir():
                continue
            seen += 1
            lines = list(missing(packages, exported))
            for line in lines:
                print(f"FAIL {root.name}: {line}")
            print(f"{root.name}: {len(lines)} symbols missing")
            failures += len(lines)
    if not seen and not failures:
        print("skipped: no environment with PyTorch was found")
        return SKIPPED
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
