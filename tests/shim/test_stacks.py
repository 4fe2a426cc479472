# SPDX-License-Identifier: MIT
"""Guessed stacks, and those walked in part, are what a full walk finds: every stack of these jobs is held against one
by libvramshim_checked.so. EVENTS says how many each shall have."""

import os
import re

import recorder
from recorder import BUILD, TOOLS, Run, interpreters, run_all, torch_environments

FOLDER = os.path.dirname(os.path.abspath(__file__))
EVENTS = int(os.environ.get("EVENTS", "20000"))
SIMULATED = [BUILD + "/lib/sim/" + name for name in ("libvramsim.so", "libcuda.so.1", "libnvidia-ml.so.1")]
recorder.SHIM = BUILD + "/lib/shim/libvramshim_checked.so"

TORCH = """
import sys, torch
from torch.utils.checkpoint import checkpoint
count = int(sys.argv[1])
layer = lambda: torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64), torch.nn.LayerNorm(64))
layers = torch.nn.ModuleList(layer() for _ in range(6)).cuda()
optimizer = torch.optim.AdamW(layers.parameters())
def events():
    stats = torch.cuda.memory_stats()
    return stats["allocation.all.allocated"] + stats["allocation.all.freed"]
def step(number):
    x = torch.randn(8, 64, device="cuda")
    for i, one in enumerate(layers):
        x = checkpoint(one, x, use_reentrant=False) if (i + number) % 3 == 0 else one(x)
        try:                                   # an exception of C++ through many frames
            torch.mm(x, torch.empty(3, 3, device="cuda"))
        except RuntimeError:
            pass
    x.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
number = 0
while events() < count:
    step(number)
    number += 1
"""


def check(name, command, **options):
    run = Run(command, **options)
    message = run.stderr.decode()
    assert run.status == 0, (name, run.status, message)
    found = re.search(r"check: (\d+) stacks, (\d+) guessed, (\d+) by rules, (\d+) by libunwind, (\d+) wrong", message)
    assert found, (name, message)
    stacks, guessed, rules, libunwind, wrong = map(int, found.groups())
    print("%s: %d stacks, %d guessed, %d by rules, %d by libunwind" % (name, stacks, guessed, rules, libunwind))
    assert wrong == 0, (name, message)
    assert guessed + rules + libunwind == stacks and stacks > EVENTS // 2, (name, message)
    return stacks, guessed, rules, libunwind


def scenario(name):
    return check(name, [TOOLS + "/stacks", name, str(EVENTS), "7"])


def test_frames_of_every_kind():
    stacks, guessed, rules, libunwind = scenario("plain")
    assert libunwind == 0 and guessed and rules
    scenario("longjmp")


def test_the_same_again_until_it_is_not():
    stacks, guessed, rules, libunwind = scenario("repeated")
    assert guessed > stacks // 2


def test_frames_without_rules():
    stacks, guessed, rules, libunwind = scenario("foreign")
    assert libunwind and rules


def test_deeper_than_kept():
    assert scenario("deep")[3]


def test_signals_and_their_stacks():
    assert scenario("signals")[3]


def test_threads_with_small_stacks():
    assert scenario("threads")[3] == 0


def test_stacks_that_are_not_the_threads():
    assert scenario("coroutines")[3]


def test_python():
    for minor, interpreter in interpreters(range(8, 14)):
        check("3.%d" % minor, [interpreter, FOLDER + "/stacks_job.py", str(EVENTS), "3"])


def test_python_over_and_over():
    for minor, interpreter in interpreters(range(8, 14)):
        check("3.%d, codes die" % minor, [interpreter, FOLDER + "/stacks_job.py", str(EVENTS), "4", "20"])
        stacks, guessed, rules, libunwind = check("3.%d" % minor, [interpreter, FOLDER + "/stacks_job.py", str(EVENTS), "5", "20",
                                                                   "alive"])
        assert guessed > stacks // 2, minor


def test_torch():
    for version, interpreter in torch_environments():
        stacks, guessed, rules, libunwind = check(version, [interpreter, "-c", TORCH, str(EVENTS)], preload=SIMULATED,
                                                  env={"VRAMSIM_GPU": "t4", "VRAMSIM_COUNT": "1"})
        # What the cost rests on.
        assert guessed > stacks // 2 and libunwind < stacks // 100, version


run_all(globals())
