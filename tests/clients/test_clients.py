# SPDX-License-Identifier: MIT
"""Little CUDA programs without PyTorch, each with its own account of what it asked for, recorded on a simulated card:
they run as without us, and trace and report have the same bytes. test_clients.py BUILD"""

import collections
import csv
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from reading import PYTORCH_ONLY, environment, run

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
FOLDER = BUILD / "tests" / "clients"
PAGE = 2 << 20
GPU = "A100-80"
CARD_KINDS = ("device", "array", "physical", "held", "graphs")  # what takes bytes of the card


def read(line):
    """'NAME: KIND BYTES, ...' as (name, {kind: bytes})."""
    name, rest = line.rsplit(": ", 1)
    return name, {kind: int(size) for kind, size in (pair.split(" ") for pair in rest.split(", "))}


class Clients(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name) / "run"
        self.vramrun = [BUILD / "tools" / "vramrun", "-o", self.run_folder, "--simulate", GPU, "--"]

    def vramreport(self, *words):
        done = run(BUILD / "tools" / "vramreport", *words, self.run_folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def follow(self, program, *arguments, status=0):
        """The instants of the program, after trace and unrecorded run agreed with each; [(name, {kind: bytes})]."""
        command = [FOLDER / program, *arguments]
        recorded = run(*self.vramrun, *command, VRAMSHIM_OOM="quiet")
        sim = BUILD / "lib" / "sim"
        plain = run(*command, LD_PRELOAD=str(sim / "libvramsim.so"), LD_LIBRARY_PATH=str(sim), VRAMSIM_GPU=GPU)
        self.assertEqual((recorded.returncode, recorded.stderr), (status, ""))
        self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (status, recorded.stdout, ""))
        (trace,) = self.run_folder.glob("*.vst")
        books = run(FOLDER / "books", trace)
        self.assertEqual((books.returncode, books.stdout), (0, recorded.stdout))
        return [read(line) for line in recorded.stdout.splitlines()]

    def check_report(self, fullest, by_library):
        """The account at the instant `fullest` (of the program's own), library by library."""
        report = json.loads(self.vramreport("report", "--json"))
        (process,) = report["processes"]
        (device,) = process["devices"]
        outside = device["outside_pytorch"]
        self.assertEqual((process["exit"], process["lost"], process["torch"], process["python"]), ("clean", 0, "", ""))
        self.assertEqual(device["events"], {"allocations": 0, "frees": 0, "lost": 0, "mismatches": 0})
        self.assertEqual(device["simulated"], True)
        self.assertIsNone(device["estimate"])
        self.assertEqual((device["steps"], device["oom"]), ([], []))
        self.assertEqual(outside["used_bytes"], fullest["used"])
        self.assertEqual(device["max"], {"allocated_bytes": 0, "reserved_bytes": 0, "device_bytes": fullest["used"]})
        self.assertEqual(outside["by_library"], by_library)
        self.assertEqual((outside["unexplained_bytes"], outside["other_processes_bytes"]), (0, 0))
        self.assertEqual(outside["pytorch"]["reserved_bytes"], 0)
        lines = outside["context_bytes"] + sum(by_library.values()) + outside["rounding_bytes"]
        self.assertEqual(outside["used_bytes"], lines)
        for sample in outside["samples"]:
            self.assertEqual((sample["unexplained_bytes"], sample["pytorch_bytes"]), (0, 0))
            lines = sample["context_bytes"] + sample["libraries_bytes"] + sample["rounding_bytes"]
            self.assertEqual(sample["used_bytes"], lines)
        return outside

    def check_text(self, program, libraries, idle=()):
        """Read by somebody who has no PyTorch."""
        text = self.vramreport("report")
        header = rf"\A{program}\b.*\npid \d+ on .*\nGPU 0: NVIDIA A100.* \(simulated\)\n\nThis process took at most "
        self.assertRegex(text, header)
        self.assertIn("\nThe process ended in order.\n\nWhat is on the card\n", text)
        for word in PYTORCH_ONLY:
            self.assertNotIn(word, text)
        table = re.findall(r"^  (\S.*?)  +(\d+(?:\.\d+)? \w+) +(\d+\.\d)%", text, re.M)
        expected = ["CUDA context", *libraries, *idle, "rounding", "other processes", "unexplained", "used of the card"]
        self.assertEqual([row[0] for row in table], expected)
        self.assertEqual(table[-1][2], "100.0")
        self.assertLess(max(map(len, text.splitlines())), 121)

    def check_blocks(self, by_library, kinds):
        """Block by block, what the libraries' lines say; `peak` is when the card was fullest."""
        lines = self.vramreport("blocks", "--csv")
        self.assertEqual(lines, self.vramreport("blocks", "--at", "fullest", "--csv"))
        rows = list(csv.DictReader(io.StringIO(lines)))
        found = collections.Counter()
        for row in rows:
            found[row["tag"]] += int(row["size"])
        self.assertEqual(found, by_library)
        self.assertEqual({row["detail"] for row in rows}, kinds)
        self.assertEqual({(row["phase"], row["step"]) for row in rows}, {("", "")})
        (process,) = json.loads(self.vramreport("blocks", "--json"))["processes"]
        (device,) = process["devices"]
        names = ("address", "size", "tag", "detail", "stack")
        self.assertEqual([[str(block[name]) for name in names] for block in device["blocks"]],
                         [[row[name] for name in names] for row in rows])
        text = self.vramreport("blocks", "--all")
        self.assertRegex(text, rf"\Apid \d+, GPU 0, at peak: {len(rows)} allocations of CUDA's, ")
        self.assertEqual(len(text.splitlines()), len(rows) + 2)
        for word in PYTORCH_ONLY:
            self.assertNotIn(word, text)

    def test_linked_to_the_runtime(self):
        marks = self.follow("stencil", status=3)
        names = [name for name, _ in marks]
        self.assertEqual(names, ["ready", "refined", "refined", "finest", "fullest", "over"])
        ready, fullest, over = (dict(marks)[name] for name in ("ready", "fullest", "over"))
        pitch = 4096  # of 4004 bytes: whole 512
        self.assertEqual(ready["device"], 2 * pitch * 777)
        self.assertEqual((ready["array"], ready["managed"], ready["pinned"]), (640 * 480 * 8, 12345, 3000001 + 8 * 4096))
        self.assertEqual(over, {"device": 4, "used": over["used"]})
        outside = self.check_report(fullest, {"stencil": fullest["device"] + fullest["array"]})
        self.assertEqual(outside["context_bytes"], over["used"] - PAGE)
        self.check_blocks(outside["by_library"], {"device", "array"})
        self.check_text("stencil", ["stencil"])

    def test_driver_by_name(self):
        marks = self.follow("modules")
        by_name = dict(marks)
        context = by_name["another context"]["used"]
        self.assertEqual(by_name["started"], {"used": context})
        grown = [bytes["physical"] for name, bytes in marks if name == "grown"]
        self.assertEqual(grown, [PAGE, 3 * PAGE, 8 * PAGE, 18 * PAGE, 35 * PAGE])
        self.assertEqual(by_name["released, mapped"], by_name["fullest"])
        self.assertEqual(by_name["fullest"]["used"] - by_name["unmapped, one retained"]["used"], 34 * PAGE)
        fullest = by_name["fullest"]
        outside = self.check_report(fullest, {"modules": fullest["device"] + fullest["physical"]})
        self.assertEqual(outside["context_bytes"], context)
        self.check_blocks(outside["by_library"], {"device", "physical"})
        self.check_text("modules", ["modules"])

    def test_pools_and_graphs(self):
        marks = self.follow("pools")
        by_name = dict(marks)
        context, fullest = by_name["over"]["used"], by_name["fullest"]
        # The graph's two buffers and the one that is handed out, in whole pages; nothing before the first launch.
        self.assertNotIn("graphs", by_name["captured"])
        self.assertEqual(by_name["launched"]["graphs"], (5 + 2 + 4) * PAGE)
        self.assertEqual(by_name["launched again"], fullest)
        self.assertNotIn("graphs", by_name["graphs gone"])
        self.assertLessEqual(by_name["trimmed"]["held"], 8 << 20)
        self.assertGreater(by_name["trimmed by itself"]["held"], 8 << 20)
        self.assertEqual(by_name["trimmed"]["held"] + context, by_name["trimmed"]["used"] - PAGE)
        # What pools have and nobody uses is in no library's line.
        in_use = fullest["device"] + fullest["pool"] + fullest["graphs"]
        outside = self.check_report(fullest, {"pools": in_use})
        self.assertEqual(outside["rounding_bytes"], fullest["used"] - context - in_use)
        self.assertEqual(outside["pools_idle_bytes"], fullest["held"] - fullest["pool"])
        self.check_blocks(outside["by_library"], {"device", "pool", "graphs"})
        self.check_text("pools", ["pools"], ["memory pools, idle"])

    def test_private_runtime(self):
        marks = self.follow("ring", FOLDER / "libcommunicator.so")
        by_name = dict(marks)
        alone, fullest, over = by_name["communicator"], by_name["fullest"], by_name["over"]
        self.assertEqual((alone["physical"], alone["mapped"], alone["reserved"]), (18 * PAGE,) * 3)
        self.assertEqual(alone["device"], 70000 + 8 * (24000000 // 4096 * 8 + 8))
        theirs = alone["device"] + alone["physical"]
        own = fullest["device"] - alone["device"]
        self.assertEqual(own, 8 * 24000000 + 4096)
        outside = self.check_report(fullest, {"communicator": theirs, "ring": own})
        self.assertEqual(over["used"], outside["context_bytes"] + PAGE)
        self.check_blocks(outside["by_library"], {"device", "physical"})
        self.check_text("ring", ["ring", "communicator"])

    def test_runtime_that_cannot_be_simulated(self):
        """Each library with one is named, once."""
        program = """
import ctypes, shutil, sys
for copy in range(2):
    library = ctypes.CDLL(shutil.copy(sys.argv[1], f"{sys.argv[2]}/libown{copy}.so"))
    print(library.communicator_tables(), library.communicator_tables())
"""
        done = run(*self.vramrun, sys.executable, "-c", program, FOLDER / "libcommunicator.so", self.run_folder.parent)
        self.assertEqual((done.returncode, done.stdout), (0, "801 801\n801 801\n"))
        line = "vramsim: not simulated: a CUDA runtime of its own in libown%d.so (cuGetExportTable)\n"
        self.assertEqual(done.stderr, line % 0 + line % 1)

    def test_killed_at_work(self):
        command = [str(word) for word in (*self.vramrun, FOLDER / "stencil")]
        process = subprocess.Popen(command, env=environment({"CLIENT_WORK_MS": "60000"}), stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(600):
            # Before the first event, that is no trace yet.
            if "mark finest" in run(BUILD / "tools" / "vramreport", "dump", self.run_folder).stdout:
                break
            time.sleep(0.05)
        held = r"8\d\d\.\d\d MiB"
        self.assertRegex(self.vramreport("report"), f"\nIt is still running, now with {held} on the card.\n")
        process.kill()
        self.assertEqual(process.wait(), -9)
        text = self.vramreport("report")
        sentence = rf"No end was recorded: the process was killed, .* At the last event, .* it had {held} on the card\."
        self.assertRegex(" ".join(text.split()), sentence)
        for word in PYTORCH_ONLY:
            self.assertNotIn(word, text)


if __name__ == "__main__":
    unittest.main()
