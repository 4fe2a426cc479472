# SPDX-License-Identifier: MIT
"""That gpu-check itself can be trusted: hangs and crashes end in a line, what is wrong is seen. Needs no PyTorch."""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

import check
import check_driver
import check_jobs
from bench import Bench, CouldNot, Ran, worked


class Limits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bench = Bench(
            pathlib.Path("/nowhere"), pathlib.Path(folder.name), sys.executable, None, time.monotonic() + 60
        )

    def test_hang(self):
        """What ignores signals and leaves children behind is gone at its limit, with the children."""
        started = time.monotonic()
        with self.assertRaisesRegex(CouldNot, "still running after 5 s: waits"):
            self.bench.command(["bash", "-c", "trap '' TERM INT; echo waits >&2; sleep 4242 & sleep 4242"], 5)
        self.assertLess(time.monotonic() - started, 20)
        for _ in range(100):  # what is killed may take a moment to vanish
            left = subprocess.run(["pgrep", "-x", "-f", "sleep 4242"], capture_output=True, text=True).stdout
            if not left:
                break
            time.sleep(0.1)
        self.assertEqual(left, "")

    def test_kill(self):
        ran = self.bench.command(["bash", "-c", "echo begun; echo now; sleep 100"], 50, until="now")
        self.assertEqual((ran.status, ran.out), (-9, "begun\nnow\n"))

    def test_much_output(self):
        ran = self.bench.command(["bash", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; exit 7"], 50)
        self.assertEqual((ran.status, len(ran.out)), (7, 3000000))

    def test_deadline(self):
        self.bench.deadline = time.monotonic() + 4
        with self.assertRaisesRegex(CouldNot, "no time is left"):
            self.bench.command(["true"], 50)

    def test_failed_job(self):
        with self.assertRaisesRegex(CouldNot, "status 3: the last line"):
            worked(Ran(3, 1, "", "first\nthe last line\n\n", None, None))
        with self.assertRaisesRegex(CouldNot, "signal 11"):
            worked(Ran(-11, 1, "", "", None, {}))
        with self.assertRaisesRegex(CouldNot, "wrote nothing"):
            worked(Ran(0, 1, "", "", None, None))


class Programme(unittest.TestCase):
    def run_part(self, part, found=None):
        lines, out = check.Lines(), io.StringIO()
        with contextlib.redirect_stdout(out):
            check.run_part(None, lines, found if found is not None else {}, "part", part)
        self.assertEqual(out.getvalue().count("\n"), len(lines.rows))
        return [(row["check"], row["status"], row["detail"]) for row in lines.rows]

    def test_a_broken_check_goes_no_further(self):
        def broken(bench, found):
            return {}["key"]

        ((_, status, detail),) = self.run_part(broken)
        self.assertEqual(status, "could not")
        self.assertRegex(detail, r"KeyError: 'key' \(test_check.py:\d+\)")

    def test_rows(self):
        rows = self.run_part(lambda bench, found: [("a", True, "x"), ("b", False, "y"), ("c", None, "z")])
        self.assertEqual([status for _, status, _ in rows], ["ok", "differs", "could not"])


def event(type, memory, address, size):
    return {"type": type, "memory": memory, "address": hex(address), "size": size}


class Sees(unittest.TestCase):
    """Planted errors, each in the line where it belongs."""

    CALLS = [["alloc", 0x1000, 5], ["free", 0x1000, 0], ["create", 0x77, 2 << 20], ["async", 0x9000, 3]]
    EVENTS = [event("cuda-alloc", "device", 0x1000, 5), {"type": "meminfo", "device": 0, "size": 1},
              event("cuda-free", "device", 0x1000, 0), event("cuda-alloc", "physical", 0x77, 2 << 20),
              event("cuda-alloc", "mapped", 0x5000, 2 << 20), event("cuda-alloc", "pool", 0x9000, 3)]  # fmt: skip
    WAYS = {"symbol": [0x20000, 7], "dlsym": [0x30000, 8]}

    def booked(self, events, plain=None):
        told = {
            "calls": self.CALLS,
            "gateways": self.WAYS,
            "sizes": {"rows": [1]},
            "small": {},
            "virtual": {},
            "pool": {},
        }
        ways = [event(type, "device", *place) for type in ("cuda-alloc", "cuda-free") for place in self.WAYS.values()]
        bench = types.SimpleNamespace(
            script=lambda name, record=False, limit=0: Ran(
                0, 1, "", "", "run" if record else None, {**told, **(plain or {})} if not record else told
            ),
            events=lambda run: {"events": events + ways},
        )
        return {name: holds for name, holds, _ in check_driver.booked_once(bench, {})}

    def test_right(self):
        self.assertEqual(set(self.booked(self.EVENTS).values()), {True})

    def test_wrong(self):
        for index in (0, 2, 3, 5):
            twice = self.EVENTS[: index + 1] + self.EVENTS[index:]
            self.assertFalse(self.booked(twice)["every call booked once"])
            self.assertFalse(self.booked(self.EVENTS[:index] + self.EVENTS[index + 1 :])["every call booked once"])
        larger = [{**self.EVENTS[0], "size": 6}, *self.EVENTS[1:]]
        self.assertFalse(self.booked(larger)["every call booked once"])
        self.assertFalse(self.booked(self.EVENTS, {"sizes": {"rows": [2]}})["answers unchanged"])
        again = [*self.EVENTS, event("cuda-alloc", "device", *self.WAYS["dlsym"])]
        self.assertFalse(self.booked(again)["every way to the driver"])

    def recording(self, **changes):
        numbers = {"allocated_bytes": 5, "reserved_bytes": 6, "lost": 0, "mismatches": 0, "tags": 5, **changes}
        device = {
            "max": {"allocated_bytes": numbers["allocated_bytes"], "reserved_bytes": numbers["reserved_bytes"]},
            "events": {"allocations": 9, "lost": numbers["lost"], "mismatches": numbers["mismatches"]},
            "peak": {"allocated_bytes": 5, "tags": {"weights": numbers["tags"]}},
        }
        told = {"max_allocated": 5, "max_reserved": 6, "stats": {"allocation.all.allocated": 9}}
        return check_jobs.recording(told, None, device)

    def test_recording(self):
        self.assertTrue(self.recording()[0])
        for change in ("allocated_bytes", "reserved_bytes", "lost", "mismatches", "tags"):
            holds, detail = self.recording(**{change: 4})
            self.assertFalse(holds, change)
            self.assertIn("4, not", detail)


if __name__ == "__main__":
    unittest.main()
