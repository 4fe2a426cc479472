# SPDX-License-Identifier: MIT
"""What CUDA's driver does with memory, asked call by call without PyTorch: driver.py OUT. Sizes of what the card
loses, addresses, the context, virtual memory, pools, and what the questions themselves cost. Each allocation is listed,
so that a recording can be held against the list; each part that fails says so and the others go on."""

import ctypes
import json
import os
import sys
import time

MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
# As a program that is linked with the driver finds it: a preloaded definition comes first.
cuda = ctypes.CDLL(None)
if not hasattr(cuda, "cuMemAlloc_v2"):
    cuda = driver
calls = []  # [what, address or handle, size]


class Refused(Exception):
    pass


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise Refused(f"{name} says {result}")


def free():
    available, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(available), ctypes.byref(total))
    return available.value


def take(size):
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    calls.append(["alloc", address.value, size])
    return address.value


def give(address):
    calls.append(["free", address, 0])
    call("cuMemFree_v2", ctypes.c_uint64(address))


class Nvml:
    """What NVML says of the card and of this process; None where it does not."""

    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instances", ctypes.c_uint * 2)]

    class Memory(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

    def __init__(self):
        self.library, self.card = None, ctypes.c_void_p()
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
            self.library.nvmlInit_v2()
        except OSError:
            pass

    def find(self, uuid):
        text = "".join("%02x" % byte for byte in uuid)
        text = "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        if self.library and self.library.nvmlDeviceGetHandleByUUID(text.encode(), ctypes.byref(self.card)):
            self.library = None
        return text

    def __call__(self):
        answer = {"used": None, "own": None, "processes": None}
        if not self.library or not self.card:
            return answer
        memory, some, count = self.Memory(), (self.Process * 64)(), ctypes.c_uint(64)
        if not self.library.nvmlDeviceGetMemoryInfo(self.card, ctypes.byref(memory)):
            answer["used"], answer["total"] = memory.used, memory.total
        if not self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.card, ctypes.byref(count), some):
            answer["processes"] = [[p.pid, p.used] for p in some[: count.value]]
            answer["own"] = next((p.used for p in some[: count.value] if p.pid == os.getpid()), None)
        return answer


def context(out):
    nvml = Nvml()
    call("cuInit", 0)
    device, handle, uuid = ctypes.c_int(), ctypes.c_void_p(), (ctypes.c_ubyte * 16)()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetUuid", uuid, device)
    version, total, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    call("cuDriverGetVersion", ctypes.byref(version))
    call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    call("cuDeviceGetName", name, 256, device)
    out.update(uuid=nvml.find(uuid), cuda=version.value, total=total.value, name=name.value.decode())
    out["nvml_before"] = nvml()
    started = time.perf_counter()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
    call("cuCtxSetCurrent", handle)
    out["seconds"] = time.perf_counter() - started
    out["free_after"], out["nvml_after"] = free(), nvml()
    out["nvml_seconds"] = timed(nvml, 5)
    return nvml


def timed(function, times):
    started = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - started) / times


def gateways(out):
    """The three ways to a call: as a symbol of the process, asked of the library's handle, and of the driver itself."""
    found, status = ctypes.c_void_p(), ctypes.c_int()
    ways = {"symbol": cuda.cuMemAlloc_v2, "dlsym": driver.cuMemAlloc_v2}
    call("cuGetProcAddress_v2", b"cuMemAlloc", ctypes.byref(found), 12000, ctypes.c_uint64(0), ctypes.byref(status))
    ways["cuGetProcAddress"] = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(found.value)
    for number, (way, allocate) in enumerate(ways.items()):
        address, size = ctypes.c_uint64(), 7 * MIB + 512 * (number + 1)
        if allocate(ctypes.byref(address), ctypes.c_size_t(size)):
            raise Refused(way)
        out[way] = [address.value, size]
    for address, _ in out.values():
        call("cuMemFree_v2", ctypes.c_uint64(address))


def costs(out):
    out["mem_get_info_s"] = timed(free, 200)
    pieces = []
    out["alloc_2mib_s"] = timed(lambda: pieces.append(take(2 * MIB)), 20)
    out["free_2mib_s"] = timed(lambda: give(pieces.pop()), 20)


def sizes(out):
    """What the card loses to one request, and gets back."""
    out["rows"] = rows = []
    for size in (1, 512, 513, 4096, 65536, 262144, MIB - 1, MIB, MIB + 1, 2 * MIB - 512, 2 * MIB, 2 * MIB + 1, 3 * MIB,
                 8519680, 20 * MIB, 33 * MIB + 7, 100 * MIB):  # fmt: skip
        before = free()
        address = take(size)
        held = free()
        give(address)
        rows.append({"size": size, "address_low": address % (2 * MIB), "taken": before - held, "kept": before - free()})


