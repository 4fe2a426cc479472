# SPDX-License-Identifier: MIT
"""The checks of gpu-check. Each takes the bench and what earlier ones found, and returns (holds, detail) or a list of
(name, holds, detail); what cannot be checked raises CouldNot. `found` keeps everything for the JSON."""
import json
import re
import statistics
import subprocess

from bench import CouldNot, worked

MIB, GIB = 1 << 20, 1 << 30
# What kernels and libraries load after the first allocation is in no line of the account but the last: hundreds of
# MiB for cuBLAS, cuDNN and PyTorch's own kernels.
UNEXPLAINED_MOST = 768 * MIB
# Of a step on a real card. A step on a simulated one has no GPU time that the recorder's could hide behind.
OVERHEAD_MOST = {False: 1.05, True: 2.0}


def size(number):
    if number is None:
        return "?"
    return f"{number / GIB:.2f} GiB" if abs(number) >= GIB else f"{number / MIB:.2f} MiB"


def same(pairs):
    """(holds, detail) of [(name, got, expected)]."""
    wrong = [f"{name} {got}, not {expected}" for name, got, expected in pairs if got != expected]
    return not wrong, "; ".join(wrong) or ", ".join(f"{name} {got}" for name, got, _ in pairs)


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
    errors = [f"{part}: {told['error']}" for part, told in found["driver"].items() if isinstance(told, dict) and "error" in told]
    return [
        ("every call booked once", not wrong and not extra, detail),
        ("every way to the driver", bool(ways) and set(seen.values()) == {1}, ", ".join(f"{way} {n}" for way, n in seen.items())),
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


def driver_model(bench, found):
    """The simulated card against the driver, question by question."""
    if "driver_plain" not in found:
        raise CouldNot("the driver did not answer")
    real, dry = found["driver_plain"], worked(bench.script("driver.py", dry=True, limit=60))
    found["driver_dry"] = dry
    rows = []
    for name, key in (("addresses of cudaMalloc", "addresses"), ("bytes of one request", "sizes"), ("bytes of small requests", "small")):
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
    own, used = told["nvml_after"]["own"], told["total"] - told["free_after"]
    assumed = dry["context"]["total"] - dry["context"]["free_after"]
    known = own if own is not None else used
    close = abs(known - assumed) <= 64 * MIB
    source = "by NVML" if own is not None else "used of the card"
    rows.append(("size of a context", close, f"{size(known)} {source}, assumed {size(assumed)}"))
    cost = real.get("costs", {})
    if "mem_get_info_s" in cost:
        found["sample_costs"] = {"mem_get_info_s": cost["mem_get_info_s"], "nvml_s": told.get("nvml_seconds")}
    return rows


def pair(bench, found):
    """The same training, unrecorded and recorded by turns."""
    runs = {"plain": [], "recorded": []}
    for _ in range(1 if bench.short else 2):
        for kind in runs:
            ran = bench.job("few_steps" if bench.short else "step", record=kind == "recorded", limit=70)
            runs[kind].append((worked(ran), ran))
    plain, recorded = ([told for told, _ in runs[kind]] for kind in ("plain", "recorded"))
    found["pair"] = {"plain": plain, "recorded": recorded}
    found["step_run"] = runs["recorded"][0][1].run
    rows = []
    for what in ("losses", "checksum"):
        if len(plain) > 1 and plain[0][what] != plain[1][what]:
            rows.append((f"{what} bit-equal", None, "two unrecorded runs differ already"))
        else:
            equal = all(told[what] == plain[0][what] for told in recorded)
            rows.append((f"{what} bit-equal", equal, f"{len(plain[0][what])} numbers, recorded against unrecorded"))
    peaks = ("max_allocated", "max_reserved")
    rows.append(("PyTorch's peaks unchanged", *same([(key, recorded[0][key], plain[0][key]) for key in peaks])))
    if not bench.short:
        medians = [[statistics.median(told["step_s"]) for told in kind] for kind in (plain, recorded)]
        ratios = [b / a for a, b in zip(*medians)]
        found["overhead"] = {"plain_s": medians[0], "recorded_s": medians[1], "ratios": ratios}
        most = OVERHEAD_MOST[bool(bench.simulate)]
        detail = f"{min(ratios):.3f}x and {max(ratios):.3f}x of {medians[0][0] * 1e3:.2f} ms (at most {most}x)"
        rows.append(("time of a step", min(ratios) <= most, detail))
    return rows


def recording(told, process, device):
    """A recording against what PyTorch counted in the same process."""
    stats = told["stats"]
    return same(
        [
            ("allocated", device["max"]["allocated_bytes"], told["max_allocated"]),
            ("reserved", device["max"]["reserved_bytes"], told["max_reserved"]),
            ("allocations", device["events"]["allocations"], stats.get("allocation.all.allocated")),
            ("lost", device["events"]["lost"], 0),
            ("mismatches", device["events"]["mismatches"], 0),
            ("sum of the tags", sum(device["peak"]["tags"].values()), device["peak"]["allocated_bytes"]),
        ]
    )


def ledger(bench, found):
    if "step_run" not in found:
        raise CouldNot("the training was not recorded")
    told = found["pair"]["recorded"][0]
    process, device = bench.report(found["step_run"])
    outside = found["outside_pytorch"] = device["outside_pytorch"]
    found["report_text"] = bench.vramreport(found["step_run"])
    rows = [("recording against PyTorch", *recording(told, process, device))]
    dump = bench.events(found["step_run"])
    mallocs = [e for e in dump["events"] if (e["type"], e.get("memory"), e.get("name")) == ("cuda-alloc", "device", "cudaMalloc")]
    if "num_device_alloc" in told["stats"]:
        expected = told["stats"]["num_device_alloc"]
        detail = f"{len(mallocs)} in the trace, {expected} by PyTorch's count"
        rows.append(("PyTorch's cudaMalloc calls", len(mallocs) == expected, detail))
    natives = [fact for fact in dump["facts"] if fact["key"] == "native_stacks"]
    rows.append(("native stacks", not natives, natives[0]["value"] if natives else "recorded"))
    if outside["used_bytes"] is None:
        rows.append(("the account of the card", False, "free memory was never sampled"))
        return rows
    lines = outside["pytorch"]["reserved_bytes"] + sum(outside["by_library"].values()) + outside["rounding_bytes"]
    others, unexplained = outside["other_processes_bytes"], outside["unexplained_bytes"]
    total = (outside["context_bytes"] or 0) + lines + (others or 0) + unexplained
    libraries = ", ".join(f"{name} {size(bytes)}" for name, bytes in outside["by_library"].items()) or "no library"
    rows.append(("the account's sum", total == outside["used_bytes"], f"{size(outside['used_bytes'])} used; {libraries}"))
    detail = f"{size(outside['context_bytes'])} ({outside['context_source']})"
    # NVML may not tell, in a container or on a MIG slice: then these are in the last line, and that says little.
    known = outside["context_bytes"] is not None and outside["other_processes_complete"]
    rows.append(("the context is known", True if outside["context_bytes"] is not None else None, detail))
    rows.append(("other processes are known", True if outside["other_processes_complete"] else None, size(others)))
    small = (-64 * MIB <= unexplained <= UNEXPLAINED_MOST if known else None) if not bench.simulate else unexplained == 0
    rows.append(("unexplained", small, f"{size(unexplained)} of {size(outside['used_bytes'])}"))
    # What the job itself saw at its end, where nothing changes any more.
    used = told["instants"][-1]["total"] - told["instants"][-1]["free"]
    detail = f"cudaMemGetInfo {size(used)} at the end, the fullest sample {size(outside['used_bytes'])}"
    rows.append(("against cudaMemGetInfo", abs(used - outside["used_bytes"]) <= (0 if bench.simulate else UNEXPLAINED_MOST), detail))
    return rows


def dry_run(bench, found, name, recorded, environment=None):
    """The same job on the simulated card: its peaks beside those of the card."""
    dry = worked(bench.job(name, dry=True, limit=60, environment=environment))
    found.setdefault("dry_runs", {})[name + str(environment or "")] = dry
    rows = []
    for key, what in (("max_allocated", "allocated"), ("max_reserved", "reserved")):
        off = 100 * (dry[key] / recorded[key] - 1) if recorded[key] else 0
        rows.append((f"predicted {what}", dry[key] == recorded[key], f"{dry[key]} predicted, {recorded[key]} here ({off:+.2f} %)"))
    pairs = zip(recorded["instants"], dry["instants"])
    equal = sum(a["allocated"] == b["allocated"] and a["reserved"] == b["reserved"] for a, b in pairs)
    rows.append(("predicted at each instant", equal == len(recorded["instants"]), f"{equal} of {len(recorded['instants'])} as predicted"))
    return rows


def dry_step(bench, found):
    if "pair" not in found:
        raise CouldNot("the training did not run")
    return dry_run(bench, found, "few_steps" if bench.short else "step", found["pair"]["recorded"][0])


def mixed(bench, found):
    ran = bench.job("mixed", record=True, limit=70)
    told = found["mixed"] = worked(ran)
    process, device = bench.report(ran.run)
    found["mixed_outside"] = device["outside_pytorch"]
    rows = [("recording against PyTorch", *recording(told, process, device))]
    return rows + dry_run(bench, found, "mixed", told)


def expandable(bench, found):
    environment = {name: "expandable_segments:True" for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
    ran = bench.job("few_steps", record=True, limit=60, environment=environment)
    told = found["expandable"] = worked(ran)
    process, device = bench.report(ran.run)
    outside = found["expandable_outside"] = device["outside_pytorch"]
    rows = [("recording against PyTorch", *recording(told, process, device))]
    vmm = {event["memory"] for event in bench.events(ran.run)["events"] if event["type"] == "cuda-alloc"}
    rows.append(("segments are physical memory", {"physical", "mapped"} <= vmm, ", ".join(sorted(vmm))))
    reserved = outside["pytorch"]["reserved_bytes"]
    rows.append(("counted once", reserved <= told["max_reserved"], f"{size(reserved)} PyTorch's when fullest, {size(told['max_reserved'])} its peak"))
    if "pair" in found:
        plain = found["pair"]["plain"][0]["losses"][:6]
        rows.append(("losses bit-equal", told["losses"][:6] == plain, "against ordinary segments"))
    return rows + dry_run(bench, found, "few_steps", told, environment)


def asynchronous(bench, found):
    environment = {name: "backend:cudaMallocAsync" for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
    ran = bench.job("few_steps", record=True, limit=60, environment=environment)
    told = found["async"] = worked(ran)
    process, device = bench.report(ran.run)
    found["async_outside"] = device["outside_pytorch"]
    live, taken = {}, 0
    for event in bench.events(ran.run)["events"]:
        if event.get("memory") == "pool" or event.get("memory") == "device":
            if event["type"] == "cuda-alloc":
                live[event["address"]] = event["size"]
                taken += event["memory"] == "pool"
            elif event["type"] == "cuda-free":
                live.pop(event["address"], None)
        elif event["type"] == "mark" and event.get("name") == "end":
            break
    seen, counted = sum(live.values()), told["instants"][-1]["allocated"]
    rows = [("allocations from the pool", taken > 0, f"{taken} recorded")]
    # Here PyTorch tells the pool's count, in which a request may take up to a page of the card.
    holds = seen <= counted <= seen + 2 * MIB * len(live)
    rows.append(("live bytes at the end", holds, f"{seen} in {len(live)} allocations of the trace, {counted} by the pool"))
    if "pair" in found:
        plain = found["pair"]["plain"][0]["losses"][:6]
        rows.append(("losses bit-equal", told["losses"][:6] == plain, "against PyTorch's own allocator"))
    return rows


def graphs(bench, found):
    plain = worked(bench.job("graphs", limit=60))
    ran = bench.job("graphs", record=True, limit=60)
    told = worked(ran)
    found["graphs"] = {"plain": plain, "recorded": told}
    inside, asked, allocations = False, 0, 0
    for event in bench.events(ran.run)["events"]:
        if event["type"] == "mark":
            inside = event.get("name") == "before the capture"
        asked += inside and event["type"] == "meminfo"
        allocations += inside and event["type"] == "torch-alloc"
    found["graphs"]["asked"] = asked
    process, device = bench.report(ran.run)
    rows = [(f"{what} bit-equal", told[what] == plain[what], "captured and replayed, recorded against unrecorded") for what in ("losses", "checksum")]
    rows.append(("capture untouched", allocations > 0, f"{allocations} allocations recorded in it, the job ended well"))
    rows.append(("recording against PyTorch", *recording(told, process, device)))
    return rows + ([] if bench.short else dry_run(bench, found, "graphs", told))


def killed(bench, found):
    ran = bench.job("endless", record=True, limit=60, until="training")
    if ran.status != -9:
        raise CouldNot(f"the job ended by itself: {ran.err.strip()[-200:]}")
    process, device = bench.report(ran.run)
    instants = ran.told["instants"] if ran.told else []
    peak = device["max"]["allocated_bytes"]
    logged = max((instant["allocated"] for instant in instants), default=0)
    marks = sum(event["type"] == "mark" for event in bench.events(ran.run)["events"])
    found["killed"] = {"events": device["events"], "marks": marks, "peak": peak}
    return [
        ("the trace is readable", process["exit"] == "killed" and device["events"]["lost"] == 0, f"{device['events']['allocations']} allocations, end: {process['exit']}"),
        ("nothing finished is lost", marks >= 2 and peak >= logged, f"{marks} marks, peak {size(peak)}"),
    ]  # fmt: skip


def out_of_memory(bench, found):
    ran = bench.job("out_of_memory", record=True, limit=70)
    if ran.status != 1 or "OutOfMemoryError" not in ran.err:
        raise CouldNot(f"memory did not run out: status {ran.status}, {ran.err.strip()[-200:]}")
    before = ran.err.split("Traceback")[0]
    answer = json.loads(bench.vramreport("oom", "--json", ran.run, statuses=(0, 1)))
    process, device = bench.report(ran.run)
    message = re.search(r"[^\n]*CUDA out of memory[^\n]*", ran.err)
    found["oom"] = {"answer": answer, "message": message and message.group(), "outside": device["outside_pytorch"], "stderr": before[-4000:]}
    total = found.get("card", {}).get("total")
    others = device["outside_pytorch"]["other_processes_bytes"]
    causes = {"full", "other_process"} if others is None or others > GIB else {"full"}
    rows = [
        ("said before the error", "Out of memory: " in before, (re.search("Out of memory: .*", before) or [before.strip()[-100:] or "nothing"])[0]),
        ("cause", answer["cause"] in causes, answer["cause"]),
        ("the end", process["exit"] == "oom", process["exit"]),
        ("the card's size", total is None or answer["total_bytes"] == total, size(answer["total_bytes"])),
    ]  # fmt: skip
    # PyTorch's own text has two decimals.
    said = re.search(r"of which ([\d.]+) (\w)iB is free", ran.err)
    if said and answer["free_bytes"] is not None:
        free = float(said.group(1)) * {"K": 1 << 10, "M": MIB, "G": GIB}[said.group(2)]
        rows.append(("free bytes", abs(free - answer["free_bytes"]) <= 0.011 * max(free, MIB), f"{size(answer['free_bytes'])}, PyTorch says {said.group(1)} {said.group(2)}iB"))
    return rows
