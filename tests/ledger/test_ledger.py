# SPDX-License-Identifier: MIT
"""The account of the card in the report, against programs that know what their libraries hold, on simulated cards with
other consumers planted: every byte on its line, nothing twice, and the sum exact at every sample.
test_ledger.py BUILD"""

import collections
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
FOLDER = BUILD / "tests" / "ledger"
MIB = 1 << 20
PAGE = 2 * MIB
NAMES = {"nccl": "nccl", "cublas": "cublas", "cudnn_ops": "cudnn", "mine": "mine"}


class Ledger(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.run_folder = pathlib.Path(self.folder.name) / "run"

    def start(self, *commands, gpu="A100-40", **variables):
        command = [
            BUILD / "tools" / "vramrun",
            "--force",
            "-o",
            self.run_folder,
            "--simulate",
            gpu,
            "--",
            FOLDER / "ledger_job",
        ]
        return subprocess.Popen(
            [*command, FOLDER, *commands],
            env={**os.environ, **{name: str(value) for name, value in variables.items()}},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process):
        """What the program says it holds: {(device, library): bytes}."""
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, err), (0, ""))
        held = {}
        for line in out.splitlines():
            if not line.startswith(("waiting", "handle")):
                device, library, size = line.split()
                held[int(device), library] = int(size)
        return held

    def report(self):
        done = subprocess.run(
            [BUILD / "tools" / "vramreport", "--json", self.run_folder], capture_output=True, text=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        processes = json.loads(done.stdout)["processes"]
        for process in processes:
            for device in process["devices"]:
                self.add_up(device)
        return processes

    def text(self):
        command = [BUILD / "tools" / "vramreport", "--all", self.run_folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        sections = re.split("\n(?:Outside PyTorch|What is on the card)\n", done.stdout)[1:]
        return " ".join(" ".join(section.split("\n\n")[0].split()) for section in sections)

    def blocks(self, *options):
        command = [BUILD / "tools" / "vramreport", "blocks", "--csv", *options, self.run_folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def add_up(self, device):
        outside = device["outside_pytorch"]
        self.assertEqual(
            outside["used_bytes"],
            outside["context_bytes"]
            + outside["pytorch"]["reserved_bytes"]
            + sum(outside["by_library"].values())
            + outside["rounding_bytes"]
            + (outside["other_processes_bytes"] or 0)
            + outside["unexplained_bytes"],
        )
        self.assertTrue(0 < len(outside["samples"]) <= 256)
        for sample in outside["samples"]:
            lines = ("context", "pytorch", "libraries", "rounding", "other_processes", "unexplained")
            self.assertEqual(sample["used_bytes"], sum(sample[line + "_bytes"] or 0 for line in lines))

    def outside(self, *commands, **options):
        held = self.finish(self.start(*commands, **options))
        ((device,),) = [process["devices"] for process in self.report()]
        return held, device["outside_pytorch"]

    def test_each_on_its_line(self):
        others, unseen = 3000 * MIB + 12345, 77 * MIB + 1
        held, outside = self.outside(
            "nccl:m:1000000", f"nccl:v:{20 * MIB}", "cublas:d:8519680", "cudnn_ops:a:5000000", "mine:m:123",
            "mine:g:50000000", "mine:h:60000000", f"c10_cuda:m:{20 * MIB}", "sleep:100", "mine:m:100",
            VRAMSIM_OTHERS=others, VRAMSIM_UNSEEN=unseen)  # fmt: skip
        by_library = {"nccl": 1000000 + 20 * MIB, "cublas": 8519680, "cudnn": 5000000, "mine": 223}
        self.assertEqual(outside["by_library"], by_library)
        self.assertEqual(outside["pytorch"]["reserved_bytes"], 20 * MIB)
        self.assertEqual(outside["other_processes_bytes"], others)
        self.assertTrue(outside["other_processes_complete"])
        self.assertEqual(outside["unexplained_bytes"], unseen)
        self.assertEqual(outside["managed_bytes"], 50000000)
        self.assertEqual(outside["used_bytes"], held[0, "used"])
        self.assertEqual(outside["process_bytes"], held[0, "used"] - others)
        # 1000000 and 223 bytes share a page, 8519680 take 5 pages; the pool has 3 for 5000000.
        self.assertEqual(outside["rounding_bytes"], 9 * PAGE - 1000000 - 223 - 8519680 - 5000000)
        text = self.text()
        for words in ("NCCL 20.95 MiB", "cuBLAS 8.12 MiB", "cuDNN 4.77 MiB", "mine 223 B", "CUDA context 432.00 MiB",
                      "other processes 2.93 GiB", "unexplained 77.00 MiB", "used of the card 3.48 GiB",
                      "77.00 MiB of it this process's", "Managed memory: 47.68 MiB, "):  # fmt: skip
            self.assertIn(words, text)

    def test_an_allocator_under_pytorchs(self):
        """What PyTorch's allocator has from another is in its reserve; what others take when they are told is theirs."""
        held, outside = self.outside(
            f"PluggableAllocator_malloc:mine:m:{20 * MIB}", f"PluggableAllocator_malloc:nccl:v:{6 * MIB}",
            "tracker:nccl:m:1000000", "tracker:mine:d:3000", f"c10_cuda:m:{2 * MIB}", "sleep:100", "mine:m:100")  # fmt: skip
        self.assertEqual(outside["by_library"], {"nccl": 1000000, "mine": 3100})
        self.assertEqual((outside["pytorch"]["reserved_bytes"], held[0, "c10_cuda"]), (28 * MIB,) * 2)
        self.assertEqual((held[0, "nccl"], held[0, "mine"]), (1000000, 3100))
        # PyTorch is there, and its allocator gave out nothing: what CUDA did is shown.
        for options in [], ["--cuda"]:
            blocks = collections.Counter()
            for row in self.blocks(*options):
                blocks[row["tag"]] += int(row["size"])
            self.assertEqual(blocks, {"nccl": 1000000, "mine": 3100, "pytorch": 28 * MIB})

    def test_nothing_unexplained(self):
        _, outside = self.outside("nccl:m:1000000")
        self.assertEqual(outside["managed_bytes"], 0)
        self.assertEqual((outside["unexplained_bytes"], outside["other_processes_bytes"]), (0, 0))
        self.assertIn("every byte has its line", self.text())
        self.assertNotIn("anaged", self.text())

    def test_nvml_switched_off(self):
        """Then others and unseen bytes cannot be told apart, and it is said."""
        _, outside = self.outside("nccl:m:1000000", VRAMSHIM_NVML=0, VRAMSIM_OTHERS=MIB, VRAMSIM_UNSEEN=10 * MIB)
        self.assertEqual((outside["unexplained_bytes"], outside["other_processes_bytes"]), (11 * MIB, None))
        self.assertFalse(outside["other_processes_complete"])
        self.assertIn("other processes, or what no recorded call asked for", self.text())

    def test_at_random(self):
        """Everything that any library does on two cards, with others there: the sum is exact each time."""
        ends = 0
        for seed in range(4):
            commands = [f"random:{seed}:3000"]
            for device in 0, 1:
                commands += [f"device:{device}", "mine:m:200000000", "sleep:50", "mine:m:1"]
            process = self.start(
                *commands, gpu="A100-40:2", VRAMSIM_OTHERS=f"{seed * MIB},5", VRAMSIM_UNSEEN=f"7,{seed}"
            )
            held = self.finish(process)
            ((devices),) = [process["devices"] for process in self.report()]
            self.assertEqual([device["index"] for device in devices], [0, 1])
            for index, device in enumerate(devices):
                outside = device["outside_pytorch"]
                unseen, others = (7, seed * MIB) if index == 0 else (seed, 5)
                self.assertEqual({sample["unexplained_bytes"] for sample in outside["samples"]}, {unseen})
                self.assertEqual({sample["other_processes_bytes"] for sample in outside["samples"]}, {others})
                self.assertGreater(len(outside["samples"]), 20)
                # Between two samples it may have held more; what is shown and that are the highest it held.
                mine = outside["used_bytes"] - outside["other_processes_bytes"] - outside["unexplained_bytes"]
                self.assertEqual(mine + outside["unsampled_bytes"], device["max"]["device_bytes"])
                # What is shown is when the card was fullest. The last sample mostly is of the end, where the program
                # knows what each library has; on a busy machine it may be of an instant before.
                last = outside["samples"][-1]
                if last["used_bytes"] == held[index, "used"]:
                    ends += 1
                    libraries = sum(held.get((index, name), 0) for name in NAMES)
                    self.assertEqual(last["libraries_bytes"], libraries)
                    self.assertEqual(last["pytorch_bytes"], held.get((index, "c10_cuda"), 0))
            self.run_folder = pathlib.Path(self.folder.name) / f"run{seed}"
        self.assertGreater(ends, 0)

    def test_processes_on_one_card(self):
        """Each sees the other's bytes, by its pid, and its own only once; the numbers of the card differ."""
        share = {"VRAMSIM_SHARE": pathlib.Path(self.folder.name) / "share"}
        first = self.start("nccl:m:300000000", "wait", gpu="A100-40:2", CUDA_VISIBLE_DEVICES="1", **share)
        self.assertEqual(first.stdout.readline(), "waiting\n")
        second = self.start(
            "device:1", "cublas:m:100000000", "sleep:100", "cublas:m:100000000", gpu="A100-40:2", **share
        )
        self.finish(second)
        first.stdin.write("\n")
        held = self.finish(first)
        processes = self.report()
        by_pid = {process["pid"]: process["devices"][0] for process in processes}
        context = by_pid[second.pid]["outside_pytorch"]["context_bytes"]
        outside = by_pid[second.pid]["outside_pytorch"]
        theirs = context + 288 * MIB  # 300000000 bytes in pages
        self.assertEqual(outside["recorded_processes"], [{"pid": first.pid, "bytes": theirs}])
        self.assertEqual((outside["other_processes_bytes"], outside["unexplained_bytes"]), (theirs, 0))
        self.assertEqual(by_pid[first.pid]["outside_pytorch"]["recorded_processes"], [])
        self.assertEqual(held[0, "used"], theirs)
        self.assertEqual(outside["used_bytes"], theirs + context + 2 * 96 * MIB)
        self.assertIn(f"process {first.pid}", self.text())

    def test_recorded_processes_without_nvml(self):
        share = {"VRAMSIM_SHARE": pathlib.Path(self.folder.name) / "share", "VRAMSHIM_NVML": 0}
        first = self.start("nccl:m:300000000", "wait", **share)
        self.assertEqual(first.stdout.readline(), "waiting\n")
        second = self.start("cublas:m:100000000", VRAMSIM_UNSEEN=MIB, **share)
        self.finish(second)
        first.communicate("\n", timeout=60)
        outside = {p["pid"]: p["devices"][0]["outside_pytorch"] for p in self.report()}[second.pid]
        self.assertEqual(outside["recorded_processes"][0]["pid"], first.pid)
        self.assertEqual(outside["other_processes_bytes"], outside["context_bytes"] + 288 * MIB)
        self.assertFalse(outside["other_processes_complete"])
        self.assertEqual(outside["unexplained_bytes"], MIB)

    def test_imported_memory_is_the_exporters(self):
        share = {"VRAMSIM_SHARE": pathlib.Path(self.folder.name) / "share"}
        first = self.start("nccl:m:300000000", "export", "wait", **share)
        handle = first.stdout.readline().split()[1]
        self.assertEqual(first.stdout.readline(), "waiting\n")
        second = self.start("mine:m:100", f"import:{handle}", "sleep:100", "mine:m:100", **share)
        held = self.finish(second)
        first.communicate("\n", timeout=60)
        outside = {p["pid"]: p["devices"][0]["outside_pytorch"] for p in self.report()}[second.pid]
        self.assertEqual(outside["by_library"], {"mine": 200})
        self.assertEqual(outside["other_processes_bytes"], outside["context_bytes"] + 288 * MIB)
        self.assertEqual({sample["unexplained_bytes"] for sample in outside["samples"]}, {0})
        self.assertEqual(held[0, "used"], outside["used_bytes"])

    def test_a_killed_process_is_gone(self):
        share = {"VRAMSIM_SHARE": pathlib.Path(self.folder.name) / "share"}
        first = self.start("nccl:m:300000000", "wait", **share)
        self.assertEqual(first.stdout.readline(), "waiting\n")
        first.kill()
        first.communicate()
        held = self.finish(self.start("cublas:m:100000000", **share))
        self.assertEqual(held[0, "used"], (432 + 96) * MIB)

    def test_capacity_is_shared(self):
        process = self.start("nccl:m:2000000000", VRAMSIM_OTHERS=40000 * MIB, VRAMSHIM_OOM="quiet")
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (1, "job: out of memory\n"))

    def test_bad_configuration(self):
        for text in "x", "1,x", "1;2", "-1", "1" * 18, ",", "1,,2":
            process = self.start("nccl:m:1", VRAMSIM_OTHERS=text)
            _, err = process.communicate(timeout=60)
            self.assertEqual(
                (process.returncode, err), (0, "vramsim: ignored, not bytes for each card: VRAMSIM_OTHERS\n")
            )


if __name__ == "__main__":
    unittest.main()
