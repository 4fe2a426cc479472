# SPDX-License-Identifier: MIT
"""vramreport's command line on small made-up traces: test_vramreport.py VRAMREPORT MAKE_TRACE"""
import csv
import io
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

VRAMREPORT, MAKE_TRACE = map(os.path.abspath, sys.argv[1:3])
COMMANDS = ("report", "blocks", "stacks", "whatif", "oom", "dump")


def run(*arguments, status=0, **variables):
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **variables}
    done = subprocess.run([VRAMREPORT, *map(str, arguments)], capture_output=True, timeout=60, env=environment)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    if done.returncode != status:
        raise AssertionError(f"{arguments}: exit status {done.returncode}, expected {status}: {done.stderr}")
    return done


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vramreport-"))
        self.run_folder = self.folder / "run"
        self.run_folder.mkdir()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def trace(self, scenario="clean", name="host-1.vst"):
        """Writes a trace; returns its path and allocated peak."""
        path = self.run_folder / name
        peak = subprocess.run([MAKE_TRACE, path, scenario], capture_output=True, check=True).stdout
        return path, int(peak)

    def refused(self, *arguments, names=()):
        done = run(*arguments, status=2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for name in ("vramreport: ", *names):
            self.assertIn(name, done.stderr)

    def json(self, *arguments):
        done = run(*arguments, "--json")
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)


