# SPDX-License-Identifier: MIT
"""The table of entries against NVIDIA's headers, of every CUDA version that is found: each call whose name sounds like
memory, in each of its ABIs, has a row or stands in cuda_coverage.py; rows have the header's number of arguments; our
own types have the header's layouts. Skips, and says so, where no header is found."""

import glob
import os
import re
import subprocess
import sys
import tempfile

from cuda_coverage import LEFT_OUT, NO_MEMORY
from recorder import SKIPPED, run_all

SOURCE = os.environ["SOURCE"]
WORDS = re.compile(r"(?i)alloc|create|import|load(?!ing)|map(?!hore)|register|reserve(?!d)|open|retain|trim|release|free|destroy"
                   r"|close|unload|reset|checkpoint|restore|attach|detach|bind|setlimit|instantiate|upload|graphlaunch"
                   r"|graphadd(mem|node)(alloc|free|$)|loaddata")


def folders():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    patterns = ["/usr/local/cuda*/include", "/usr/include", cache + "/vramshim/python*/lib/python3*/site-packages/nvidia/cu1*/include",
                cache + "/vramshim/python*/lib/python3*/site-packages/triton/backends/nvidia/include"]
    found = {}
    for folder in [path for pattern in patterns for path in sorted(glob.glob(pattern))]:
        if all(os.path.exists(f"{folder}/{name}") for name in ("cuda.h", "cudaTypedefs.h", "cuda_runtime_api.h")):
            version = int(re.search(r"#define CUDA_VERSION (\d+)", read(folder + "/cuda.h")).group(1))
            found.setdefault(version, folder)
    return sorted(found.items())


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


