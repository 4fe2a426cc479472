# SPDX-License-Identifier: MIT
"""Ways to a CUDA function: every form of dlsym(), two runtimes in one process, pointers whose library was closed."""

import subprocess
import sys

from recorder import CUDA_ALLOC, CUDA_FREE, TOOLS, Run, run_all

MATRIX = TOOLS + "/matrix"
RUNTIMES = TOOLS + "/runtimes"
# Every name is its own library's: which of the two was called is in the size, to which each adds its number.
JOB = """
import ctypes, sys
folder = sys.argv[1]
ctypes.CDLL(folder + "/../libcuda.so.1")
plugins = {major: ctypes.CDLL("%s/%d/plugin.so" % (folder, major)) for major in map(int, sys.argv[2:])}
for major, plugin in plugins.items():
    assert plugin.plugin_use(ctypes.c_size_t(1000)) == 0, major
assert [plugin.plugin_calls() for plugin in plugins.values()] == [2] * len(plugins)
for major, plugin in plugins.items():
    for other in plugins:
        name = "%s/%d/libcudart.so.%d" % (folder, other, other)
        assert plugin.plugin_by_handle(name.encode(), ctypes.c_size_t(2000)) == 0
print([plugin.plugin_calls() for plugin in plugins.values()])
"""


def test_matrix():
    plain, recorded = (Run([MATRIX], shim=shim) for shim in (False, True))
    assert plain.status == recorded.status == 0, (plain.stderr, recorded.stderr)
    assert plain.stdout == recorded.stdout, (plain.stdout.decode(), recorded.stdout.decode())
    assert recorded.stderr == b"" and recorded.traces == []
    assert b"default open: libc.so.6" in plain.stdout and b"0 threads failed" in plain.stdout
    disabled = Run([MATRIX], env={"VRAMSHIM_DISABLE": "1"})
    assert disabled.status == 0 and disabled.stdout == plain.stdout, disabled.stdout.decode()


def test_driver_by_every_name():
    command = [MATRIX, TOOLS + "/libcuda.so.1"]
    plain, recorded = Run(command, shim=False), Run(command)
    assert plain.status == recorded.status == 0 and plain.stdout == recorded.stdout, recorded.stdout.decode()
    trace, = recorded.traces
    assert [(e["name"], e["size"]) for e in trace.of(CUDA_ALLOC)] == [
        ("cuMemAlloc_v2", 1000), ("cuMemAlloc_v2", 2000), ("cuMemAlloc_v2", 3000)]


def test_driver_of_another_name():
    """None that the recorder would look into by itself."""
    command = [MATRIX, TOOLS + "/libown.so"]
    plain, recorded = Run(command, shim=False), Run(command)
    assert plain.status == recorded.status == 0 and plain.stdout == recorded.stdout, recorded.stdout.decode()
    assert ("cuMemAlloc_v2", 1000) in [(e["name"], e["size"]) for e in recorded.traces[0].of(CUDA_ALLOC)]


def test_runtime_within_a_library():
    """Linked in, and exported, as nvcc does it: the library's calls of itself come by us."""
    job = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).use(ctypes.c_size_t(1000)))"
    command = [sys.executable, "-c", job, TOOLS + "/static.so"]
    recorded, disabled = Run(command), Run(command, env={"VRAMSHIM_DISABLE": "1"})
    assert recorded.stdout == disabled.stdout == Run(command, shim=False).stdout == b"1007\n", recorded.stdout
    assert [e["size"] for e in recorded.traces[0].of(CUDA_ALLOC)] == [1000]


# In which order they are opened says nothing about whose runtime a library calls: its own.
OWN_JOB = """
import ctypes, os, shutil, sys, tempfile
order, folder = sys.argv[1], sys.argv[2]
copies = tempfile.mkdtemp()
ctypes.CDLL(folder + "/libcuda.so.1")
own, shared = [], []
for what in order:
    if what == "s":
        shared.append(ctypes.CDLL(folder + "/runtimes/12/plugin.so"))
        assert shared[-1].plugin_use(ctypes.c_size_t(1000)) == 0
    else:
        own.append(ctypes.CDLL(shutil.copy(folder + "/static.so", "%s/own%d.so" % (copies, len(own)))))
        assert own[-1].use(ctypes.c_size_t(1000)) == 1007
shutil.rmtree(copies)
for turn in range(3):
    for library in own:
        assert library.use(ctypes.c_size_t(2000)) == 2007
    for library in shared:
        assert library.plugin_use(ctypes.c_size_t(2000)) == 0
print([ctypes.c_int.in_dll(library, "calls").value for library in own], [library.plugin_calls() for library in shared])
"""


def test_runtimes_within_libraries_and_a_shared_one():
    for order in "os", "so", "oos", "oso", "soo":
        command = [sys.executable, "-c", OWN_JOB, order, TOOLS]
        plain, recorded = Run(command, shim=False), Run(command)
        disabled = Run(command, env={"VRAMSHIM_DISABLE": "1"})
        assert plain.status == 0 and plain.stdout, plain.stderr.decode()
        for run in recorded, disabled:
            assert (run.status, run.stdout, run.stderr) == (0, plain.stdout, b""), (order, run.stdout, run.stderr.decode())
        assert plain.stdout.split()[:1] == [b"[4]" if order.count("o") == 1 else b"[4,"], plain.stdout
        sizes = sorted(e["size"] for e in recorded.traces[0].of(CUDA_ALLOC))
        assert sizes == [1000] * order.count("o") + [1012] + [2000] * 3 * order.count("o") + [2012] * 3, (order, sizes)


def runtimes(*majors):
    run = Run([sys.executable, "-c", JOB, RUNTIMES] + [str(major) for major in majors])
    assert run.status == 0 and run.stderr == b"", run.stderr.decode()
    return run, run.traces[0]


def test_two_runtimes():
    for majors in ((12, 13), (13, 12)):
        run, trace = runtimes(*majors)
        # Two calls of its own, and two by each library through its handle.
        assert run.stdout.split() == [b"[6,", b"6]"], run.stdout
        sizes = [e["size"] for e in trace.of(CUDA_ALLOC)]
        # Booked once, where the driver gave it, under the name that was called.
        assert sizes == [1000 + major for major in majors] + [2000 + major for major in majors] * 2, sizes
        assert {e["name"] for e in trace.of(CUDA_ALLOC)} == {"cudaMalloc"}
        assert [e["address"] for e in trace.of(CUDA_FREE)] == [e["address"] for e in trace.of(CUDA_ALLOC)]


def test_one_runtime():
    for major in 12, 13:
        assert [e["size"] for e in runtimes(major)[1].of(CUDA_ALLOC)] == [1000 + major, 2000 + major]


run_all(globals())
