# SPDX-License-Identifier: MIT
"""The recorder itself under a sanitizer: scenarios of host/, both instrumented, with the sanitizer's runtime in front.

SANITIZER is "address" or "thread". In a build folder with the matching -Db_sanitize; meson runs it there.
"""

import os
import re
import subprocess

from recorder import TOOLS, SHIM, Run, run_all

THREAD = "thread" in os.environ["SANITIZER"]
RUNTIME = "libtsan.so.2" if THREAD else "libasan.so.8"
HOST = TOOLS + "/host/host"
SCENARIOS = ["race", "storm", "thread-locals", "exit-inside", "fork-nested", "fork-atexit", "alarms", "interruptions",
             "jump-inside", "loading-in-threads", "allocating-constructors", "first-events-under-lock", "threads-at-the-end", "exit-in-thread"]
# Their signal handlers' jumps are no business of AddressSanitizer's, which marks the stack; and it takes much of that.
THREAD_ONLY = ["jumps", "small-stacks"]

OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=0 report_signal_unsafe=0",
    # Memory that is kept until the end is what the recorder is made of; the loader and the mocks have theirs.
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:handle_segv=0",
    "UBSAN_OPTIONS": "halt_on_error=0:print_stacktrace=1",
    **({"HOST_ROUNDS": "2"} if THREAD else {}),
}


def runtime():
    """The sanitizer's library that the host program was linked with."""
    lines = subprocess.run(["ldd", HOST], stdout=subprocess.PIPE, check=True).stdout.decode()
    return re.search(r"%s => (\S+)" % re.escape(RUNTIME), lines).group(1)


def test_clean():
    library = runtime()
    for name in SCENARIOS + (THREAD_ONLY if THREAD else []):
        # A lock of ThreadSanitizer's own allocator may be held for ever in a forked child: nothing may be loaded there.
        level = {"VRAMSHIM_LEVEL": "light"} if THREAD and name.startswith("fork-") else {}
        run = Run([HOST, name], shim=False, preload=[library, SHIM], env=OPTIONS | level, timeout=100, read=lambda run: False)
        wanted = 15 if name == "exit-in-thread" else 0
        assert run.status == wanted and run.stderr == b"", (name, run.status, run.stderr.decode()[:6000])


run_all(globals())
