# SPDX-License-Identifier: MIT
"""JAX on a simulated card, recorded: it runs as without us, and each byte of the card that its allocator says it has is
in the report, once. test_jax.py --build BUILD --python INTERPRETER [--counts FILE]"""

import argparse
import json
import pathlib
import re
import sys
import tempfile
import unittest

from reading import PYTORCH_ONLY, run

JOB = pathlib.Path(__file__).with_name("jax_job.py")
GPU = "A100-80"
PAGE = 2 << 20
CONTEXT = 432 << 20  # assumed for this card
GROWING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
options = None


class Jax(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name) / "run"

    def vramreport(self, *words):
        done = run(options.build / "tools" / "vramreport", *words, self.run_folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def follow(self, what, **variables):
        """What the job says of itself, by instant, after it said the same unrecorded; the report's outside_pytorch."""
        sim = options.build / "lib" / "sim"
        libraries = ":".join(str(sim / name) for name in ("libvramsim.so", "libcuda.so.1", "libnvidia-ml.so.1"))
        job = (options.python, JOB, what)
        vramrun = (options.build / "tools" / "vramrun", "-o", self.run_folder, "--simulate", GPU, "--")
        # In which order JAX hands a step's arrays to XLA, and so what it takes at its peak, depends on Python's hashes.
        variables |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        recorded = run(*vramrun, *job, timeout=900, VRAMSHIM_OOM="quiet", **variables)
        plain = run(*job, timeout=900, LD_PRELOAD=libraries, LD_LIBRARY_PATH=str(sim), VRAMSIM_GPU=GPU, **variables)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        self.assertEqual((plain.returncode, plain.stdout), (0, recorded.stdout), plain.stderr)
        stamp = r"\d\d:\d\d:\d\d\.\d+ +\d+"
        self.assertEqual(re.sub(stamp, "", plain.stderr), re.sub(stamp, "", recorded.stderr))
        lines = [line for line in recorded.stdout.splitlines()]
        said = {books["name"]: books for books in (json.loads(line) for line in lines if line.startswith("{"))}
        ((process,),) = (json.loads(self.vramreport("report", "--json"))["processes"],)
        (device,) = process["devices"]
        outside = device["outside_pytorch"]
        self.assertEqual((process["exit"], process["lost"], process["torch"]), ("clean", 0, ""))
        self.assertEqual(device["events"], {"allocations": 0, "frees": 0, "lost": 0, "mismatches": 0})
        self.assertEqual(outside["context_bytes"], CONTEXT)
        self.assertEqual((outside["unexplained_bytes"], outside["other_processes_bytes"]), (0, 0))
        self.assertEqual(outside["used_bytes"], max(books["used"] for books in said.values()))
        sum_of_lines = CONTEXT + sum(outside["by_library"].values()) + outside["rounding_bytes"]
        self.assertEqual(outside["used_bytes"], sum_of_lines)
        self.assertEqual(set(outside["by_library"]), {"xla_cuda_plugin"})
        blocks = [line.split(",") for line in self.vramreport("blocks", "--csv").splitlines()[1:]]
        self.assertEqual(sum(int(block[3]) for block in blocks), sum(outside["by_library"].values()))
        self.assertEqual({block[4] for block in blocks}, {"xla_cuda_plugin"})
        return said, outside, lines

    def check_text(self):
        text = self.vramreport("report")
        header = r"\A\S+ \S+jax_job.py .*\npid \d+ on .*\nGPU 0: .* \(simulated\)\n\nThis process took at most "
        self.assertRegex(text, header)
        for word in PYTORCH_ONLY:
            self.assertNotIn(word, text)
        return text

    def check_pool(self, books, outside):
        """All that XLA's allocator has, and no byte more."""
        self.assertEqual(outside["by_library"], {"xla_cuda_plugin": books["pool_bytes"]})
        self.assertLess(outside["rounding_bytes"], PAGE)

    def test_preallocation(self):
        said, outside, _ = self.follow("put")
        self.assertEqual(said["started"]["used"], CONTEXT)
        self.assertEqual(said["fullest"]["pool_bytes"], said["fullest"]["bytes_limit"])
        self.check_pool(said["fullest"], outside)
        self.assertIn("xla_cuda_plugin", self.check_text())

    def test_growth(self):
        said, outside, _ = self.follow("put", **GROWING)
        self.assertLess(said["fullest"]["pool_bytes"], 1 << 28)
        self.check_pool(said["fullest"], outside)
        self.check_text()

    def test_platform(self):
        said, outside, _ = self.follow("put", XLA_PYTHON_CLIENT_ALLOCATOR="platform")
        self.check_pool(said["fullest"], outside)

    def test_pool_of_cudas(self):
        said, outside, _ = self.follow("put", XLA_PYTHON_CLIENT_ALLOCATOR="cuda_async", **GROWING)
        fullest = said["fullest"]
        self.assertEqual(outside["by_library"], {"xla_cuda_plugin": fullest["bytes_in_use"]})
        self.assertEqual(outside["used_bytes"], CONTEXT + outside["pools_idle_bytes"] + fullest["bytes_in_use"])

    def test_preallocated_pool_of_cudas(self):
        said, outside, _ = self.follow("put", XLA_PYTHON_CLIENT_ALLOCATOR="cuda_async")
        # What is kept from the start serves all that follows.
        self.assertEqual(said["started"]["used"], said["fullest"]["used"])
        self.assertGreater(outside["pools_idle_bytes"], 50 << 30)
        self.assertIn("memory pools, idle", self.check_text())

    def test_training(self):
        said, outside, lines = self.follow("train", **GROWING)
        self.assertEqual(lines[1], "0.0")
        self.assertGreater(said["trained"]["peak_bytes_in_use"], said["trained"]["bytes_in_use"])
        self.check_pool(said["trained"], outside)

    def test_out_of_memory(self):
        said, outside, lines = self.follow("full", **GROWING)
        self.assertRegex(lines[1], r"\ARESOURCE_EXHAUSTED \d+\Z")
        self.check_pool(said["full"], outside)


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", type=pathlib.Path, required=True)
    parser.add_argument("--counts", type=pathlib.Path)
    options, rest = parser.parse_known_args()
    options.build = options.build.resolve()
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    failed = len(result.failures) + len(result.errors)
    if options.counts:
        options.counts.write_text(f"{result.testsRun - failed} {failed} 0\n")
    sys.exit(failed != 0)


main()
