# SPDX-License-Identifier: MIT
"""Marks from Python frames of every kind, at random: stacks_job.py MARKS SEED [PERIOD [alive]]. Run under
libvramshim_checked.so, which holds each stack against a full walk. PERIOD: so many walks are done over and over.
alive: no code object dies meanwhile."""

import asyncio
import ctypes
import random
import sys
import threading

library = ctypes.CDLL(None)
limit, seed = int(sys.argv[1]), int(sys.argv[2])
period = int(sys.argv[3]) if len(sys.argv) > 3 else None
alive = "alive" in sys.argv
sys.setrecursionlimit(5000)


class Walk:
    def __init__(self, seed, count):
        self.random, self.left, self.seed, self.number = random.Random(seed), count, seed, 0
        self.kept = [self.generator(3) for _ in range(4)]
        self.callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(self.from_c)

    def mark(self):
        self.left -= 1
        library.vramshim_mark(b"x")

    def here(self, depth):
        self.mark(); self.mark()
        if self.random.random() < 0.1:
            self.mark()

    def down(self, depth):
        if depth <= 0:
            self.here(depth)
            return 0
        ways = (self.down, self.twice, self.from_generator, self.resumed, self.raising, self.compiled, self.sorting, self.through_c,
                self.comprehension)
        self.random.choice(ways)(depth - 1)
        return 0

    def twice(self, depth):
        self.down(depth)
        self.down(depth - 2)

    def generator(self, depth):
        while True:
            self.down(depth)
            yield depth

    def from_generator(self, depth):
        for _, _ in zip(range(2), self.generator(depth)):
            self.mark()

    def resumed(self, depth):
        # Made elsewhere, and resumed from here: the same frame with another one outside of it.
        generator = self.kept[self.random.randrange(4)]
        if not generator.gi_running:
            next(generator)

    def raising(self, depth):
        try:
            self.down(depth)
            raise ValueError
        except ValueError:
            self.mark()

    def compiled(self, depth):
        # Code that lives for one call; the next is often at the same address.
        if alive:
            return self.down(depth)
        name = "<%d>" % self.random.randrange(1000)
        exec(compile("down(depth)\n", name, "exec"), {"down": self.down, "depth": depth})

    def sorting(self, depth):
        sorted([1, 2], key=lambda _: self.down(depth - 1))

    def from_c(self, depth):
        return self.down(depth)

    def through_c(self, depth):
        self.callback(depth)

    def comprehension(self, depth):
        [self.down(depth - 1) for _ in range(2)]

    def deep(self, depth):
        if depth:
            self.deep(depth - 1)
        else:
            self.down(3)

    async def asynchronous(self, depth):
        self.down(depth)
        await asyncio.sleep(0)
        self.down(depth)

    def run(self):
        while self.left > 0:
            if period:
                self.random.seed(self.seed * 1000 + self.number % period)
            self.number += 1
            self.down(self.random.randrange(9))
            if self.random.random() < 0.02:
                # Short of the C stack, which 3.10 and older use for each frame.
                self.deep(self.random.randrange(600))
            if self.random.random() < 0.02:
                loop = asyncio.new_event_loop()
                loop.run_until_complete(asyncio.wait([loop.create_task(self.asynchronous(3)) for _ in range(3)]))
                loop.close()


threads = [threading.Thread(target=Walk(seed + i, limit // 3).run) for i in range(2)]
for thread in threads:
    thread.start()
Walk(seed + 2, limit // 3).run()
for thread in threads:
    thread.join()
