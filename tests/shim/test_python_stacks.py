# SPDX-License-Identifier: MIT
"""The Python frames of a recorded stack are those that Python itself reports, under every interpreter at hand."""

import json
import os
import subprocess
import sys

from recorder import MARK, SKIPPED, Run, finish, interpreters

FOLDER = os.path.dirname(os.path.abspath(__file__))

# Decodes (line table, first line, instruction) to a line with the interpreter's own code: by giving the table to a code
# object and asking that.
DECODE = """
import json, sys
def line(table, first, instruction):
    table = bytes.fromhex(table)
    code = (lambda: 0).__code__
    body = b"\\x09\\x00" * (instruction // 2 + 64)
    if sys.version_info >= (3, 10):
        code = code.replace(co_code=body, co_linetable=table, co_firstlineno=first)
        for begin, end, number in code.co_lines():
            if begin <= instruction < end:
                return number
        return None
    code = code.replace(co_code=body, co_lnotab=table, co_firstlineno=first)
    import dis
    last = first
    for begin, number in dis.findlinestarts(code):
        if begin > instruction:
            break
        last = number
    return last
json.dump([line(*frame) for frame in json.load(sys.stdin)], sys.stdout)
"""


def lines(interpreter, frames):
    query = json.dumps([[table, first, instruction] for _, _, first, instruction, table in frames])
    return json.loads(subprocess.run([interpreter, "-c", DECODE], input=query.encode(), check=True, stdout=subprocess.PIPE).stdout)


def check(minor, interpreter):
    run = Run([interpreter, FOLDER + "/python_job.py"])
    assert run.status == 0, (run.status, run.stderr)
    assert run.stderr == b"", run.stderr
    expected = json.loads(run.stdout.decode())
    assert len(run.traces) == 1
    trace = run.traces[0]
    assert trace.facts["python"].startswith("3.%d." % minor), trace.facts
    marks = trace.of(MARK)
    assert [mark["name"] for mark in marks] == [name for name, _ in expected]
    for mark, (name, frames) in zip(marks, expected):
        seen = mark["python"]
        assert [f[:3] for f in seen] == [f[:3] for f in frames], (name, [f[:3] for f in seen], [f[:3] for f in frames])
        assert [f[4] for f in seen] == [f[4] for f in frames], name
        decoded = lines(interpreter, seen)
        assert decoded == [f[3] for f in frames], (name, decoded, [f[3] for f in frames])
    print("3.%d: %d marks, %d frames as Python says" % (minor, len(marks), sum(len(m["python"]) for m in marks)))


found = interpreters(range(8, 14))
if not found:
    print("no CPython 3.8 to 3.13 here")
    sys.exit(SKIPPED)
failed = 0
for minor, interpreter in found:
    try:
        check(minor, interpreter)
    except AssertionError as error:
        failed += 1
        print("3.%d FAILED: %s" % (minor, error))
finish(len(found) - failed, failed)
