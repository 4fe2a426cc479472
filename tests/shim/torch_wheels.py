# SPDX-License-Identifier: MIT
"""The hooks that PyTorch's releases want, read from their wheels' binaries: torch_wheels.py --build BUILD [VERSION...].

A wheel is fetched by pip (up to 1 GB) and the two libraries that matter are kept in ~/.cache/vramshim/wheels. For each
release: c10's two functions are defined in libc10.so, called from libc10_cuda.so through the PLT, and exported by the
recorder under the same mangled name, which spells out the types of all arguments; so is each CUDA call that allocates.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

VERSIONS = ["2.1.0", "2.6.0", "2.9.0", "2.11.0", "2.15.0"]
LIBRARIES = ["libc10.so", "libc10_cuda.so"]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "vramshim"
HOOK = re.compile(r"report(MemoryUsage|OutOfMemory)ToProfiler")
ALLOCATION = re.compile(r"cuda(Malloc|Free|Host(Alloc|Reg|Unreg)|Ipc(Open|Close)Mem|GetDriver)")


def libraries(version):
    """The folder with the release's libraries."""
    for folder in CACHE.glob("python*-torch-%s/lib/python3*/site-packages/torch/lib" % version):
        return folder
    kept = CACHE / "wheels" / ("torch-" + version)
    if all((kept / name).exists() for name in LIBRARIES):
        return kept
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--only-binary", ":all:", "--platform", "manylinux1_x86_64", "--platform", "manylinux2014_x86_64",
                        "--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--dest", folder,
                        "torch==" + version], check=True)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in LIBRARIES:
                (kept / name).write_bytes(archive.read("torch/lib/" + name))
    return kept


def symbols(path, which):
    output = subprocess.run(["nm", "-D", which, path], check=True, stdout=subprocess.PIPE).stdout.decode()
    return {line.split()[-1].split("@")[0] for line in output.splitlines()}


def check(version, exported):
    folder = libraries(version)
    given = {name for name in symbols(folder / "libc10.so", "--defined-only") if HOOK.search(name)}
    wanted = symbols(folder / "libc10_cuda.so", "--undefined-only")
    called = {name for name in wanted if HOOK.search(name)}
    allocating = {name for name in wanted if ALLOCATION.match(name)}
    problems = ["%s is not defined once" % what for what in ("MemoryUsage", "OutOfMemory")
                if sum(what in name for name in given) != 1]
    problems += ["%s is not called through the PLT" % name for name in given - called]
    problems += ["%s is not exported by the recorder" % name for name in (given | allocating) - exported]
    if not {"cudaMalloc", "cudaFree"} <= allocating:
        problems.append("cudaMalloc and cudaFree are not among its imports")
    print("torch %s: %s; %d allocating CUDA calls: %s" % (version, ", ".join(sorted(given)), len(allocating),
                                                         "; ".join(problems) or "all hooked"))
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    options = parser.parse_args()
    exported = symbols(options.build / "lib/shim/libvramshim.so", "--defined-only")
    return 0 if all([check(version, exported) for version in options.versions]) else 1


if __name__ == "__main__":
    sys.exit(main())
