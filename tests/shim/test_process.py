# SPDX-License-Identifier: MIT
"""The recorder in processes of all kinds: it is never in the way, and each process has its own trace."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from recorder import MARK, SHIM, TOOLS, TORCH_ALLOC, TORCH_FREE, Run, interpreters, run_all

JOB = TOOLS + "/job.so"
LOAD = "import ctypes, os, sys; job = ctypes.CDLL(%r); report = job.job_report; report.argtypes = [ctypes.c_uint64, ctypes.c_int64]\n" % JOB


def python(code, **options):
    return Run([sys.executable, "-c", LOAD + code], **options)


def test_silent_where_there_is_no_gpu():
    for command in (["/bin/sh", "-c", "echo out; echo err >&2; exit 7"], ["/bin/true"], [sys.executable, "-c", "print(1)"]):
        plain, shimmed = Run(command, shim=False), Run(command)
        assert (plain.status, plain.stdout, plain.stderr) == (shimmed.status, shimmed.stdout, shimmed.stderr)
        assert shimmed.traces == []


def test_exit_status_and_output_are_the_jobs():
    for code in ("report(4096, 512); print('x' * 100000); sys.exit(3)", "report(4096, 512); os._exit(9)",
                 "report(4096, 512); os.abort()", "report(4096, 512); raise ValueError",
                 "report(4096, 512); os.execv('/bin/echo', ['echo', 'hello'])"):
        plain, shimmed = python(code, shim=False), python(code)
        assert (plain.status, plain.stdout, plain.stderr) == (shimmed.status, shimmed.stdout, shimmed.stderr), code
        assert len(shimmed.traces) == 1 and len(shimmed.traces[0].of(TORCH_ALLOC)) == 1


def test_clean_exit_is_known():
    assert python("report(4096, 512)").traces[0].info["clean"]
    assert not python("report(4096, 512); os._exit(0)").traces[0].info["clean"]


def test_fork():
    run = python("""
report(4096, 512)
pids = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        if i < 3:               # the last child touches no GPU
            for n in range(100 + i):
                report(4096 + i, 512)
        sys.exit(0)
    pids.append(pid)
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
report(8192, 512)
""")
    assert run.status == 0, run.stderr
    counts = sorted(len(trace.of(TORCH_ALLOC)) for trace in run.traces)
    assert counts == [2, 100, 101, 102], counts
    assert all(trace.info["clean"] and trace.info["lost"] == 0 for trace in run.traces)
    assert len({trace.facts["pid"] for trace in run.traces}) == 4
    # The child's stacks are in its own file; native ones are not taken there, and the trace says so.
    for trace in run.traces:
        event = trace.of(TORCH_ALLOC)[0]
        assert event["python"][0][1] == "<module>"
        if len(trace.of(TORCH_ALLOC)) == 2:
            assert event["native"][0][1].endswith("/job.so") and "native_stacks" not in trace.facts
        else:
            assert event["native"] == [] and "forked" in trace.facts["native_stacks"]


def test_fork_while_the_loader_is_locked():
    """glibc leaves the lock of dl_iterate_phdr() as it was: in the child, nobody will ever unlock it."""
    run = python("""
import signal
report(4096, 512)
job.job_hold_loader()
for i in range(3):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        report(4096, 512)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
os._exit(0)
""")
    assert run.status == 0 and len(run.traces) == 4, run.stderr


def test_threads_at_the_interpreters_end():
    """An interpreter frees the states of its daemon threads while they still report, from C and without the GIL."""
    for _, interpreter in interpreters(range(8, 14)):
        run = Run([interpreter, "-c", LOAD + """
import threading, time
class Late:
    def __del__(self, libc=ctypes.CDLL(None), sleep=time.sleep):
        libc.malloc.restype = ctypes.c_void_p
        for size in range(64, 2048, 16):        # where the states were, something else is now
            for i in range(8):
                libc.memset(ctypes.c_void_p(libc.malloc(size)), 255, size)
        sleep(0.1)
