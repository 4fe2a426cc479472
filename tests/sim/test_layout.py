# SPDX-License-Identifier: MIT
"""The simulated device's own structs have the layouts of NVIDIA's headers: test_layout.py SOURCE_FOLDER.
Reads every driver_types.h it finds (a toolkit, or Triton's copy in the user's environments); exit status 77 without one."""
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77  # automake's word for it
STRUCTS = {"cudaPointerAttributes": "vs_pointer_attributes", "cudaFuncAttributes": "vs_func_attributes"}


def fields(text, struct):
    body = re.search(rf"struct\s+(?:__device_builtin__\s+)?{struct}\s*\{{(.*?)\n\}}", text, re.S)
    plain = re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.S)
    return re.findall(r"(\w+)(?:\[\d+\])?\s*;", plain)


def header_version(folder):
    found = re.search(r"#define CUDART_VERSION\s+(\d+)", (folder / "cuda_runtime_api.h").read_text(errors="replace"))
    return int(found.group(1))


def check(source, folder):
    version = header_version(folder)
    theirs = (folder / "driver_types.h").read_text(errors="replace")
    properties = "vs_properties_12" if version < 13000 else "vs_properties_13"
    lines = ["#include <stddef.h>", "#include <driver_types.h>", '#include "sim/properties.h"']
    for name, ours in {**STRUCTS, "cudaDeviceProp": properties}.items():
        own = (source / "lib/sim" / ("properties.h" if "properties" in ours else "cuda_api.h")).read_text()
        mine = fields(own, ours)
        for there, here in zip(fields(theirs, name), mine):
            if there != "reserved":
                lines.append(f'_Static_assert(offsetof(struct {name}, {there}) == offsetof(struct {ours}, {here}), "{there}");')
        if name != "cudaPointerAttributes":  # CUDA 13 reserves more behind it, which is not written
            lines.append(f'_Static_assert(sizeof(struct {name}) == sizeof(struct {ours}), "size of {name}");')
    with tempfile.TemporaryDirectory() as work:
        program = pathlib.Path(work) / "layout.c"
        program.write_text("\n".join(lines) + "\n")
        command = ["cc", "-std=gnu17", "-fsyntax-only", f"-I{folder}", f"-I{source / 'lib'}", str(program)]
        done = subprocess.run(command, capture_output=True, text=True)
    print(f"{folder}: CUDA {version}, {len(lines) - 3} checks, {'equal' if not done.returncode else 'DIFFERENT'}")
    if done.returncode:
        print(done.stderr[:4000])
    return done.returncode == 0


def main():
    source = pathlib.Path(sys.argv[1])
    folders = [pathlib.Path(p) for p in ("/usr/local/cuda/include", "/usr/include")]
    cache = pathlib.Path.home() / ".cache/vramshim"
    folders += sorted(cache.glob("python*/lib/python3*/site-packages/triton/backends/nvidia/include"))
    folders = [f for f in folders if (f / "driver_types.h").exists() and (f / "cuda_runtime_api.h").exists()]
    if not folders:
        print("skipped: no CUDA headers were found")
        return SKIPPED
    return 0 if all([check(source, folder) for folder in folders]) else 1


if __name__ == "__main__":
    sys.exit(main())
