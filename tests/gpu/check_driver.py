# SPDX-License-Identifier: MIT
"""The checks of gpu-check that ask the machine and CUDA's driver. Each takes the bench and what earlier ones found, and
returns (holds, detail) or a list of (name, holds, detail); what cannot be checked raises CouldNot. `found` keeps
everything for the JSON."""

import json
import re
import subprocess

from bench import GIB, MIB, CouldNot, size, worked


def shell(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (done.stdout + done.stderr).strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"


def machine(bench, found):
    found["nvidia_smi"] = None if bench.simulate else shell(["nvidia-smi", "-q", "-d", "MEMORY,COMPUTE"])
    found["nvidia_smi_list"] = None if bench.simulate else shell(["nvidia-smi", "-L"])
    found["libc"] = shell(["ldd", "--version"]).splitlines()[:1]
    try:
        found["nvidia_module"] = open("/proc/driver/nvidia/version").read().strip()
    except OSError:
        found["nvidia_module"] = None
    card = worked(bench.job("describe", limit=90))
    found["card"] = card
    bench.dry, found["dry"] = dry_card(bench, card)
    capability = ".".join(map(str, card["capability"]))
    return True, f"{card['name']}, {size(card['total'])}, {capability}, PyTorch {card['torch']}"


def dry_card(bench, card):
    """The options that make the simulated card most like this one, and what it is called."""
    if bench.simulate:
        return ["--simulate", bench.simulate], bench.simulate
    listing = bench.command([bench.build / "tools" / "vramrun", "--list-gpus"], 20).out.splitlines()[1:]
    rows = []
    for line in listing:
        match = re.match(r"(\S+)\s+([\d.]+) GiB\s+([\d.]+)\s+(\d+)\s+(.*)", line)
        if match:
            key, memory, capability, _, product = match.groups()
            ours = ".".join(map(str, card["capability"]))
            rows.append((product != card["name"], capability != ours, abs(float(memory) - card["total"] / GIB), key))
    if not rows:
        raise CouldNot("vramrun --list-gpus lists nothing")
    key = min(rows)[3]
    return ["--simulate", key, "--gpu-memory", str(card["total"])], key


def listed_calls(events):
    """The trace's counterpart of driver.py's list."""
    memories = {"device": "", "pool": " async", "physical": ""}
    rows = []
    for event in events:
        if event["type"] not in ("cuda-alloc", "cuda-free") or event.get("memory") not in memories:
            continue
        taking, physical = event["type"] == "cuda-alloc", event["memory"] == "physical"
        what = ("create" if taking else "release") if physical else "alloc" if taking else "free"
        if event["memory"] == "pool":
            what = "async" if taking else "free async"
        rows.append([what, int(event["address"], 16), event["size"] if taking else 0])
    return rows


def booked_once(bench, found):
    plain, recorded = bench.script("driver.py", limit=60), bench.script("driver.py", record=True, limit=60)
    found["driver_plain"], found["driver"] = worked(plain), worked(recorded)
    rows = listed_calls(bench.events(recorded.run)["events"])  # of the process's one thread, in order
    found["driver_events"] = rows
    calls = found["driver"]["calls"]
    wrong = [index for index, pair in enumerate(zip(calls, rows)) if pair[0] != pair[1]]
    ways = {way: place for way, place in found["driver"]["gateways"].items() if way != "error"}
    seen = {way: rows.count(["alloc", *place]) for way, place in ways.items()}
    # Those of the gateways come after the list; their frees are seen whether or not the allocation was.
    extra = len(rows) - len(calls) - sum(seen.values()) - len(ways)
    detail = f"{len(calls)} calls of the driver, {len(wrong)} not as called, {extra:+d} in all"
    if wrong:
        detail += f"; the first: {calls[wrong[0]]} is {rows[wrong[0]]}"
    errors = [
        f"{part}: {told['error']}"
        for part, told in found["driver"].items()
        if isinstance(told, dict) and "error" in told
    ]
    return [
        ("every call booked once", not wrong and not extra, detail),
        (
            "every way to the driver",
            bool(ways) and set(seen.values()) == {1},
            ", ".join(f"{way} {n}" for way, n in seen.items()),
        ),
        ("answers unchanged", *answers(found["driver_plain"], found["driver"])),
        ("the driver's parts", not errors, "; ".join(errors) or "all answered"),
    ]


def answers(plain, recorded):
    """Whether the driver gave and took the same with the recorder before it."""
    parts = ("sizes", "small", "virtual", "pool")
    different = [part for part in parts if strip(plain.get(part)) != strip(recorded.get(part))]
    return not different, "differ: " + ", ".join(different) if different else f"{', '.join(parts)}: the same"


def strip(told):
    """Without what depends on where an address range happens to begin."""
    text = json.dumps(told)
    return re.sub(r'"address_low": \d+', "", text)


def context_bytes(told):
    """By NVML, or, with whatever else is on the card, what is gone from it."""
    own = told["context"]["nvml_after"]["own"]
    return told["context"]["total"] - told["context"]["free_after"] if own is None else own


def driver_model(bench, found):
    """The simulated card against the driver, question by question."""
    if "driver_plain" not in found:
        raise CouldNot("the driver did not answer")
    real, dry = found["driver_plain"], worked(bench.script("driver.py", dry=True, limit=60))
    found["driver_dry"] = dry
    for told in (real, dry):
        if "error" in told["context"]:
            raise CouldNot(told["context"]["error"])
    rows = []
    for name, key in (
        ("addresses of cudaMalloc", "addresses"),
        ("bytes of one request", "sizes"),
        ("bytes of small requests", "small"),
    ):
        if "error" in real[key] or "error" in dry[key]:
            rows.append((name, None, real[key].get("error") or dry[key].get("error")))
            continue
        a, b = (part[key].get("rows") or part[key]["taken"] for part in (real, dry))
        equal = sum(x == y or (isinstance(x, dict) and x["taken"] == y["taken"]) for x, y in zip(a, b))
        rows.append((name, equal == len(a) == len(b), f"{equal} of {len(a)} as the simulated card has them"))
    for name in ("virtual", "pool"):
        alike = strip(real.get(name)) == strip(dry.get(name))
        rows.append((f"bytes of {name} memory", alike, "as the simulated card has them" if alike else "see the JSON"))
    told = real["context"]
    known, assumed = context_bytes(real), context_bytes(dry)
    source = "used of the card" if told["nvml_after"]["own"] is None else "by NVML"
    close = abs(known - assumed) <= 64 * MIB
    rows.append(("size of a context", close, f"{size(known)} {source}, assumed {size(assumed)}"))
    cost = real.get("costs", {})
    if "mem_get_info_s" in cost:
        found["sample_costs"] = {"mem_get_info_s": cost["mem_get_info_s"], "nvml_s": told.get("nvml_seconds")}
    return rows
