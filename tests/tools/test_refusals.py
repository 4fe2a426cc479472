# SPDX-License-Identifier: MIT
"""Memory refused to somebody else than PyTorch's caching allocator, on a simulated card: why is on the process's stderr
at once. test_refusals.py VRAMRUN VRAMREPORT GREEDY: the library of greedy.c."""
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

VRAMRUN, VRAMREPORT, GREEDY = map(os.path.abspath, sys.argv[1:4])
GIB = 1 << 30
CARD = 14912 << 20
WAYS = ("cuMemAlloc_v2", "cuMemCreate", "cuMemMap", "cudaMalloc", "cudaMallocArray", "cudaMallocAsync")
PROGRAM = """
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
library.greedy_context.argtypes = [ctypes.c_char_p]
library.greedy.argtypes = library.greedy_once.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
began = time.monotonic()
"""
TAKE = "assert library.greedy(sys.argv[2].encode(), 3 << 30) == 2\nassert time.monotonic() - began < 2\n"


class Refusals(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vramshim-refusals-"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def job(self, how, program=TAKE, library=GREEDY, **variables):
        """What the job says on stderr."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        command = [VRAMRUN, "-o", self.folder / "run", "--simulate", "t4", "--"]
        command += [sys.executable, "-c", PROGRAM + program, library, how]
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "200", **variables}
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return done.stderr

    def post(self):
        done = subprocess.run([VRAMREPORT, "oom", "--json", self.folder / "run"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        return json.loads(done.stdout)

    def blocks(self):
        done = subprocess.run([VRAMREPORT, "blocks", "--at", "oom", "--csv", self.folder / "run"], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(csv.DictReader(io.StringIO(done.stdout)), key=lambda row: -int(row["size"]))

    def test_every_way_is_told_once(self):
        for how in WAYS:
            with self.subTest(how):
                said = self.job(how)
                self.assertEqual(said.count("Out of memory: full"), 1, said)
                call = how if how != "cuMemMap" else "cuMemCreate"
                self.assertIn(f"CUDA refused 3.00 GiB to greedy.so ({call})", said)
                self.assertIn("this process holds 12.00 GiB of the card's 14.56 GiB", said)
                self.assertRegex(said, r"\n  12\.00 GiB greedy, 4 allocations: ")
                self.assertLessEqual(len(said.splitlines()), 25)
                answer = self.post()
                self.assertEqual((answer["cause"], answer["source"], answer["request_bytes"]), ("full", "cuda", 3 * GIB))
                self.assertEqual((answer["allocated_bytes"], answer["other_processes_bytes"]), (12 * GIB, 0))
                self.assertEqual(answer["shortfall_bytes"], 3 * GIB - answer["free_bytes"])

    def test_blocks_of_the_moment(self):
        """Not those of the end, nor of when the card was fullest; and of the refusal that nobody got over."""
        more = "assert library.greedy_once(b'cudaMalloc', 1 << 30) == 0\n"
        for how in WAYS:
            for later in ("", more, more + "assert library.greedy_once(b'cudaMalloc', 9 << 30) == 2\n"):
                with self.subTest(how, later=later):
                    self.job(how, TAKE + later, VRAMSHIM_OOM="quiet")
                    rows = self.blocks()
                    sizes = [3 * GIB] * 4 + [GIB] * (later.count("greedy_once") - 1)
                    self.assertEqual([int(row["size"]) for row in rows], sizes)
                    self.assertEqual({row["tag"] for row in rows}, {"greedy"})
        self.job("cudaMalloc", "assert library.greedy_once(b'cudaMalloc', 20 << 30) == 2\n", VRAMSHIM_OOM="quiet")
        self.assertEqual(self.blocks(), [])

    def test_quiet(self):
        self.assertEqual(self.job("cudaMalloc", VRAMSHIM_OOM="quiet"), "")

    def test_the_caching_allocator_reports_its_own_errors(self):
        """It asks again; whether that helps, its own report tells."""
        library = self.folder / "libc10_cuda.so"
        shutil.copy(GREEDY, library)
        for how in ("cudaMalloc", "cuMemCreate"):
            self.assertEqual(self.job(how, library=library), "")
        done = subprocess.run([VRAMREPORT, "oom", self.folder / "run"], capture_output=True, text=True, timeout=60)
        self.assertIn("did not run out", done.stdout)
        # But not where it has no cache, nor the one that is CUDA's own.
        for how, variables in (("cudaMalloc", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}), ("cudaMallocAsync", {})):
            said = self.job(how, library=library, **variables)
            self.assertEqual(said.count("Out of memory: full"), 1, said)
            self.assertIn("PyTorch uses without its own cache", said)

    def test_an_allocator_under_the_caching_allocator(self):
        """PyTorch's allocator asks it again, and reports the error, as its own memory."""
        program = """
import pathlib
folder = pathlib.Path(sys.argv[1]).parent
pytorch, between = (ctypes.CDLL(folder / name) for name in ("libc10_cuda.so", "libtorch_cuda.so"))
assert pytorch.greedy_ask(between.PluggableAllocator_malloc, library.greedy, sys.argv[2].encode(),
                          ctypes.c_size_t(3 << 30)) == 2
"""
        for name in ("libc10_cuda.so", "libtorch_cuda.so", "libown.so"):
            shutil.copy(GREEDY, self.folder / name)
        self.assertEqual(self.job("cudaMalloc", program, self.folder / "libown.so"), "")
        done = subprocess.run([VRAMREPORT, "oom", self.folder / "run"], capture_output=True, text=True, timeout=60)
        self.assertIn("did not run out", done.stdout)

    def test_a_caller_that_does_with_less(self):
        """As pools of other libraries do: told once, however often they try, and then as what it was."""
        said = self.job("cudaMalloc", TAKE + 
                        "for i in range(20): library.greedy_once(b'cudaMalloc', 2 << 30)\n")
        self.assertEqual(said.count("Out of memory"), 1, said)
        self.job("cudaMalloc", TAKE + "assert library.greedy_once(b'cudaMalloc', 1 << 20) == 0\n")
        done = subprocess.run([VRAMREPORT, "oom", self.folder / "run"], capture_output=True, text=True, timeout=60)
        self.assertIn("The process went on and got memory.", " ".join(done.stdout.split()))

    def test_a_graph(self):
        """How much it wanted nobody tells; what was held then is known."""
        said = self.job("cudaGraphLaunch")
        self.assertEqual(said.count("Out of memory: "), 1, said)
        self.assertIn("CUDA refused memory of a graph to greedy.so (cudaGraphLaunch)", said)
        answer = self.post()
        self.assertEqual((answer["request_bytes"], answer["allocated_bytes"]), (None, 12 * GIB))
        self.assertLess(answer["free_bytes"], 3 * GIB)
        self.assertEqual([int(row["size"]) for row in self.blocks()], [12 * GIB])

    def test_no_room_for_a_context(self):
        """Others have left less than one takes: that is what is missing, and not what was asked for with it."""
        left = 100 << 20
        full = {"VRAMSIM_OTHERS": str(CARD - left)}
        context = 0
        for how in ("cuDevicePrimaryCtxRetain", "cuCtxCreate_v2", "cudaFree"):
            said = self.job(how, "assert library.greedy_context(sys.argv[2].encode()) == 2\n", **full)
            self.assertEqual(said.count("Out of memory: "), 1, said)
            self.assertIn(f"CUDA refused a context to greedy.so ({how})", said)
            answer = self.post()
            context = answer["request_bytes"]
            self.assertGreater(context, left)
            self.check_others(answer, left, context)
        said = self.job("cudaMalloc", "assert library.greedy_once(sys.argv[2].encode(), 1 << 20) == 2\n", **full)
        self.assertIn("CUDA refused 1.00 MiB, and the context before that, to greedy.so (cudaMalloc)", said)
        self.check_others(self.post(), left, context + (1 << 20))
        # PyTorch's allocator as well: it asks how much is free before it reports an error, and that fails.
        library = self.folder / "libc10_cuda.so"
        shutil.copy(GREEDY, library)
        self.job("cudaMalloc", "assert library.greedy_once(sys.argv[2].encode(), 1 << 20) == 2\n", library, **full)
        self.check_others(self.post(), left, context + (1 << 20))

    def check_others(self, answer, left, asked):
        self.assertEqual((answer["request_bytes"], answer["free_bytes"]), (asked, left))
        self.assertEqual((answer["other_processes_bytes"], answer["allocated_bytes"]), (CARD - left, 0))
        self.assertEqual((answer["cause"], answer["shortfall_bytes"]), ("other_process", asked - left))

    def test_a_request_larger_than_the_card(self):
        said = self.job("cudaMalloc", "assert library.greedy_once(b'cudaMalloc', 20 << 30) == 2\n")
        self.assertIn("Out of memory: request_too_large", said)
        # The first thing that was asked for, and the context was there.
        self.assertIn("CUDA refused 20.00 GiB to greedy.so (cudaMalloc)", said)
        self.assertEqual(self.post()["request_bytes"], 20 * GIB)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