late = Late()
for i in range(4):
    threading.Thread(target=job.job_report_for_ever, daemon=True).start()
time.sleep(0.02)
"""], env={"VRAMSHIM_MAX_SIZE": "131072"})  # stacks are walked beyond it all the same
        assert run.status == 0 and run.stderr == b"", (interpreter, run.status, run.stderr)


def test_fork_before_the_first_event():
    """The usual way: workers are forked first, and each uses the GPU on its own. Nothing is missing then."""
    run = python("""
pids = []
for i in range(3):
    pid = os.fork()
    if pid == 0:
        report(4096, 512)
        sys.exit(0)
    pids.append(pid)
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
""")
    assert run.status == 0 and len(run.traces) == 3, run.stderr
    for trace in run.traces:
        event, = trace.of(TORCH_ALLOC)
        assert event["native"][0][1].endswith("/job.so") and event["python"]


def test_fork_storm_with_busy_threads():
    """A fork while other threads hold every lock there is."""
    run = python("""
import threading
stop = False
def busy(n):
    while not stop:
        exec(compile("report(%d, 512); report(%d, -512)" % (n, n), "<%d>" % n, "exec"), {"report": report})
        n += 16
threads = [threading.Thread(target=busy, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for i in range(30):
    pid = os.fork()
    if pid == 0:
        report(i, 512)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for thread in threads: thread.join()
""")
    assert run.status == 0, run.stderr
    children = [trace for trace in run.traces if not trace.info["clean"]]
    assert len(run.traces) == 31 and len(children) == 30
    assert all(len(trace.of(TORCH_ALLOC)) == 1 for trace in children)


def test_same_pid_twice():
    """A process that execs itself keeps its pid: its second trace has another name."""
    run = python("""
report(4096, 512)
if os.environ.get("SECOND") is None:
    os.environ["SECOND"] = "1"
    os.execv(sys.executable, [sys.executable, "-c", %r + "report(8192, 512)"])
""" % LOAD)
    assert run.status == 0, run.stderr
    assert len(run.traces) == 2
    first, second = (os.path.basename(trace.path) for trace in sorted(run.traces, key=lambda t: len(t.path)))
    assert second == first.replace(".vst", "-2.vst")


def test_killed():
    for rounds in range(5):
        run = python("""
import threading
def work():
    while True:
        for n in range(1000):
            report(n, 512)
threading.Thread(target=work, daemon=True).start()
for n in range(5000):
    report(n, 512)
print("going", flush=True)
for n in range(rounds := 10**9):
    report(n, -512)
""", kill_after=lambda process: process.kill())
        assert run.status == -signal.SIGKILL
        trace = run.traces[0]
        assert not trace.info["clean"]
        main = int(trace.facts["pid"])
        # All that was reported before the line was printed is there.
        assert len([e for e in trace.of(TORCH_ALLOC) if e["thread"] == main]) == 5000
        assert all(e["python"] and e["native"] for e in trace.of(TORCH_ALLOC, TORCH_FREE))


def test_unwritable():
    read_only = "/proc/self"  # nobody may make files there
    for folder in read_only, "/no/such/folder":
        run = python("report(4096, 512); report(4096, -512); print(job.job_torch()); sys.exit(5)", out=folder)
        assert run.status == 5 and run.stdout == b"0\n", (run.status, run.stdout)
        lines = run.stderr.decode().splitlines()
        assert len(lines) == 1 and lines[0].startswith("vramshim: ") and folder in lines[0], lines


def test_without_libunwind():
    """Where libunwind is missing, everything but native stacks is recorded, and the trace says so."""
    with tempfile.TemporaryDirectory() as folder:
        # A file of that name that is no library, found first.
        with open(folder + "/libunwind.so.8", "w") as file:
            file.write("not a library")
        run = python("report(4096, 512)", env={"LD_LIBRARY_PATH": folder})
    assert run.status == 0 and run.stderr == b"", run.stderr
    event, = run.traces[0].of(TORCH_ALLOC)
    assert event["native"] == [] and event["python"]
    assert "libunwind" in run.traces[0].facts["native_stacks"]


FORBID = """
import struct
program = b"".join(struct.pack("HBBI", *line) for line in
                   ((0x20, 0, 0, 0), (0x15, 0, 1, FORBIDDEN), (6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000)))
text = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter) == 0, ctypes.get_errno()
report(4096, 512)
"""


def test_sandbox_that_kills():
    """Reading another process's memory ends the process in some; it is not needed to read one's own with care."""
    if os.uname().machine != "x86_64":
        print("the call's number is another one here: not tried")
        return
    run = python(FORBID.replace("FORBIDDEN", "310"))  # process_vm_readv
    assert run.status == 0 and run.stderr == b"", (run.status, run.stderr)
    event, = run.traces[0].of(TORCH_ALLOC)
    assert event["python"] and event["native"]


def test_library_with_a_note_that_is_not_mapped():
    """A build id where the program header leads to nothing: the loader never looks there, nor may we."""
    with open(JOB, "rb") as file:
        library = bytearray(file.read())
    table, = struct.unpack_from("<Q", library, 32)
    count, = struct.unpack_from("<H", library, 56)
    notes = [table + 56 * i for i in range(count) if library[table + 56 * i] == 4]  # PT_NOTE
    assert notes
    for note in notes:
        struct.pack_into("<Q", library, note + 16, 0x70000000)  # p_vaddr
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/job.so", "wb") as file:
            file.write(library)
        run = Run([sys.executable, "-c", LOAD.replace(JOB, folder + "/job.so") + "report(4096, 512)"],
                  env={"LD_LIBRARY_PATH": TOOLS})
    assert run.status == 0, (run.status, run.stderr)
    event, = run.traces[0].of(TORCH_ALLOC)
    assert event["native"][0][1].endswith("/job.so")


def test_static_program():
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        print("no compiler: no static program to try")
        return
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/static.c", "w") as file:
            file.write("#include <stdio.h>\nint main(void) { puts(\"static\"); return 4; }\n")
        subprocess.run([compiler, "-static", "-o", folder + "/static", folder + "/static.c"], check=True)
        run = Run([folder + "/static"])
    assert (run.status, run.stdout, run.stderr, run.traces) == (4, b"static\n", b"", [])


HOSTED = r'''
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static void *work(void *argument) { return argument; }
int main(void)
{
	pthread_t thread;
	void *(*function)(void *, const char *) = dlsym;

	if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
		return 1;
	printf("%d %d %d\n", dlsym(dlopen(NULL, RTLD_NOW), "printf") != NULL, dlopen("no-such.so", RTLD_NOW) == NULL,
	       function(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL);
	return 5;
}
'''


def hosted(compile, preload=()):
    """A program compiled so is what it would be without us."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/hosted.c", "w") as file:
            file.write(HOSTED)
        subprocess.run([*compile, "-o", folder + "/hosted", folder + "/hosted.c"], check=True)
        run = Run([folder + "/hosted"], shim=False, preload=[*preload, SHIM], env={"LSAN_OPTIONS": "detect_leaks=0"})
    assert (run.status, run.stdout, run.stderr, run.traces) == (5, b"1 1 1\n", b"", []), (compile, run.status, run.stderr)


