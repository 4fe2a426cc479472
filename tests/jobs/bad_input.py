# SPDX-License-Identifier: MIT
"""What a user can get wrong, end to end: bad_input.py --build BUILD [--counts FILE]. One clear line on stderr, the right
exit status, and the command never harmed. Needs no PyTorch."""
import argparse
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib


class Wrong(Exception):
    pass


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, **options)


def expect(done, status, stdout="", lines=(), contains=()):
    """lines: how many lines stderr may have; contains: what the message must name."""
    if done.returncode != status:
        raise Wrong(f"exit status {done.returncode}, expected {status}; stderr: {done.stderr!r}")
    if stdout is not None and done.stdout != stdout:
        raise Wrong(f"stdout {done.stdout!r}, expected {stdout!r}")
    if len(done.stderr.splitlines()) not in lines:
        raise Wrong(f"stderr has {len(done.stderr.splitlines())} lines, expected {list(lines)}: {done.stderr!r}")
    for word in contains:
        if word not in done.stderr:
            raise Wrong(f"stderr does not name {word!r}: {done.stderr!r}")


NONE, ONE = [0], [1]


class Launcher:
    """vramrun: 125 when nothing was started, else the command's own status."""

    def __init__(self, build, folder):
        self.vramrun, self.folder = build / "tools/vramrun", folder

    def no_command(self):
        expect(run(self.vramrun), 125, lines=ONE, contains=["vramrun"])

    def unknown_option(self):
        expect(run(self.vramrun, "--nonsense", "true"), 125, lines=ONE, contains=["--nonsense"])

    def unknown_gpu(self):
        done = run(self.vramrun, "-o", self.folder / "gpu", "--simulate", "Voodoo2", "true")
        expect(done, 125, lines=ONE, contains=["Voodoo2", "T4", "H100-80"])
        if (self.folder / "gpu").exists():
            raise Wrong("a RUN was made for a command that never ran")

    def unknown_command(self):
        done = run(self.vramrun, "-o", self.folder / "none", "no-such-command-anywhere")
        expect(done, 125, lines=ONE, contains=["no-such-command-anywhere"])

    def existing_run(self):
        existing = self.folder / "existing"
        existing.mkdir()
        (existing / "precious").write_text("precious")
        expect(run(self.vramrun, "-o", existing, "true"), 125, lines=ONE, contains=["existing", "--force"])
        if [entry.name for entry in existing.iterdir()] != ["precious"]:
            raise Wrong("the refused RUN was changed")
        expect(run(self.vramrun, "--force", "-o", existing, "true"), 0, lines=NONE)

    def unwritable_run(self):
        (self.folder / "file").write_text("")
        done = run(self.vramrun, "-o", self.folder / "file" / "run", "true")
        expect(done, 125, lines=ONE, contains=["file/run"])

    def not_python(self):
        done = run(self.vramrun, "-o", self.folder / "echo", "sh", "-c", "echo hello; exit 3")
        expect(done, 3, stdout="hello\n", lines=NONE)
        if list((self.folder / "echo").glob("*.vst")):
            raise Wrong("a process that touched no GPU left a trace")

    def killed(self):
        done = run(self.vramrun, "-o", self.folder / "killed", "sh", "-c", "kill -9 $$")
        expect(done, -9, lines=NONE)

    def standard_input(self):
        done = run(self.vramrun, "-o", self.folder / "cat", "cat", input="through\n")
        expect(done, 0, stdout="through\n", lines=NONE)

    def static_program(self):
        source, program = self.folder / "static.c", self.folder / "static"
        source.write_text('#include <stdio.h>\nint main(void) { puts("static"); return 5; }\n')
        if run("cc", "-static", "-o", program, source).returncode:
            raise Wrong("cannot link a static program here")
        done = run(self.vramrun, "-o", self.folder / "static-run", program)
        expect(done, 5, stdout="static\n", lines=ONE, contains=["static"])


class Report:
    """vramreport: 2 and one line for anything that is no trace."""

    def __init__(self, build, folder):
        self.vramreport, self.folder = build / "tools/vramreport", folder

    def refused(self, path, *words):
        for command in ([], ["report", "--json"], ["blocks", "--at", "peak"], ["stacks"], ["dump"]):
            done = run(self.vramreport, *command, path)
            try:
                expect(done, 2, lines=ONE, contains=["vramreport", *words])
            except Wrong as wrong:
                raise Wrong(f"{' '.join(command)}: {wrong}") from None

    def no_argument(self):
        done = run(self.vramreport)
        if done.returncode != 2 or not done.stderr or done.stdout:
            raise Wrong(f"exit status {done.returncode}, stdout {done.stdout!r}, stderr {done.stderr!r}")

    def unknown_subcommand(self):
        done = run(self.vramreport, "nonsense", self.folder)
        expect(done, 2, lines=ONE, contains=["nonsense"])

    def missing(self):
        self.refused(self.folder / "not-there", "not-there")

    def empty_folder(self):
        (self.folder / "nothing").mkdir()
        self.refused(self.folder / "nothing", "nothing")

    def empty_file(self):
        (self.folder / "empty.vst").write_bytes(b"")
        self.refused(self.folder / "empty.vst", "empty.vst")

    def png(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
        image += chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
        (self.folder / "picture.vst").write_bytes(image)
        self.refused(self.folder / "picture.vst", "picture.vst")

    def noise(self):
        (self.folder / "noise.vst").write_bytes(bytes((i * 7919 + (i >> 3)) & 255 for i in range(100_000)))
        self.refused(self.folder / "noise.vst", "noise.vst")


def tests(kind):
    return [name for name in vars(kind) if not name.startswith("_") and name != "refused"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--counts", type=pathlib.Path)
    options = parser.parse_args()
    os.environ.pop("LD_PRELOAD", None)
    passed = failed = 0
    for kind in (Launcher, Report):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="vramshim-bad-input-"))
        subject = kind(options.build.resolve(), folder)
        for name in tests(kind):
            try:
                getattr(subject, name)()
                passed += 1
            except (Wrong, OSError, subprocess.TimeoutExpired) as problem:
                failed += 1
                print(f"FAIL {kind.__name__}.{name}: {problem}")
        shutil.rmtree(folder)
    if options.counts:
        options.counts.write_text(f"{passed} {failed} 0\n")
    print(f"bad input: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