class Snapshots(Case):
    """Written from a trace, then RUN itself."""

    def snapshot(self):
        path, peak = self.trace()
        pickled = self.folder / "run.pickle"
        run("snapshot", path, "-o", pickled)
        return pickled, peak

    def test_report(self):
        pickled, peak = self.snapshot()
        text = run("report", pickled).stdout
        self.assertTrue(text.startswith("PyTorch snapshot"), text)
        self.assertNotIn("pid", text)
        answer = self.json("report", pickled)
        self.assertIsNone(answer["run"]["started"])
        self.assertIsNone(answer["run"]["duration_s"])
        (process,) = answer["processes"]
        self.assertIsNone(process["pid"])
        self.assertIsNone(process["exit"])
        self.assertEqual(process["devices"][0]["max"]["allocated_bytes"], peak)

    def test_same_blocks(self):
        pickled, _ = self.snapshot()
        path = self.run_folder / "host-1.vst"

        def blocks(which):
            rows = csv.DictReader(io.StringIO(run("blocks", which, "--at", "peak", "--csv").stdout))
            return [(row["address"], row["size"]) for row in rows]

        self.assertEqual(blocks(pickled), blocks(path))
        self.assertTrue(blocks(path))

    def test_whatif(self):
        pickled, peak = self.snapshot()
        # No allocator made those addresses: the answer is given, and that it is not exact.
        done = run("whatif", pickled, "--gpu", "a100-40g", "--expandable-segments", "--perfect", "--json", status=1)
        answer = json.loads(done.stdout)
        self.assertFalse(answer["baseline"]["exact"])
        self.assertEqual(answer["schema"], "vramshim/whatif/1")
        self.assertIsNone(answer["pid"])
        self.assertEqual([row["name"] for row in answer["scenarios"]], ["expandable_segments", "perfect"])
        self.assertEqual(answer["scenarios"][1]["allocated_peak_bytes"], peak)
        self.assertIn("not exact", run("whatif", pickled, status=1).stdout)
        for words, source in (((), "assumed"), (("--outside", "300M"), "stated")):
            done = run("whatif", pickled, "--gpu", "a100-40g", *words, "--json", status=1)
            self.assertEqual(json.loads(done.stdout)["outside_source"], source)
            text = run("whatif", pickled, "--gpu", "a100-40g", *words, status=1).stdout
            self.assertEqual("(assumed)" in text, source == "assumed", text)
        text = run("whatif", pickled, "--gpu-memory", "1M", "--sweep", status=1).stdout
        self.assertIn("is not known", text)
        self.assertNotIn(" 0 B taken", text)
        for name in ("expandable + roundup 8", "max_split_size 64", "max_split_size 512"):  # no name is cut
            self.assertRegex(text, rf"(?m)^  {re.escape(name)} .*(fits|refused)")
        for option, value in (("--gpu", "nonsense"), ("--max-split-size", "x"), ("--gc-threshold", "2"),
                              ("--gpu-memory", "-1"), ("--scale-activations", "0"), ("--settings", "nonsense:1")):
            self.refused("whatif", pickled, option, value, names=[value])

    def test_compare(self):
        """Where the model is not known there are no activations on paper, so no verdict either."""
        path, _ = self.trace()
        answer = self.json("compare", path)
        paper = {row["category"]: row["paper_bytes"] for row in answer["rows"]}
        self.assertIsNone(paper["activations"])
        self.assertGreater(paper["weights"], 0)
        self.assertIsNone(answer["peak"]["refined_bytes"])
        self.assertIn("the model is needed", answer["verdict"])
        shape = ("--layers", 2, "--hidden", 64, "--heads", 4, "--ffn", 128, "--vocab", 100)
        answer = self.json("compare", path, *shape)
        self.assertRegex(answer["verdict"], "paper estimate is (not )?safe")

    def test_bad(self):
        pickled, _ = self.snapshot()
        whole = pickled.read_bytes()
        cut = self.folder / "cut.pickle"
        for length in range(2, len(whole) - 1, max(1, len(whole) // 50)):
            cut.write_bytes(whole[:length])
            self.refused("report", cut, names=["cut.pickle"])
        cut.write_bytes(b"\x80\x02cos\nsystem\n.")
        for command in ("report", "blocks", "whatif"):
            self.refused(command, cut, names=["GLOBAL"])


class Usage(Case):
    def test_help(self):
        self.assertIn("Usage: vramreport", run("--help").stdout)
        self.assertIn("0.", run("--version").stdout)
        for command in COMMANDS:
            self.assertIn(f"  {command} ", run("--help").stdout)
            text = run(command, "--help").stdout
            self.assertIn("--json", text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 90, line)

    def test_bad_usage(self):
        path, _ = self.trace()
        self.refused(names=["RUN"])
        self.refused("nonsense", names=["nonsense", "subcommand"])
        self.refused("nonsense", path, names=["nonsense", "subcommand"])
        for command in COMMANDS:
            self.refused(command, names=["no RUN"])
            self.refused(command, path, path, names=["one RUN"])
            self.refused(command, path, "--nonsense", names=["--nonsense", "--help"])
        self.refused("blocks", path, "--at", names=["--at", "value"])
        self.refused("blocks", path, "--csv", "--json", names=["choose one"])
        for option in ("--top", "--batch", "--seq", "--layers", "--hidden", "--heads", "--params", "--param-bytes"):
            for value in ("0", "-1", "x", "1x", "", "99999999999999999999"):
                self.refused("report", path, f"{option}={value}", names=[option])
        for value in ("0", "-1", "x"):
            self.refused("stacks", path, f"--id={value}", names=["--id"])
        self.refused("stacks", path, "--id", 1000000, names=["no such stack", "from 1 to 4"])
        self.refused("report", path, "--layers", 2, "--hidden", 64, "--heads", 4, "--batch", 1, names=["--seq"])
        self.refused("report", path, "--batch", 1, "--seq", 5, names=["--layers"])

    def test_full_output(self):
        path, _ = self.trace()
        with open("/dev/full", "w") as full:
            done = subprocess.run([VRAMREPORT, "report", path], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("No space left", done.stderr)


class OomMessage(Case):
    """vramreport oom --message: the reading itself is a unit test."""

    TEXTS = pathlib.Path(__file__).parent.parent / "data" / "oom-messages"

    def test_every_text(self):
        causes = set()
        for path in sorted(self.TEXTS.iterdir()):
            answer = json.loads(run("oom", "--message", path, "--json", status=1).stdout)
            self.assertEqual(answer["schema"], "vramshim/oom/1")
            causes.add(answer["cause"])
            done = run("oom", "--message", path, status=1, COLUMNS="80")
            text = done.stdout
            self.assertTrue(text.startswith("Out of memory: " + answer["cause"]), (path, text, done.stderr))
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)
        expected = "request_too_large limit fragmentation other_process outside_pytorch full unknown"
        self.assertEqual(causes, set(expected.split()))

    def test_keys(self):
        answer = json.loads(run("oom", "--json", "--message", self.TEXTS / "torch-2.4-full.txt", status=1).stdout)
        for key in ("request", "total", "free", "allocated", "unallocated", "outside_pytorch", "shortfall"):
            self.assertGreater(answer[key + "_bytes"], 0, key)
        self.assertIsNone(answer["other_processes_bytes"])
        remedy = answer["remedies"][0]
        self.assertEqual((remedy["name"], remedy["enough"]), ("expandable_segments", False))
        self.assertEqual(remedy["saves_bytes"], answer["unallocated_bytes"])

    def test_standard_input(self):
        text = (self.TEXTS / "torch-2.5-other-process.txt").read_bytes()
        log = b"step 1\n" * 6_000_000 + text
        done = subprocess.run([VRAMREPORT, "oom", "--message", "-", "--json"], input=log, capture_output=True)
        self.assertEqual(json.loads(done.stdout)["cause"], "other_process")
        self.assertEqual(done.returncode, 1)

    def test_bad_input(self):
        (self.folder / "log").write_text("all went well")
        self.refused("oom", "--message", self.folder / "log", names=["log", "no out-of-memory error"])
        self.refused("oom", "--message", self.folder / "absent", names=["absent"])
        self.refused("oom", "--message", self.folder, names=[str(self.folder)])
        self.refused("oom", "--message", names=["--message", "value"])
        self.refused("oom", "--message", self.folder / "log", self.folder, names=["choose one"])


class OomRun(Case):
    def test_post_mortem(self):
        path, _ = self.trace("oom")
        text = run("oom", path, status=1).stdout
        for words in ("Out of memory: request_too_large", "in the forward of step 2: 2.00 GiB", "256.00 MiB optimizer"):
            self.assertIn(words, text)
        answer = json.loads(run("oom", path, "--json", status=1).stdout)
        self.assertEqual(answer["cause"], "request_too_large")
        self.assertEqual(answer["request_bytes"], 2 << 30)
        self.assertEqual(answer["total_bytes"], 1 << 30)
        self.assertEqual(answer["allocated_bytes"], 400 << 20)
        self.assertEqual(answer["unallocated_bytes"], answer["reserved_bytes"] - answer["allocated_bytes"])
        saves = [remedy["saves_bytes"] for remedy in answer["remedies"] if remedy["saves_bytes"] is not None]
        self.assertEqual(saves, sorted(saves, reverse=True))
        (offload,) = [remedy for remedy in answer["remedies"] if remedy["name"] == "offload"]
        self.assertEqual((offload["saves_bytes"], offload["enough"]), (256 << 20, False))

    def test_fragmentation(self):
        path, _ = self.trace("full")
        answer = json.loads(run("oom", path, "--json", status=1).stdout)
        self.assertEqual((answer["cause"], answer["shortfall_bytes"]), ("fragmentation", 0))
        (remedy,) = [remedy for remedy in answer["remedies"] if remedy["name"] == "expandable_segments"]
        self.assertEqual(remedy["saves_bytes"], answer["unallocated_bytes"])
        # What frees a whole request's worth is enough; what frees less may be.
        self.assertTrue(answer["remedies"][0]["enough"])

    def test_refused_to_a_library(self):
        """Never seen by PyTorch's allocator."""
        path, _ = self.trace("refused")
        answer = json.loads(run("oom", path, "--json", status=1).stdout)
        self.assertEqual((answer["source"], answer["request_bytes"]), ("cuda", 64 << 20))
        self.assertEqual(answer["cause"], "unknown")  # what was free was not asked for
        self.assertIn("CUDA refused 64.00 MiB to somebody unknown (cuMemAlloc_v2), not to PyTorch's allocator.", run("oom", path, status=1, COLUMNS="200").stdout)

    def test_brief(self):
        path, _ = self.trace("oom")
        lines = run("oom", "--brief", self.run_folder, status=1).stdout.splitlines()
        self.assertLessEqual(len(lines), 25)
        self.assertNotIn("", lines)

    def test_none(self):
        path, _ = self.trace("clean")
        self.assertIn("did not run out", run("oom", path).stdout)
        self.assertIsNone(self.json("oom", path)["cause"])


class Input(Case):
    def test_not_a_run(self):
        (self.folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5000))
        (self.folder / "empty.vst").write_bytes(b"")
        (self.folder / "short.vst").write_bytes(b"VR")
        os.mkfifo(self.folder / "pipe")
        (self.folder / "nothing").mkdir()
        (self.folder / "nothing" / "notes.txt").write_text("not a trace")
        for command in COMMANDS:
            self.refused(command, self.folder / "absent", names=["absent", "no such file"])
            self.refused(command, self.folder / "picture.png", names=["picture.png", "not a vramshim trace"])
            self.refused(command, self.folder / "empty.vst", names=["empty"])
            self.refused(command, self.folder / "short.vst", names=["short.vst"])
            self.refused(command, self.folder / "pipe", names=["pipe", "not a vramshim trace"])
            self.refused(command, self.folder / "nothing", names=["no process of this run touched a GPU"])
            self.refused(command, "/proc/self/mem", names=["/proc/self/mem"])

    def test_one_bad_trace_among_good_ones(self):
        self.trace(name="a.vst")
        (self.run_folder / "b.vst").write_bytes(b"nothing like it" * 1000)
        done = run("report", self.run_folder, "--json")
        self.assertEqual(len(json.loads(done.stdout)["processes"]), 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("b.vst", done.stderr)

    def test_cut_anywhere(self):
        """Never a crash, a hang or invalid JSON; what is there is shown."""
        path, _ = self.trace()
        data = path.read_bytes()
        cut = self.run_folder / "cut.vst"
        last = 0
        for size in [*range(0, 300, 7), *range(300, len(data), max(1, len(data) // 60)), len(data) - 1]:
            cut.write_bytes(data[:size])
            for command in ("report", "dump"):
                done = subprocess.run([VRAMREPORT, command, "--json", cut], capture_output=True, timeout=60)
                self.assertIn(done.returncode, (0, 2), f"{command} cut at {size}: {done.stderr}")
                self.assertEqual(len(done.stderr.splitlines()), 0 if done.returncode == 0 else 1)
                if done.returncode == 0 and command == "dump":
                    (process,) = json.loads(done.stdout)["processes"]
                    self.assertGreaterEqual(len(process["events"]), last)
                    last = len(process["events"])
                elif done.returncode == 0:
                    json.loads(done.stdout)
        self.assertGreater(last, 0)

    def test_bad_config(self):
        path, _ = self.trace()

        def config(text):
            (self.folder / "config.json").write_text(text)
            return ("report", path, "--batch", 1, "--seq", 8, "--config", self.folder / "config.json")

        self.refused("report", path, "--batch", 1, "--seq", 8, "--config", self.folder / "none.json", names=["none.json"])
        self.refused("report", path, "--batch", 1, "--seq", 8, "--config", self.folder, names=["not a file"])
        self.refused("report", path, "--config", self.folder / "none.json", names=["--batch"])
        self.refused(*config(""), names=["not a JSON object"])
        self.refused(*config("[1]"), names=["not a JSON object"])
        self.refused(*config("[" * 1000000), names=["not a JSON object"])
        self.refused(*config("{}"), names=["num_hidden_layers"])
        self.refused(*config('{"n_layer": "12", "n_embd": 8, "n_head": 2}'), names=["num_hidden_layers"])
        self.refused(*config('{"n_layer": 12, "n_embd": -8, "n_head": 2}'), names=["hidden_size"])
        self.refused(*config('{"n_layer": 12, "n_embd": 8, "n_head": 1e400}'), names=["config.json"])
        self.refused(*config('{"n_layer": 12}' + " " * (5 << 20)), names=["too large"])


class Report(Case):
    def test_json(self):
        _, peak = self.trace()
        report = self.json("report", self.run_folder)
        self.assertEqual(report, self.json(self.run_folder))
        self.assertEqual(report["schema"], "vramshim/report/1")
        self.assertEqual(report["run"]["command"], ["python", 'train "it",\x1b[31m now.py'])
        self.assertRegex(report["run"]["started"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        (process,) = report["processes"]
        self.assertEqual((process["rank"], process["host"], process["exit"]), (0, "somewhere", "clean"))
        (device,) = process["devices"]
        self.assertEqual(device["total_bytes"], 1 << 30)
        self.assertEqual(device["max"]["allocated_bytes"], peak)
        self.assertEqual(device["peak"]["allocated_bytes"], peak)
        self.assertEqual(sum(device["peak"]["tags"].values()), peak)
        self.assertEqual(len(device["peak"]["tags"]), 10)
        self.assertEqual(device["events"]["lost"], 0)
        self.assertEqual(device["events"]["mismatches"], 0)
        self.assertEqual(device["outside_pytorch"]["context_source"], "assumed")
        self.assertEqual(device["outside_pytorch"]["context_bytes"], 100 << 20)

    def test_endings(self):
        for scenario, end, words in (
            ("killed", "killed", "No end was recorded"),
            ("oom", "oom", "Out of memory"),
            ("clean", "clean", "ended in order"),
        ):
            path, _ = self.trace(scenario, f"{scenario}.vst")
            self.assertEqual(self.json(path)["processes"][0]["exit"], end)
            self.assertIn(words, run(path).stdout)
        (oom,) = self.json(self.run_folder / "oom.vst")["processes"][0]["devices"][0]["oom"]
        self.assertEqual(oom["requested_bytes"], 2 << 30)
        self.assertIn("2.00 GiB were asked for", run(self.run_folder / "oom.vst").stdout)

    def words(self, scenario, *arguments):
        """The report as one line: where its lines break does not matter."""
        path, _ = self.trace(scenario, f"{scenario}{len(arguments)}.vst")
        return " ".join(run(path, *arguments).stdout.split())

    def test_who_ran_out_of_memory(self):
        before, after = self.words("oom").split("Peak allocated", 1)
        self.assertIn("LlamaMLP.forward modeling_llama.py", before)
        self.assertIn("and a largest free piece of 4.00 MiB, and ", before)
        (oom,) = self.json(self.run_folder)["processes"][0]["devices"][0]["oom"]
        self.assertEqual((oom["stack"], oom["largest_free_bytes"]), (2, 4 << 20))

    def test_what_the_paper_takes_for_granted(self):
        self.assertNotIn("The paper takes it", self.words("clean"))
        self.assertIn("the optimizer never held more than 8.00 MiB: frozen weights", self.words("frozen"))
        text = self.words("inference")
        self.assertIn("no whole optimizer step was seen", text)
        self.assertIn("ended in order. No optimizer step was seen", text)
        self.assertIn("which its total lacks", text)
        shape = ("--layers", 2, "--hidden", 64, "--heads", 4, "--batch", 1, "--seq", 5)
        self.assertNotIn("which its total lacks", self.words("inference", *shape))

    def test_without_pytorch(self):
        text = self.words("cuda")
        self.assertIn("PyTorch's caching allocator gave out nothing here; at most 148.00 MiB were in use", text)
        self.assertNotIn("optimizer step", text)
        self.assertNotIn("estimate", text)
        (device,) = self.json(self.run_folder)["processes"][0]["devices"]
        self.assertEqual(device["outside_pytorch"]["by_library"], {"other": 48 << 20})

    def test_segments_that_do_not_add_up(self):
        self.assertIn("in whole segments", self.words("clean"))
        text = self.words("unattributed")
        self.assertNotIn("empty_cache", text)
        self.assertIn("do not add up", text)
        self.assertIn("others 48.00 MiB", text)
        (device,) = self.json(self.run_folder / "unattributed0.vst")["processes"][0]["devices"]
        self.assertIsNone(device["fragmentation"]["releasable_bytes"])
        outside = device["outside_pytorch"]
        self.assertEqual(
            device["max"]["device_bytes"],
            device["max"]["reserved_bytes"]
            + outside["context_bytes"]
            + sum(outside["by_library"].values())
            + outside["rounding_bytes"],
        )

    def test_while_it_runs(self):
        path = self.run_folder / "running.vst"
        job = subprocess.Popen([MAKE_TRACE, path, "running"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with job:
            peak = int(job.stdout.readline())
            report = self.json(self.run_folder)["processes"][0]
            self.assertEqual(report["exit"], "running")
            self.assertEqual(report["devices"][0]["max"]["allocated_bytes"], peak)
            self.assertIn("still running", run(path).stdout)
        self.assertEqual(self.json(path)["processes"][0]["exit"], "killed")

    def test_lost_events(self):
        path, peak = self.trace("capped")
        device = self.json(path)["processes"][0]["devices"][0]
        self.assertGreater(device["events"]["lost"], 0)
        self.assertEqual(device["max"]["allocated_bytes"], peak)
        self.assertIn("Incomplete: ", run(path).stdout)
        self.assertIn("after 3 recorded optimizer steps", " ".join(run(path).stdout.split()))

    def test_estimate(self):
        path, _ = self.trace()
        arguments = ("report", path, "--params", 7000000000, "--param-bytes", 2)
        text = run(*arguments, COLUMNS="100").stdout
        for words in ("104.31 GiB", "112.00 GB", "measured - paper", "difference"):
            self.assertIn(words, text)
        for number in ("7e9", "7B", "7000M", "7b", "0.007T"):
            self.assertIn("7,000,000,000 parameters", run("report", path, "--params", number).stdout)
        for number in ("7Q", "inf", "nan", "0x7", "1e16", "7e", "0.5", "7BB"):
            self.refused("report", path, "--params", number, names=["--params"])
        (self.folder / "config.json").write_text(
            '{"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}'
        )
        by_hand = ("--layers", 32, "--hidden", 4096, "--heads", 32)
        for shape in (by_hand, ("--config", self.folder / "config.json")):
            text = run(*arguments, *shape, "--batch", 1, "--seq", 2048).stdout
            for words in ("159,383,552", "402,653,184", "1.12 GB", "33.50 GiB"):
                self.assertIn(words, text)
        rows = self.json(*arguments, *by_hand, "--batch", 1, "--seq", 2048)["processes"][0]["devices"][0]["estimate"]["rows"]
        paper = {row["category"]: row["paper_bytes"] for row in rows}
        self.assertEqual(paper["fixed"], 112000000000)
        self.assertEqual(paper["activations"], 32 * 2 * (159383552 + 402653184))
        self.assertEqual(paper["total"], paper["fixed"] + paper["activations"])
        measured = {row["category"]: row["measured_bytes"] for row in rows}
        self.assertEqual(measured["total"], measured["fixed"] + measured["activations"] + measured["other"])
        checkpointing = self.json(*arguments, *by_hand, "--batch", 1, "--seq", 2048, "--checkpointing")
        rows = checkpointing["processes"][0]["devices"][0]["estimate"]["rows"]
        self.assertIn(2 * (159383552 + 402653184), [row["paper_bytes"] for row in rows])

    def test_several_processes(self):
        for i in range(3):
            self.trace("oom" if i == 1 else "clean", f"host-{i}.vst")
        text = run(self.run_folder).stdout
        self.assertIn("3 processes", text)
        self.assertIn("Out of memory", text)
        self.assertEqual(text.count("What the peak consists of"), 1)
        self.assertEqual(run(self.run_folder, "--all").stdout.count("What the peak consists of"), 3)
        self.assertEqual(len(self.json(self.run_folder)["processes"]), 3)

    def test_screen(self):
        path, _ = self.trace()
        for width in (80, 140):
            for line in run(path, COLUMNS=str(width)).stdout.splitlines():
                self.assertLessEqual(len(line), width, line)
        plain = run(path, LC_ALL="C").stdout
        self.assertTrue(plain.isascii())
        for scenario in ("clean", "killed"):
            self.assertNotIn("\x1b", run(self.trace(scenario, "x.vst" + scenario + ".vst")[0]).stdout)

    def test_color_on_a_terminal(self):
        path, _ = self.trace()

        def terminal(**variables):
            ours, theirs = pty.openpty()
            environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **variables}
            subprocess.run([VRAMREPORT, path], stdout=theirs, check=True, env=environment)
            os.close(theirs)
            output = b""
            try:
                while piece := os.read(ours, 65536):
                    output += piece
            except OSError:  # the other end is closed and all is read
                pass
            os.close(ours)
            return output

        os.environ.pop("NO_COLOR", None)
        self.assertIn(b"\x1b[1m", terminal())
        self.assertNotIn(b"\x1b", terminal(NO_COLOR="1"))
        self.assertNotIn(b"\x1b", terminal(TERM="dumb"))


class Blocks(Case):
    def rows(self, *arguments):
        return list(csv.DictReader(io.StringIO(run("blocks", self.run_folder, "--csv", *arguments).stdout)))

    def test_csv(self):
        _, peak = self.trace()
        self.assertEqual(
            run("blocks", self.run_folder, "--csv").stdout.splitlines()[0],
            "process,device,address,size,tag,detail,phase,step,stack",
        )
        rows = self.rows()
        self.assertEqual(sum(int(row["size"]) for row in rows), peak)
        self.assertEqual(rows, self.rows("--at", "peak"))
        self.assertTrue(all(row["address"].startswith("0x7f") for row in rows))
        self.assertEqual([int(row["size"]) for row in self.rows("--at", "built")], [32 << 20] * 4)
        self.assertEqual(sum(int(row["size"]) for row in self.rows("--at", "end")), 12 * 32 << 20)
        # What PyTorch's allocator has its blocks from: as much as it has reserved.
        segments = self.rows("--cuda")
        reserved = self.json("report", self.run_folder)["processes"][0]["devices"][0]["peak"]["reserved_bytes"]
        self.assertEqual(sum(int(row["size"]) for row in segments), reserved)
        self.assertEqual({(row["detail"], row["phase"]) for row in segments}, {("device", "")})

    def test_json(self):
        _, peak = self.trace()
        blocks = self.json("blocks", self.run_folder)
        self.assertEqual(blocks["schema"], "vramshim/blocks/1")
        listed = blocks["processes"][0]["devices"][0]["blocks"]
        self.assertEqual(sum(block["size"] for block in listed), peak)

    def test_text(self):
        self.trace()
        text = run("blocks", self.run_folder, "--at", "built").stdout
        self.assertIn("4 blocks, 128.00 MiB", text)

    def test_out_of_memory(self):
        self.trace("oom", "oom.vst")
        self.assertEqual(sum(int(row["size"]) for row in self.rows("--at", "oom")), (12 * 32 + 16) << 20)
        path, _ = self.trace("clean", "clean.vst")
        for form in ((), ("--csv",), ("--json",)):
            self.refused("blocks", path, "--at", "oom", *form, names=["did not run out of memory"])

    def test_marks(self):
        self.trace()
        self.refused("blocks", self.run_folder, "--at", "nowhere", names=["nowhere", "built", "step, done"])
        self.assertEqual(len(self.rows("--at", "step, done")), 12)

    def test_cut(self):
        """By what was known then: the same blocks, and no word of what came after."""
        self.trace()
        for at in ("peak", "end", "built"):
            whole, cut = self.rows("--at", at), self.rows("--at", at, "--cut")
            self.assertEqual([row["address"] for row in cut], [row["address"] for row in whole], at)
        last = max(self.rows("--at", "peak"), key=lambda row: int(row["stack"]))
        explained = run("blocks", self.run_folder, "--cut", "--at", "peak", "--explain", last["address"]).stdout
        self.assertIn("never freed", explained)

    def test_explain(self):
        self.trace()
        row = self.rows("--at", "built")[0]
        inside = hex(int(row["address"], 16) + int(row["size"]) - 1)
        for address in (row["address"], inside):
            text = run("blocks", self.run_folder, "--at", "built", "--explain", address).stdout
            self.assertIn(f"{row['address']}, 32.00 MiB: weights", text)
            self.assertIn("torch/nn/modules/", text)
            self.assertIn("verdict      made where models are built", text)
            self.assertIn("Linear.__init__", text)
            head = text[: text.index("\n  stack ")].splitlines()[1:]
            for line in head:  # labels on the left, all else in one column
                self.assertLessEqual(len(line), 100, line)
                self.assertRegex(line, r"^  (stack rules|life       |verdict    |           )  \S")
        for wrong in ("0", "-5", "weights", "0x", ""):
            self.refused("blocks", self.run_folder, "--explain", wrong, names=["--explain", "address"])
        self.refused("blocks", self.run_folder, "--explain", "0x1000", names=["0x1000", "no block"])
        self.refused("blocks", self.run_folder, "--explain", "0x1000", "--csv", names=["choose one"])


class Stacks(Case):
    def test_stacks(self):
        path, _ = self.trace()
        stacks = self.json("stacks", path)["processes"][0]["stacks"]
        self.assertEqual(len(self.json("stacks", path, "--top", 1)["processes"][0]["stacks"]), 1)
        functions = {frame["function"] for stack in stacks for frame in stack["frames"]}
        self.assertIn("LlamaMLP.forward", functions)
        one = self.json("stacks", path, "--id", stacks[0]["id"])["processes"][0]["stacks"]
        self.assertEqual(one[0]["frames"], stacks[0]["frames"])
        text = run("stacks", path, "--id", stacks[0]["id"], COLUMNS="120").stdout
        self.assertIn("/home/me/train.py:", text)


class Dump(Case):
    def test_dump(self):
        path, _ = self.trace()
        dump = self.json("dump", path)
        (process,) = dump["processes"]
        text = run("dump", path).stdout.splitlines()
        self.assertEqual(sum(line.startswith("event ") for line in text), len(process["events"]))
        self.assertEqual(sum(line.startswith("fact ") for line in text), len(process["facts"]))
        self.assertEqual(sum(line.startswith("stack ") for line in text), 4)
        self.assertIn('fact command:1 = train "it",\\x1b[31m now.py', text)
        self.assertEqual(process["events"][-1]["type"], "exit")
        sequences = [event["sequence"] for event in process["events"]]
        self.assertEqual(sequences, sorted(set(sequences)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
