# SPDX-License-Identifier: MIT
"""record_loop below 40 Python frames: record_loop.py LIBRARY [PAIRS]. Of the native frames, 16 are the interpreter's
(3.11 and later), so that there are 28 here as well."""

import ctypes
import sys

PYTHON_FRAMES, NATIVE_FRAMES = 40, 28 - 16

library = ctypes.CDLL(sys.argv[1])


def measure():
    times = (ctypes.c_double * 3)()
    if library.loop_measure(NATIVE_FRAMES, times):
        sys.exit(2)
    print(*times)


def descend(depth):
    if depth > 1:
        descend(depth - 1)
    elif len(sys.argv) > 2:
        sys.exit(library.loop_pairs(NATIVE_FRAMES, int(sys.argv[2])))
    else:
        measure()


descend(PYTHON_FRAMES - 1)
