# SPDX-License-Identifier: MIT
"""The hooks, called by a library that is linked with mock CUDA and libc10 and loaded RTLD_LOCAL, as PyTorch is."""

import sys

from recorder import (CUDA_ALLOC, CUDA_FAIL, CUDA_FREE, EXIT, MEMINFO, TOOLS, TORCH_ALLOC, TORCH_FREE, TORCH_OOM, Run,
                      run_all)

JOB = "import ctypes, sys; sys.exit(getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(*map(int, sys.argv[3:])) != 0)"
DEVICE, MANAGED, PINNED, _, POOL, PHYSICAL, MAPPED, RESERVED = range(1, 9)


def run(name, *arguments, job="/job.so", **options):
    result = Run([sys.executable, "-c", JOB, TOOLS + job, name] + [str(a) for a in arguments], **options)
    assert result.status == 0 and result.stdout == b"" and result.stderr == b"", (result.status, result.stderr)
    return result


def recorded(name, *arguments, **options):
    traces = run(name, *arguments, **options).traces
    assert len(traces) == 1
    assert traces[0].info["clean"] and traces[0].info["lost"] == 0
    assert [e["sequence"] for e in traces[0].events] == list(range(1, len(traces[0].events) + 1))
    return traces[0]


def short(events):
    return [(e["event"], e["memory"], e["name"], e["device"], e["size"]) for e in events]


def test_runtime():
    trace = recorded("job_runtime")
    events = trace.of(CUDA_ALLOC, CUDA_FREE)
    assert short(events) == [
        (CUDA_ALLOC, DEVICE, "cudaMalloc", 0, 1000),
        (CUDA_ALLOC, DEVICE, "cudaMallocPitch", 3, 5120),
        (CUDA_FREE, DEVICE, "cudaFree", -1, 0),
        (CUDA_FREE, DEVICE, "cudaFree", -1, 0),
        (CUDA_ALLOC, DEVICE, "cudaMalloc3D", 3, 6144),
        (CUDA_ALLOC, MANAGED, "cudaMallocManaged", 3, 2000),
        (CUDA_ALLOC, PINNED, "cudaMallocHost", 3, 3000),
        (CUDA_FREE, PINNED, "cudaFreeHost", -1, 0),
        (CUDA_ALLOC, POOL, "cudaMallocAsync", 3, 4000),
        (CUDA_FREE, POOL, "cudaFreeAsync", -1, 0),
    ], short(events)
    # Each free names the address that an allocation returned.
    assert events[2]["address"] == events[0]["address"] and events[3]["address"] == events[1]["address"]
    assert events[7]["address"] == events[6]["address"] and events[9]["address"] == events[8]["address"]
    assert not trace.of(CUDA_FAIL)
    # Device facts, and a sample of free memory right after the first allocation on a device; others may follow.
    assert {(e["device"], e["size"]) for e in trace.of(MEMINFO)} == {(0, 15 << 30), (3, 15 << 30)}
    for device in 0, 3:
        first = [e["event"] for e in trace.events if e["device"] == device]
        assert first[:2] == [CUDA_ALLOC, MEMINFO], first
    for device in 0, 3:
        assert trace.facts["device:%d:name" % device] == "Mock %d" % device
        assert trace.facts["device:%d:total_bytes" % device] == str(16 << 30)
        assert "device:%d:simulated" % device not in trace.facts


def test_errors():
    trace = recorded("job_errors")
    assert [(e["name"], e["result"], e["size"], e["address"]) for e in trace.of(CUDA_FAIL)] == [
        ("cudaMalloc", 2, 2 << 30, 0), ("cudaMalloc", 1, 10, 0), ("cudaFree", 1, 0, 0x1234)]
    assert len(trace.of(CUDA_ALLOC)) == 1
    # The unknown pointer's free was logged before CUDA was asked; freeing NULL is nothing.
    assert [e["address"] for e in trace.of(CUDA_FREE)] == [0x1234]


def test_gateways():
    trace = recorded("job_gateways")
    events = trace.of(CUDA_ALLOC, CUDA_FREE)
    assert short(events) == [
        (CUDA_ALLOC, PHYSICAL, "cuMemCreate", 5, 2 << 20),
        (CUDA_ALLOC, RESERVED, "cuMemAddressReserve", 0, 8 << 20),
        (CUDA_ALLOC, MAPPED, "cuMemMap", 0, 2 << 20),
        (CUDA_FREE, MAPPED, "cuMemUnmap", -1, 2 << 20),
        (CUDA_FREE, PHYSICAL, "cuMemRelease", -1, 0),
        (CUDA_FREE, RESERVED, "cuMemAddressFree", -1, 8 << 20),
        (CUDA_ALLOC, PHYSICAL, "cuMemCreate", -1, 4 << 20),
        (CUDA_FREE, PHYSICAL, "cuMemRelease", -1, 0),
        (CUDA_ALLOC, DEVICE, "cuMemAlloc_v2", 0, 5000),
        (CUDA_ALLOC, POOL, "cuMemAllocAsync_ptsz", 0, 6000),
    ], short(events)
    create, reserve, mapped, unmap, release = events[:5]
    assert mapped["handle"] == create["address"] == release["address"]
    assert mapped["address"] == reserve["address"] == unmap["address"]


def test_capture():
    """While a stream is captured the driver is asked nothing; before and after it is."""
    trace = recorded("job_capture")
    names = [e["name"] if e["event"] == CUDA_ALLOC else e["event"] for e in trace.of(CUDA_ALLOC, MEMINFO)]
    assert names[:2] == ["cudaMalloc", MEMINFO] and names[-1] == MEMINFO, names
    assert names.count("cudaMallocAsync") == 100
    captured = names.index("cudaMallocAsync"), len(names) - 1 - names[::-1].index("cudaMallocAsync")
    assert MEMINFO not in names[captured[0] : captured[1]], names