def test_programs_with_sanitizers():
    """Theirs are the first calls of a process, before they themselves can be called."""
    compiler = shutil.which("gcc")
    for name in "thread", "address", "undefined":
        library = {"thread": "libtsan.so", "address": "libasan.so", "undefined": "libubsan.so"}[name]
        path = compiler and subprocess.run([compiler, "-print-file-name=" + library], stdout=subprocess.PIPE).stdout.decode().strip()
        if not path or not os.path.exists(path):
            print("no gcc, or it has no %s: not tried" % library)
            continue
        hosted([compiler, "-fsanitize=" + name], [os.path.realpath(path)])


def test_other_c_library():
    compiler = shutil.which("musl-gcc")
    if not compiler:
        print("no musl-gcc: no program with another C library to try")
        return
    hosted([compiler])


def test_facts():
    run = python("report(4096, 512)", env={"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "PYTORCH_ALLOC_CONF": "a:b",
                                           "CUDA_VISIBLE_DEVICES": ""})
    facts = run.traces[0].facts
    assert facts["command:0"] == sys.executable and facts["command:1"] == "-c" and facts["command:2"].startswith("import")
    assert (facts["rank"], facts["local_rank"], facts["world_size"]) == ("3", "1", "8")
    assert facts["env:PYTORCH_ALLOC_CONF"] == "a:b" and facts["env:CUDA_VISIBLE_DEVICES"] == ""
    assert facts["host"] == os.uname().nodename and facts["level"] == "full"
    assert facts["python"] == sys.version.split()[0]


