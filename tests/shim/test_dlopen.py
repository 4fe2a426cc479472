# SPDX-License-Identifier: MIT
"""dlopen() under the preload: the caller's RUNPATH counts, errors stay errors, and libraries stay mapped once there is
a recording."""

import sys

from recorder import TOOLS, Run, run_all

JOB = """
import ctypes, sys
if sys.argv[2:]:
    ctypes.CDLL(None).vramshim_mark(b"first event")
library = ctypes.CDLL(sys.argv[1])
print(library.origin_call(), library.origin_invalid(), "libtarget.so" in open("/proc/self/maps").read())
"""


def call(*words, **arguments):
    run = Run([sys.executable, "-c", JOB, TOOLS + "/origin.so", *words], **arguments)
    assert run.status == 0 and run.stderr == b"", run.stderr
    return run.stdout.decode().split()


def test_caller_is_kept_and_libraries_stay():
    assert call(shim=False) == ["42", "1", "False"]
    assert call() == ["42", "1", "False"]
    assert call("recorded") == ["42", "1", "True"]


def test_libraries_of_before_stay():
    job = """
import _ctypes, ctypes, sys
library = ctypes.CDLL(sys.argv[1])
ctypes.CDLL(None).vramshim_mark(b"first event")
_ctypes.dlclose(library._handle)
print("origin.so" in open("/proc/self/maps").read())
"""
    run = Run([sys.executable, "-c", job, TOOLS + "/origin.so"])
    assert (run.status, run.stdout, run.stderr) == (0, b"True\n", b""), run.stderr


def test_disabled_changes_nothing():
    assert call(env={"VRAMSHIM_DISABLE": "1"}) == ["42", "1", "False"]
    assert call(env={"VRAMSHIM_OUT": ""}) == ["42", "1", "False"]


run_all(globals())
