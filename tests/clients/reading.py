# SPDX-License-Identifier: MIT
"""Programs run in an environment without ours, and what a report must not say where there is no PyTorch."""

import os
import subprocess

PYTORCH_ONLY = ("PyTorch", "allocated", "reserved", "step", "tensor", "estimate", "paper", "Fragmentation", "memory_")


def environment(variables):
    ours = ("VRAMSHIM_", "VRAMSIM_", "LD_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(ours)}, **variables}


def run(*command, timeout=60, **variables):
    command = [str(word) for word in command]
    return subprocess.run(command, env=environment(variables), capture_output=True, text=True, timeout=timeout)
