# SPDX-License-Identifier: MIT
"""What the library is from outside: what it needs, what it exports, and what PyTorch's libraries want of it."""

import ctypes.util
import os
import re
import subprocess
import sys

from recorder import SHIM, Run, run_all, torch_environments

SOURCE = os.environ["SOURCE"]
RUNTIMES = ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"]


def symbols(path, *options):
    output = subprocess.run(["nm", "-D"] + list(options) + [path], check=True, stdout=subprocess.PIPE).stdout.decode()
    return {line.split()[-1] for line in output.splitlines()}


def exported():
    """What is exported, without versions, and without those themselves."""
    return {name.split("@")[0] for name in symbols(SHIM, "--defined-only")} - {"VRAMSHIM"} - set(RUNTIMES)


def test_needs_libc_only():
    output = subprocess.run(["readelf", "-d", SHIM], check=True, stdout=subprocess.PIPE).stdout.decode()
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output)
    assert needed and all(re.match(r"lib(c|dl|pthread)\.so\.|ld-linux", name) for name in needed), needed
    assert "TEXTREL" not in output


def test_exports_what_it_hooks():
    with open(SOURCE + "/lib/shim/cuda_entries.def") as table:
        entries = set(re.findall(r"^VS_ENTRY\((\w+),", table.read(), re.M))
    assert len(entries) > 30
    assert {"cudaGetDriverEntryPoint", "cudaGetDriverEntryPoint_ptsz", "cudaGetDriverEntryPointByVersion",
            "cudaGetDriverEntryPointByVersion_ptsz", "cuGetProcAddress", "cuGetProcAddress_v2"} <= entries
    gateways = {"dlopen", "dlsym", "dlvsym", "prctl"}
    torch = {"_ZN3c1027report%sToProfilerE%s%s%sNS_6DeviceE" % (what, pointer, "l", totals)
             for what, pointer in (("MemoryUsage", "Pv"), ("OutOfMemory", "")) for totals in ("mm", "ll")}
    marks = {"vramshim_mark", "vramshim_active"}
    assert exported() == entries | gateways | torch | marks, exported() ^ (entries | gateways | torch | marks)
    # Each of the runtime's in every version that a caller may ask for, none of the driver's in any.
    for name in entries:
        versions = {"@@VRAMSHIM"} | {"@" + runtime for runtime in RUNTIMES} if name.startswith("cuda") else {""}
        found = {symbol[len(name):] for symbol in symbols(SHIM, "--defined-only")
                 if symbol.split("@")[0] == name}
        assert found == versions, (name, found)


def test_torch_wheels():
    environments = torch_environments()
    if not environments:
        print("no PyTorch at hand: nothing compared")
    for version, interpreter in environments:
        library = os.path.dirname(interpreter) + "/../lib"
        found = subprocess.run(["find", library, "-path", "*/torch/lib/libc10*.so", "-o", "-path", "*/torch/lib/libtorch_cuda.so"],
                               stdout=subprocess.PIPE, check=True).stdout.decode().split()
        wanted, given = set(), set()
        for path in found:
            wanted |= {name.split("@")[0] for name in symbols(path, "--undefined-only")}
            given |= symbols(path, "--defined-only")
        hooks = {name for name in given if re.search(r"report(MemoryUsage|OutOfMemory)ToProfiler", name)}
        # Defined there, called from elsewhere through the PLT, and ours to answer.
        assert len(hooks) == 2 and hooks <= wanted and hooks <= exported(), (version, hooks)
        allocation = {name for name in wanted if re.match(r"cuda(Malloc|Free|Host(Alloc|Reg|Unreg)|Ipc(Open|Close)Mem|GetDriver)", name)}
        assert {"cudaMalloc", "cudaFree"} <= allocation
        # The driver's calls for expandable segments come by the runtime's gateway, or (2.1 to 2.6) by the loader's.
        assert any("GetDriverEntryPoint" in name for name in allocation) or "dlsym" in wanted
        assert allocation <= exported(), (version, allocation - exported())


def test_exceptions_stay_with_libgcc():
    """libunwind in the process must not take over the C++ runtime's exceptions."""
    library = ctypes.util.find_library("stdc++")
    assert library
    job = ("import ctypes; ctypes.CDLL(None).vramshim_mark(b'first'); "
           "assert 'libunwind' in open('/proc/self/maps').read(); ctypes.CDLL(%r)" % library)
    run = Run([sys.executable, "-c", job], env={"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"})
    assert run.status == 0, run.stderr[-2000:]
    bound = re.findall(rb"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(_Unwind_\w+)'", run.stderr)
    bound = [(user, provider) for user, provider, _ in bound if b"libunwind" not in user]
    assert any(b"libstdc++" in user for user, _ in bound)
    assert all(b"libgcc_s" in provider for _, provider in bound), bound


run_all(globals())