def plain(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def arguments(text):
    text = text.strip()
    return 0 if text in ("", "void") else text.count(",") + 1


def rows():
    """{(base, version or 0, per thread): number of arguments}"""
    text = read(SOURCE + "/lib/shim/cuda_entries.def").split("#define VS_GAVE")[1]
    found = {}
    for match in re.finditer(r'VS_ENTRY\(\s*(\w+),\s*"(\w+)",\s*(\d+),\s*([01]),\s*\w+,\s*\(([^()]*)\)', text):
        export, base, since, per_thread, parameters = match.groups()
        found[base if int(since) else export.removesuffix("_ptsz"), int(since), int(per_thread)] = arguments(parameters)
    assert len(found) == len(re.findall(r"^VS_ENTRY\(", text, re.M)) > 140, len(found)
    return found


def driver(folder):
    """{(base, version, per thread): number of arguments} of all PFN_ types."""
    found = {}
    pattern = r"typedef\s+\w+\s*\(CUDAAPI\s*\*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)\s*\(([^;]*)\)\s*;"
    for base, version, stream, parameters in re.findall(pattern, plain(read(folder + "/cudaTypedefs.h"))):
        found[base, int(version), int(bool(stream))] = arguments(parameters)
    assert len(found) > 500, len(found)
    return found


def runtime(folder):
    text = plain(read(folder + "/cuda_runtime_api.h"))
    found = {}
    for name, parameters in re.findall(r"cudaError_t\s+CUDARTAPI\s+(cuda\w+)\(([^;]*?)\)\s*;", text):
        found[name.removesuffix("_ptsz"), 0, int(name.endswith("_ptsz"))] = arguments(parameters)
    for name in re.findall(r"__CUDART_API_PTSZ\((cuda\w+)\)", text):
        if (name, 0, 0) in found:
            found[name, 0, 1] = found[name, 0, 0]
    assert len(found) > 250, len(found)
    return found


def listed():
    names = set()
    for reasons in NO_MEMORY, LEFT_OUT:
        for group in reasons.values():
            assert not names & set(group.split()), names & set(group.split())
            names |= set(group.split())
    return names


def missing(wanted, have, excused):
    for (base, version, per_thread) in sorted(wanted):
        bare = re.sub(r"^cu(da)?", "", base)
        if not WORDS.search(bare) or (base, version, per_thread) in have:
            continue
        # A flavour of the default stream matters to calls that have a stream; others serve both.
        if not {bare, f"{bare}@{version}"} & excused:
            yield f"{base} of version {version}{' per thread' if per_thread else ''}"


def test_every_call_that_sounds_like_memory():
    have, excused = rows(), listed()
    for version, folder in HEADERS:
        lacking = list(missing(driver(folder), have, excused)) + list(missing(runtime(folder), have, excused))
        assert not lacking, f"CUDA {version}: no row in cuda_entries.def, nor a reason in cuda_coverage.py: {lacking}"
        print(f"CUDA {version}: {len(driver(folder))} driver and {len(runtime(folder))} runtime calls, none is missing")


def test_a_missing_row_is_found():
    """The test itself: without any row that a header has, it is named."""
    have, excused = rows(), listed()
    version, folder = HEADERS[-1]
    wanted = {**driver(folder), **runtime(folder)}
    sounding = [row for row in have if row in wanted and WORDS.search(row[0])]
    assert len(sounding) > 90, len(sounding)
    for row in sounding:
        without = {key: value for key, value in have.items() if key != row}
        assert any(line.startswith(row[0] + " ") for line in missing(wanted, without, excused)), row


def test_reasons_are_needed():
    """What stands in the list has no row, and some header has it."""
    have = {re.sub(r"^cu(da)?", "", base) for base, _, _ in rows()}
    known = {re.sub(r"^cu(da)?", "", base) for _, folder in HEADERS for base, _, _ in {**driver(folder), **runtime(folder)}}
    for name in listed():
        assert name not in have, name
        assert name.split("@")[0] in known, name


# Calls whose number of arguments differs between the CUDA versions of one export: the row has the most.
CHANGED = {"cudaGraphAddNode", "cudaStreamBeginCaptureToGraph"}


def test_arguments():
    for version, folder in HEADERS:
        wanted = {**driver(folder), **runtime(folder)}
        for row, count in rows().items():
            if row in wanted and row[0] not in CHANGED:
                assert wanted[row] == count, (version, row, count, wanted[row])


LAYOUTS = {
    "CUmemLocation": ("vs_cuda_location", "type id"),
    "CUmemAllocationProp": ("vs_cuda_allocation_prop", "type location"),
    "CUDA_ARRAY_DESCRIPTOR": ("vs_cuda_array", "Width:width Height:height Format:format NumChannels:channels"),
    "CUDA_ARRAY3D_DESCRIPTOR": ("vs_cuda_array3d", "Width:width Height:height Depth:depth Format:format NumChannels:channels Flags:flags"),
    "CUmemPoolProps": ("vs_cuda_pool_props", "location"),
    "CUDA_MEM_ALLOC_NODE_PARAMS": ("vs_cuda_alloc_node", "poolProps:pool bytesize:size dptr:pointer"),
    "CUgraphNodeParams": ("vs_cuda_node", "type alloc:allocation"),
    "CUDA_EXTERNAL_MEMORY_HANDLE_DESC": ("vs_cuda_external_memory", "type size"),
    "CUDA_EXTERNAL_MEMORY_BUFFER_DESC": ("vs_cuda_external_buffer", "offset size"),
    "CUmulticastObjectProp": ("vs_cuda_multicast", "numDevices:devices size"),
    "CUipcMemHandle": ("vs_cuda_ipc_handle", ""),
    "struct cudaMemPoolProps": ("vs_cuda_pool_props", "location"),
    "struct cudaMemAllocNodeParams": ("vs_cuda_alloc_node", "poolProps:pool bytesize:size dptr:pointer"),
    "struct cudaExternalMemoryHandleDesc": ("vs_cuda_external_memory", "type size"),
    "struct cudaExternalMemoryBufferDesc": ("vs_cuda_external_buffer", "offset size"),
    "struct cudaChannelFormatDesc": ("vs_cuda_channels", "x:bits f:kind"),
    "struct cudaExtent": ("vs_cuda_extent", "width height depth"),
    "struct cudaPitchedPtr": ("vs_cuda_pitched", "ptr:pointer pitch"),
}
WHOLE = {"CUmemPoolProps", "struct cudaMemPoolProps", "CUDA_MEM_ALLOC_NODE_PARAMS", "CUipcMemHandle", "struct cudaExtent",
         "struct cudaPitchedPtr", "struct cudaChannelFormatDesc", "CUDA_ARRAY_DESCRIPTOR", "CUDA_ARRAY3D_DESCRIPTOR"}


def test_layouts():
    for version, folder in HEADERS:
        lines = ["#include <stddef.h>", "#include <cuda.h>", "#include <driver_types.h>", '#include "shim/cuda_types.h"']
        for theirs, (ours, fields) in LAYOUTS.items():
            for field in fields.split():
                there, here = (field.split(":") * 2)[:2]
                lines.append(f'_Static_assert(offsetof({theirs}, {there}) == offsetof(struct {ours}, {here}), "{there}");')
            if theirs in WHOLE:
                lines.append(f'_Static_assert(sizeof({theirs}) == sizeof(struct {ours}), "size of {theirs}");')
        with tempfile.TemporaryDirectory() as work:
            program = work + "/layout.c"
            with open(program, "w") as file:
                file.write("\n".join(lines) + "\n")
            command = ["cc", "-std=gnu17", "-fsyntax-only", "-I" + folder, f"-I{SOURCE}/lib", program]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, (version, done.stdout.decode()[:3000])


HEADERS = folders()
if not HEADERS:
    print("skipped: no CUDA headers were found (a toolkit, or the environments that scripts/test makes)")
    sys.exit(SKIPPED)
run_all(globals())
