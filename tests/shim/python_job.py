# SPDX-License-Identifier: MIT
# -*- coding: utf-8 -*-
"""Calls vramshim_mark() from all sorts of Python frames and prints what the recorder should have seen: for each mark, its
frames from the innermost on, as [file, function, line, line table in hex]. Runs on Python 3.8 and later."""

import asyncio
import ctypes
import json
import sys
import threading

library = ctypes.CDLL(None)
expected = []


def here(frame):
    frames = []
    while frame is not None:
        code = frame.f_code
        table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        frames.append([code.co_filename, name, code.co_firstlineno, frame.f_lineno, table.hex()])
        frame = frame.f_back
    return frames


def mark(name):
    library.vramshim_mark(name.encode())
    frames = here(sys._getframe())
    # The line of the call above, not of this bookkeeping.
    frames[0][3] -= 1
    expected.append([name, frames])


def plain():
    mark("plain")


def recursive(depth):
    if depth:
        return recursive(
            depth - 1
        )
    mark("recursive")


def generator():
    yield 1
    mark("generator")
    yield 2


class Klasse:
    def methode(self):
        (lambda: mark("lambda in a method"))()

    @staticmethod
    def größe():
        mark("latin-1 name")

    @staticmethod
    def 内存():
        mark("2-byte name")

    @staticmethod
    def 𝒎𝒆𝒎(n):
        # The parser normalises this name to "mem": the 4-byte one is made below.
        mark("normalised name")


def far():
    mark("first line far above")


def long_function(value):
    value += 1
    value += 1
    value += 1
    for i in range(3):
        if i == 2:
            mark("in a loop")
    value = [mark("in a comprehension") for _ in range(1)]
    try:
        raise ValueError
    except ValueError:
        mark("in a handler")
    with open(__file__):
        mark("in a with")


async def coroutine():
    await asyncio.sleep(0)
    mark("coroutine")


def called_by_c(*_):
    mark("called back by C")
    return 0


def main():
    plain()
    recursive(5)
    recursive(30)
    list(generator())
    Klasse().methode()
    Klasse.größe()
    Klasse.内存()
    getattr(Klasse, "mem")(0)
    # 300 blank lines, then a function whose file, by compile(), has a 4-byte name.
    scope = {"mark": mark}
    exec(compile("\n" * 300 + "def f(x):\n    x = 1\n    mark('compiled')\nf(0)\n", "<\U0001d4c2 \U0001f9e0.py>", "exec"), scope)
    long_function(1)
    asyncio.new_event_loop().run_until_complete(coroutine())
    # Python, C, Python: a sort key, and a ctypes callback.
    sorted([2], key=called_by_c)
    ctypes.CFUNCTYPE(ctypes.c_int)(called_by_c)()
    thread = threading.Thread(target=plain, name="other")
    thread.start()
    thread.join()
    far()


main()
json.dump(expected, sys.stdout)
