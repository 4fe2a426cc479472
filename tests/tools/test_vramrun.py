# SPDX-License-Identifier: MIT
"""vramrun's command line: test_vramrun.py VRAMRUN LIBRARY... The libraries are those it puts into a job."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

VRAMRUN, *LIBRARIES = map(os.path.abspath, sys.argv[1:])
NAMES = {"LD_PRELOAD", "LD_LIBRARY_PATH"}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vramrun-"))
        self.program = VRAMRUN

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_it(self, *arguments, status=0, **variables):
        environment = {name: value for name, value in os.environ.items() if name not in NAMES}
        environment.update(variables)
        done = subprocess.run(
            [self.program, *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd=self.folder, env=environment
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def refused(self, *arguments, names=()):
        done = self.run_it(*arguments, status=125)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for name in ("vramrun: ", *names):
            self.assertIn(name, done.stderr)
        return done

    def environment(self, *arguments, **variables):
        """What the job sees."""
        lines = self.run_it(*arguments, "-o", self.folder / "run", "env", "-0", **variables).stdout.split("\0")
        return dict(line.split("=", 1) for line in lines if line)


class Usage(Case):
    def test_refuses(self):
        self.refused(names=["no command", "--help"])
        self.refused("--", names=["no command"])
        self.refused("--nonsense", "true", names=["--nonsense"])
        self.refused("-o", names=["-o", "value"])
        self.refused("-o", "", "true", names=["folder"])
        self.refused("-o", "x" * 5000, "true", names=["folder"])
        self.refused("--simulate", "voodoo2", "true", names=["voodoo2", "T4", "A100-80", "H200"])
        for count in ("0", "17", "-1", "x", "", "1x", "99999999999999999999"):
            self.refused("--simulate", f"t4:{count}", "true", names=["number of GPUs"])
        for option in ("--gpu-memory", "--max-size"):
            for size in ("", "x", "-1G", "0", "24Q", "99999999999G"):
                self.refused("--simulate", "t4", f"{option}={size}", "true", names=[option])
        self.refused("--gpu-memory", "24G", "true", names=["--simulate"])
        self.refused("--level", "loud", "true", names=["full or light"])
        self.refused("--print-env", "true", names=["runs no command"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_help(self):
        self.assertIn("Usage: vramrun", self.run_it("--help").stdout)
        self.assertIn("vramrun 0.", self.run_it("--version").stdout)
        listed = self.run_it("--list-gpus").stdout
        for gpu in ("T4", "V100-16", "V100-32", "A10G", "L4", "RTX3090", "RTX4090", "RTX5090", "A100-40", "A100-80",
                    "H100-80", "H200", "B200"):
            self.assertIn(f"\n{gpu} ", listed)


class Environment(Case):
    def test_plain(self):
        seen = self.environment()
        self.assertEqual(seen["LD_PRELOAD"], str(pathlib.Path(LIBRARIES[0]).resolve()))
        self.assertEqual(seen["VRAMSHIM_OUT"], str(self.folder / "run"))
        self.assertEqual(seen["VRAMSHIM_LEVEL"], "full")
        self.assertFalse([name for name in seen if name.startswith("VRAMSIM") or name == "VRAMSHIM_MAX_SIZE"])

    def test_simulation(self):
        seen = self.environment("--simulate", "A100 80:2", "--gpu-memory", "24GiB", "--level=light", "--max-size", "2MB",
                                LD_PRELOAD="libc.so.6", LD_LIBRARY_PATH="/opt/lib")
        preload = seen["LD_PRELOAD"].split(":")
        self.assertEqual(preload[-1], "libc.so.6")
        self.assertEqual(
            [os.path.basename(path) for path in preload[:-1]],
            ["libvramshim.so", "libvramsim.so", "libcuda.so.1", "libnvidia-ml.so.1"],
        )
        for path in preload[:-1]:
            self.assertTrue(os.path.isabs(path) and os.path.exists(path), path)
        self.assertEqual(seen["LD_LIBRARY_PATH"], f"{os.path.dirname(preload[1])}:/opt/lib")
        self.assertEqual(seen["VRAMSIM_GPU"], "a100-80")
        self.assertEqual(seen["VRAMSIM_COUNT"], "2")
        self.assertEqual(seen["VRAMSIM_MEMORY"], str(24 << 30))
        self.assertEqual(seen["VRAMSHIM_LEVEL"], "light")
        self.assertEqual(seen["VRAMSHIM_MAX_SIZE"], "2000000")

    def test_sanitizers_first(self):
        """They end a program in which anything comes before them. (The loader ignores what is not there.)"""
        ours = str(pathlib.Path(LIBRARIES[0]).resolve())
        for before, expected in (
            ("/nowhere/libasan.so.8", f"/nowhere/libasan.so.8:{ours}"),
            ("/nowhere/libasan.so.8 libnotsan.so:libc.so.6", f"/nowhere/libasan.so.8 {ours}:libnotsan.so:libc.so.6"),
            ("/a/libtsan.so.2:/a/libclang_rt.asan-x86_64.so", f"/a/libtsan.so.2:/a/libclang_rt.asan-x86_64.so:{ours}"),
            ("libc.so.6:/nowhere/libasan.so.8", f"{ours}:libc.so.6:/nowhere/libasan.so.8"),
            ("/libasan.d/libc.so.6", f"{ours}:/libasan.d/libc.so.6"),
        ):
            self.assertEqual(self.environment("--force", LD_PRELOAD=before)["LD_PRELOAD"], expected)

    def test_nested(self):
        inner = self.run_it("-o", "a", self.program, "-o", "b", "env").stdout.splitlines()
        self.assertIn(f"VRAMSHIM_OUT={self.folder}/b", inner)
        preload = [line for line in inner if line.startswith("LD_PRELOAD=")]
        self.assertEqual(preload[0].count("libvramshim.so"), 1)

    def test_print_env(self):
        folder = "it's $(here)"
        script = f'eval "$({shlex.quote(self.program)} --print-env -o {shlex.quote(folder)})"; env'
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertIn(f"VRAMSHIM_OUT={self.folder}/{folder}\n", done.stdout)
        self.assertIn("libvramshim.so", done.stdout)
        self.assertTrue((self.folder / folder).is_dir())

    def test_installed_under_a_path_with_a_space(self):
        """LD_PRELOAD splits at spaces: the libraries are found by name then."""
        tools, libraries = self.folder / "my tree/bin", self.folder / "my tree/lib/vramshim"
        tools.mkdir(parents=True)
        libraries.mkdir(parents=True)
        self.program = str(shutil.copy(VRAMRUN, tools))
        for library in LIBRARIES:
            shutil.copy(library, libraries)
        seen = self.environment()
        self.assertEqual(seen["LD_PRELOAD"], "libvramshim.so")
        self.assertEqual(seen["LD_LIBRARY_PATH"], str(libraries))
        shutil.rmtree(libraries)
        self.refused("-o", "none", "true", names=["libvramshim.so", "not found"])
        self.assertFalse((self.folder / "none").exists())
        (self.folder / "a:b").mkdir()
        self.program = str(shutil.copy(VRAMRUN, self.folder / "a:b"))
        (self.folder / "lib/vramshim").mkdir(parents=True)
        shutil.copy(LIBRARIES[0], self.folder / "lib/vramshim")
        self.assertNotIn(":", self.environment()["LD_PRELOAD"])  # resolved: not the part with the colon


class Folder(Case):
    def test_default(self):
        first = self.run_it("sh", "-c", "echo $VRAMSHIM_OUT")
        second = self.run_it("sh", "-c", "echo $VRAMSHIM_OUT")
        self.assertRegex(os.path.basename(first.stdout.strip()), r"^vramshim-\d{8}-\d{6}$")
        self.assertNotEqual(first.stdout, second.stdout)
        self.assertIn(first.stdout.strip(), first.stderr)

    def test_made_and_refused(self):
        self.run_it("-o", "a/b/c/", "true")
        self.assertTrue((self.folder / "a/b/c").is_dir())
        self.run_it("-o", "a/b/c", "true")  # empty: may be used
        self.refused("-o", "a", "true", names=["not empty", "--force"])
        self.run_it("--force", "-o", "a", "true")
        self.assertTrue((self.folder / "a/b/c").is_dir())
        (self.folder / "file").write_text("")
        self.refused("-o", "file", "true", names=["file", "not a folder"])
        self.refused("-o", "file/run", "true", names=["file/run"])
        self.refused("-o", "/proc/vramshim", "true", names=["/proc/vramshim"])

    def test_unwritable(self):
        self.folder.chmod(0o755)
        (self.folder / "locked").mkdir(mode=0o555)
        program = shutil.copy(VRAMRUN, self.folder)
        who = {"user": 65534} if os.getuid() == 0 else {}  # root writes everywhere
        for run, words in (("locked", "cannot be written"), ("locked/run", "cannot create the folder locked/run")):
            done = subprocess.run([program, "-o", run, "true"], cwd=self.folder, capture_output=True, text=True, **who)
            self.assertEqual(done.returncode, 125)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(words, done.stderr)

    def test_nothing_is_left_of_what_never_ran(self):
        script = self.folder / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        self.refused("-o", "run", "no-such-command", names=["no-such-command", "not found"])
        self.refused("-o", "run", "./no-such-command", names=["not found"])
        self.refused("-o", "run", "/etc/passwd", names=["/etc/passwd", "executable"])
        self.refused("-o", "run", "/etc", names=["/etc", "executable"])
        self.refused("-o", "run", "", names=["not found"])
        self.refused("-o", "run", script, names=["interpreter"])
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["script"])


class Command(Case):
    def test_arguments_and_status(self):
        done = self.run_it("-o", "a", "sh", "-c", 'printf "%s|" "$@"; echo err >&2; exit 42', "x", "-o", "a b", "", status=42)
        self.assertEqual(done.stdout, "-o|a b||")
        self.assertEqual(done.stderr, "err\n")
        self.run_it("-o", "b", "--", "sh", "-c", "exit 125", status=125)
        self.run_it("-o", "c", "sh", "-c", "kill -TERM $$", status=-signal.SIGTERM)

    def test_signals_reach_it(self):
        job = subprocess.Popen([VRAMRUN, "-o", "run", "sleep", "60"], cwd=self.folder, stderr=subprocess.DEVNULL)
        while "sleep" not in pathlib.Path(f"/proc/{job.pid}/cmdline").read_text().split("\0")[0]:
            time.sleep(0.01)
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(timeout=60), -signal.SIGINT)

    def program_from(self, source, *flags):
        (self.folder / "program.c").write_text(source)
        built = subprocess.run(["cc", *flags, "-o", "program", "program.c"], cwd=self.folder, capture_output=True)
        if built.returncode:
            self.skipTest(f"cannot link with {flags}")
        return self.folder / "program"

    def test_static(self):
        program = self.program_from("int main(void) { return 7; }", "-static")
        done = self.run_it("-o", "a", program, status=7)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("statically linked", done.stderr)
        script = self.folder / "script"
        script.write_text(f"#!{program}\n")
        script.chmod(0o755)
        self.assertIn("statically linked", self.run_it("-o", "b", script, status=7).stderr)

    def test_dynamic_is_silent(self):
        program = self.program_from("int main(void) { return 7; }")
        self.assertEqual(self.run_it("-o", "a", program, status=7).stderr, "")
        script = self.folder / "script"
        script.write_text("#!/bin/sh\nexit 7\n")
        script.chmod(0o755)
        self.assertEqual(self.run_it("-o", "b", script, status=7).stderr, "")

    def test_other_class(self):
        """A 32-bit program cannot be built everywhere; its header can."""
        program = bytearray(self.program_from("int main(void) { return 7; }").read_bytes())
        program[4] = 1  # ELFCLASS32
        (self.folder / "small").write_bytes(program)
        (self.folder / "small").chmod(0o755)
        done = subprocess.run([VRAMRUN, "-o", "run", "./small"], cwd=self.folder, capture_output=True, text=True)
        self.assertIn("not a 64-bit x86 program", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