def test_marks():
    run = python("""
library = ctypes.CDLL(None)
assert library.vramshim_active() == 1
library.vramshim_mark(None)
library.vramshim_mark(b"one")
library.vramshim_mark("zw\\u00f6lf".encode())
library.vramshim_mark(b"one")
""")
    assert run.status == 0, run.stderr
    assert [e["name"] for e in run.traces[0].of(MARK)] == ["one", "zw\u00f6lf", "one"]
    run = python("assert ctypes.CDLL(None).vramshim_active() == 0; ctypes.CDLL(None).vramshim_mark(b'x')",
                 env={"VRAMSHIM_DISABLE": "1"})
    assert run.status == 0 and run.traces == [], run.stderr


def test_deep_recursion_is_cut_and_says_so():
    run = python("""
sys.setrecursionlimit(5000)
def down(n):
    if n: down(n - 1)
    else: report(4096, 512)
down(1000)
""")
    event, = run.traces[0].of(TORCH_ALLOC)
    assert run.status == 0 and event["truncated"] and len(event["python"]) == 256


def test_first_event_in_many_threads_at_once():
    run = python("""
import threading
barrier = threading.Barrier(16)
def first(n):
    barrier.wait()
    report(n, 512)
threads = [threading.Thread(target=first, args=(n,)) for n in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
    assert run.status == 0 and len(run.traces) == 1
    assert len(run.traces[0].of(TORCH_ALLOC)) == 16


OOM = """
import errno, signal, threading
signals = []
signal.signal(signal.SIGCHLD, lambda *_: signals.append(1))
report_oom = ctypes.CDLL(None)._ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
report_oom.argtypes = [ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16]
report_oom.restype = None
report(4096, 512)
before = set(os.listdir("/proc/self/fd"))
for _ in range(3):
    report_oom(1 << 30, 512, 2 << 20, 1)
assert set(os.listdir("/proc/self/fd")) == before
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child", len(signals))
"""


def reporter(folder, script):
    path = folder + "/vramreport"
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)
    return path


def test_out_of_memory_is_explained_once_and_the_job_sees_no_child():
    folder = tempfile.mkdtemp(prefix="vramshim-test-")
    try:
        path = reporter(folder, 'echo "<$1 $2 ${3##*.} $LD_PRELOAD$VRAMSHIM_OUT>"; echo lost >&2; test -s "$3" && echo trace')
        run = python(OOM, env={"VRAMSHIM_REPORT": path})
        assert (run.status, run.stdout) == (0, b"no child 0\n"), run.stderr
        assert run.stderr == b"<oom --brief vst >\ntrace\n", run.stderr
        # Told not to, not there, not a program, or one that never ends: the job goes on all the same.
        hanging = reporter(folder, "exec sleep 1000")
        for env in ({"VRAMSHIM_REPORT": path, "VRAMSHIM_OOM": "quiet"}, {}, {"VRAMSHIM_REPORT": "/absent"},
                    {"VRAMSHIM_REPORT": folder}, {"VRAMSHIM_REPORT": hanging}, {"VRAMSHIM_REPORT": ""}):
            run = python(OOM, env=env)
            assert (run.status, run.stdout, run.stderr) == (0, b"no child 0\n", b""), (env, run.stdout, run.stderr)
    finally:
        shutil.rmtree(folder)


run_all(globals())