def test_no_context():
    trace = recorded("job_no_context")
    assert short(trace.of(CUDA_ALLOC)) == [(CUDA_ALLOC, PHYSICAL, "cuMemCreate", 0, 2 << 20)]
    assert not trace.of(MEMINFO)


def test_bundled_runtime():
    """Wheels that bring the runtime with them have it under a name of their own."""
    trace = recorded("job_runtime", job="/job_bundled.so")
    assert len(trace.of(CUDA_ALLOC)) == 6 and not trace.of(CUDA_FAIL)


def test_cancelled_in_the_first_event():
    assert [e["address"] for e in recorded("job_cancelled").of(TORCH_ALLOC)] == [0x7F0000000000, 0x7F0000000200]


def test_torch():
    trace = recorded("job_torch")
    assert [(e["event"], e["device"], e["address"], e["size"], e["allocated"], e["reserved"])
            for e in trace.of(TORCH_ALLOC, TORCH_FREE, TORCH_OOM)] == [
        (TORCH_ALLOC, 0, 0x7F0000000000, 1024, 1024, 2 << 20),
        (TORCH_ALLOC, 2, 0x7F0000000400, 512, 1536, 2 << 20),
        (TORCH_FREE, 0, 0x7F0000000000, 1024, 512, 2 << 20),
        (TORCH_OOM, 0, 0, 1 << 30, 512, 2 << 20)]
    # Free memory is known where it matters: at the first allocation and at the out-of-memory.
    assert [e["device"] for e in trace.of(MEMINFO)] == [0, 0]
    assert trace.events[-1]["event"] == EXIT


def test_stacks():
    trace = recorded("job_torch")
    for event in trace.of(TORCH_ALLOC, TORCH_FREE, TORCH_OOM):
        modules = [module for _, module in event["native"]]
        assert modules[0].endswith("/job.so"), modules
        assert not any("libvramshim" in m or "libunwind" in m for m in modules), modules
        assert "python" in modules[-1], modules
        assert [f[1] for f in event["python"]] == ["<module>"] and event["python"][0][0] == "<string>"
    # One place in the code is one stack.
    assert len({e["stack"] for e in trace.of(TORCH_ALLOC, TORCH_FREE)}) == 3


def test_light():
    trace = recorded("job_torch", env={"VRAMSHIM_LEVEL": "light"})
    assert trace.facts["level"] == "light"
    for event in trace.of(TORCH_ALLOC, TORCH_FREE, TORCH_OOM):
        assert event["native"] == []
        assert len(event["python"]) == (0 if event["event"] == TORCH_FREE else 1)


def test_threads():
    rounds, at_once = 40, 16
    trace = recorded("job_threads", rounds, at_once)
    allocs, frees = trace.of(TORCH_ALLOC), trace.of(TORCH_FREE)
    assert len(allocs) == len(frees) == rounds * at_once * 50
    assert sorted(e["address"] for e in allocs) == sorted(e["address"] for e in frees)
    # A block is freed after it was allocated, by its own thread: also where the thread's log was gone already.
    threads = {}
    for event in trace.of(TORCH_ALLOC, TORCH_FREE):
        if event["event"] == TORCH_ALLOC:
            threads[event["address"]] = event["thread"]
        else:
            assert threads.pop(event["address"]) == event["thread"]
    assert not threads
    # A thread's end gives its 64 KiB chunk, or the log, to the next: not one each for 640 threads.
    assert trace.size < rounds * at_once * 65536 / 4, trace.size


def test_deep_native_stack():
    event, = recorded("job_deep", 400).of(TORCH_ALLOC)
    assert event["truncated"] and 240 < len(event["native"]) <= 256
    event, = recorded("job_deep", 100).of(TORCH_ALLOC)
    assert not event["truncated"] and 100 < len(event["native"]) < 200


def test_exit_while_threads_report():
    seen, microseconds = 0, 0
    # On a busy machine the threads begin late: there, on until some have reported.
    while microseconds < 6000 or (not seen and microseconds < 4_000_000):
        microseconds += 500 if microseconds < 6000 else microseconds
        # The end may come before the first event: then with no trace, or an empty one, never with part of one.
        for trace in run("job_background", 3, microseconds).traces:
            assert trace.info["clean"] and trace.events[-1]["event"] == EXIT
            assert all(e["native"] for e in trace.of(TORCH_ALLOC, TORCH_FREE))
            seen += len(trace.of(TORCH_ALLOC))
    assert seen > 0


def test_size_cap():
    trace = run("job_threads", 200, 4, env={"VRAMSHIM_MAX_SIZE": "262144"}).traces[0]
    # And samples of the device, one or none as a rule, which may be lost like any other event.
    count = len(trace.of(TORCH_ALLOC, TORCH_FREE, MEMINFO))
    samples = count + trace.info["lost"] - 200 * 4 * 100
    assert trace.info["lost"] > 0 and 0 <= samples <= 4, (count, trace.info)


def test_signals():
    trace = run("job_signals", 500).traces[0]
    assert trace.info["clean"] and trace.info["lost"] == 0
    own = [e for e in trace.of(TORCH_ALLOC, TORCH_FREE) if e["address"] != 0x7E0000000000]
    assert [e["event"] for e in own] == [TORCH_ALLOC, TORCH_FREE] * (len(own) // 2)


def test_disabled():
    for env in {"VRAMSHIM_DISABLE": "1"}, {"VRAMSHIM_OUT": ""}:
        for name in "job_runtime", "job_errors", "job_gateways", "job_torch":
            assert run(name, env=env).traces == []


run_all(globals())