def small(out):
    """Requests that may share a page."""
    before = free()
    pieces, out["taken"] = [], []
    for number in range(96):
        pieces.append(take(700 + number * 97 if number % 3 else 50000))
        out["taken"].append(before - free())
    out["offsets"] = [piece - min(pieces) for piece in pieces]
    for piece in pieces:
        give(piece)
    out["kept"] = before - free()


def addresses(out):
    """Where requests land while others come and go: sizes as PyTorch's allocator asks for."""
    state, live, out["rows"] = 1, [], []
    low = None
    for number in range(160):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        choice = state >> 33
        if len(live) > 3 and choice % 3 == 0:
            index = (choice // 3) % len(live)
            address, size = live.pop(index)
            give(address)
            out["rows"].append(["free", index, size])
            continue
        size = (2 * MIB, 20 * MIB, 2 * MIB * (5 + choice // 9 % 60))[choice // 3 % 3]
        address = take(size)
        low = address if low is None else low
        live.append((address, size))
        out["rows"].append(["alloc", address - low, size])
    out["first"] = low
    for address, _ in live:
        give(address)


class Properties(ctypes.Structure):  # CUmemAllocationProp, CUmemAccessDesc behind it
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int * 2),
                ("windows", ctypes.c_void_p), ("flags", ctypes.c_uint64)]  # fmt: skip


def virtual(out):
    """When physical memory goes: at the release, at the unmapping, or at the later of both."""
    properties = Properties(1, 0, (ctypes.c_int * 2)(1, 0), None, 0)
    granularity, handle, address = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_uint64()
    for name, flag in (("granularity_minimum", 0), ("granularity_recommended", 1)):
        call("cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(properties), flag)
        out[name] = granularity.value
    for order in ("release first", "unmap first"):
        size, before, seen = 20 * MIB, free(), {}
        call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_uint64(0))
        calls.append(["create", handle.value, size])
        seen["created"] = before - free()
        call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(4 * size), ctypes.c_size_t(0),
             ctypes.c_uint64(0), ctypes.c_uint64(0))  # fmt: skip
        seen["address_low"] = address.value % (32 * MIB)
        call("cuMemMap", address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        access = (ctypes.c_int * 3)(1, 0, 3)
        call("cuMemSetAccess", address, ctypes.c_size_t(size), access, ctypes.c_size_t(1))
        seen["mapped"] = before - free()
        steps = [("cuMemRelease", handle), ("cuMemUnmap", address, ctypes.c_size_t(size))]
        for step in steps if order == "release first" else steps[::-1]:
            if step[0] == "cuMemRelease":
                calls.append(["release", handle.value, 0])
            call(*step)
            seen["after " + step[0]] = before - free()
        call("cuMemAddressFree", address, ctypes.c_size_t(4 * size))
        out[order] = seen


def pool(out):
    """How a stream-ordered pool takes memory from the card, and gives it back."""
    handle, value, pieces = ctypes.c_void_p(), ctypes.c_uint64(), []
    call("cuDeviceGetDefaultMemPool", ctypes.byref(handle), 0)
    before, out["rows"] = free(), []

    def state(what, size):
        call("cuCtxSynchronize")
        row = {"what": what, "size": size, "taken": before - free()}
        for name, number in (("reserved", 5), ("used", 7)):  # CU_MEMPOOL_ATTR_...
            call("cuMemPoolGetAttribute", handle, number, ctypes.byref(value))
            row[name] = value.value
        out["rows"].append(row)

    state("empty", 0)
    for size in (512, 1000, MIB, 5 * MIB, 20 * MIB, 40 * MIB, 3):
        address = ctypes.c_uint64()
        call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(size), None)
        calls.append(["async", address.value, size])
        pieces.append(address.value)
        state("alloc", size)
    for piece in pieces:
        calls.append(["free async", piece, 0])
        call("cuMemFreeAsync", ctypes.c_uint64(piece), None)
        state("free", 0)
    call("cuMemPoolTrimTo", handle, ctypes.c_size_t(0))
    state("trimmed", 0)


def main():
    out = {"pid": os.getpid()}
    for part in (context, sizes, small, addresses, virtual, pool, costs, gateways):
        found = out[part.__name__] = {}
        try:
            part(found)
        except (Refused, AttributeError, OSError) as error:
            found["error"] = f"{type(error).__name__}: {error}"
            if part is context:
                break
    out["calls"] = calls
    with open(sys.argv[1], "w") as file:
        json.dump(out, file)


if __name__ == "__main__":
    main()
