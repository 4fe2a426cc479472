# SPDX-License-Identifier: MIT
"""An interpreter that is not laid out as expected: Python stacks are off, one line says so, and the job goes on."""

import sys

from recorder import MARK, SKIPPED, TOOLS, Run, finish, interpreters

JOB = """
import ctypes
mark = ctypes.CDLL(None).vramshim_mark
def inner():
    mark(b"one")
    mark(b"two")
inner()
print("done")
"""
# Versions whose code objects and frames are laid out alike, but for the position in the code: no lie to be noticed.
ALIKE = {8, 9, 10}


def run_job(interpreter, **options):
    """Nothing but the line on stderr differs, and no frame is made up."""
    run = Run([interpreter, "-c", JOB], **options)
    assert run.status == 0 and run.stdout == b"done\n", (run.status, run.stderr)
    marks = run.traces[0].of(MARK)
    assert [m["name"] for m in marks] == ["one", "two"] and all(m["native"] and not m["python"] for m in marks)
    return run.stderr.decode().splitlines()


def check_unknown(interpreter, minor):
    """Older than any in the table."""
    lines = run_job(interpreter)
    assert len(lines) == 1 and lines[0].startswith("vramshim: Python 3.%d." % minor), lines


def check_lie(interpreter, minor, claimed):
    """Another version's offsets: they lead anywhere, which must be noticed without going there. Where they lead to
    no frame at all, there is nothing to notice."""
    version = "3.%d.0" % claimed
    lines = run_job(interpreter, preload=[TOOLS + "/lying.so"], env={"LYING_VERSION": version + " (no)"})
    assert len(lines) <= 1 and all(line.startswith("vramshim: Python %s " % version) for line in lines), lines
    if claimed not in range(8, 14):
        assert len(lines) == 1


checks = [(check_unknown, path, minor) for minor, path in interpreters(range(6, 8))]
for minor, path in interpreters(range(8, 13)):  # 3.13 and later say themselves where things are
    for claimed in list(range(8, 14)) + [7, 99]:
        if claimed != minor and not {claimed, minor} <= ALIKE:
            checks.append((check_lie, path, minor, claimed))
if not checks:
    print("no CPython to try")
    sys.exit(SKIPPED)
failed = 0
for check in checks:
    try:
        check[0](*check[1:])
    except AssertionError as error:
        failed += 1
        print("FAILED", check[0].__name__, check[1:], error)
finish(len(checks) - failed, failed)
