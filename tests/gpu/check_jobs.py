# SPDX-License-Identifier: MIT
"""The checks of gpu-check on training jobs, in the form of check_driver.py."""

import json
import re
import statistics

from bench import GIB, MIB, CouldNot, size, worked

# What kernels and libraries load after the first allocation is in no line of the account but the last: hundreds of
# MiB for cuBLAS, cuDNN and PyTorch's own kernels.
UNEXPLAINED_MOST = 768 * MIB
# Of a step on a real card. A step on a simulated one has no GPU time that the recorder's could hide behind.
OVERHEAD_MOST = {False: 1.05, True: 2.0}


def same(pairs):
    """(holds, detail) of [(name, got, expected)]."""
    wrong = [f"{name} {got}, not {expected}" for name, got, expected in pairs if got != expected]
    return not wrong, "; ".join(wrong) or ", ".join(f"{name} {got}" for name, got, _ in pairs)


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
    mallocs = [
        e
        for e in dump["events"]
        if (e["type"], e.get("memory"), e.get("name")) == ("cuda-alloc", "device", "cudaMalloc")
    ]
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
    rows.append(
        ("the account's sum", total == outside["used_bytes"], f"{size(outside['used_bytes'])} used; {libraries}")
    )
    detail = f"{size(outside['context_bytes'])} ({outside['context_source']})"
    # NVML may not tell, in a container or on a MIG slice: then these are in the last line, and that says little.
    known = outside["context_bytes"] is not None and outside["other_processes_complete"]
    rows.append(("the context is known", True if outside["context_bytes"] is not None else None, detail))
    rows.append(("other processes are known", True if outside["other_processes_complete"] else None, size(others)))
    small = (
        (-64 * MIB <= unexplained <= UNEXPLAINED_MOST if known else None) if not bench.simulate else unexplained == 0
    )
    rows.append(("unexplained", small, f"{size(unexplained)} of {size(outside['used_bytes'])}"))
    # What the job itself saw at its end, where nothing changes any more.
    used = told["instants"][-1]["total"] - told["instants"][-1]["free"]
    detail = f"cudaMemGetInfo {size(used)} at the end, the fullest sample {size(outside['used_bytes'])}"
    rows.append(
        (
            "against cudaMemGetInfo",
            abs(used - outside["used_bytes"]) <= (0 if bench.simulate else UNEXPLAINED_MOST),
            detail,
        )
    )
    return rows


def dry_run(bench, found, name, recorded, environment=None):
    """The same job on the simulated card: its peaks beside those of the card."""
    dry = worked(bench.job(name, dry=True, limit=60, environment=environment))
    found.setdefault("dry_runs", {})[name + str(environment or "")] = dry
    rows = []
    for key, what in (("max_allocated", "allocated"), ("max_reserved", "reserved")):
        off = 100 * (dry[key] / recorded[key] - 1) if recorded[key] else 0
        rows.append(
            (
                f"predicted {what}",
                dry[key] == recorded[key],
                f"{dry[key]} predicted, {recorded[key]} here ({off:+.2f} %)",
            )
        )
    pairs = zip(recorded["instants"], dry["instants"])
    equal = sum(a["allocated"] == b["allocated"] and a["reserved"] == b["reserved"] for a, b in pairs)
    rows.append(
        (
            "predicted at each instant",
            equal == len(recorded["instants"]),
            f"{equal} of {len(recorded['instants'])} as predicted",
        )
    )
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
    rows.append(
        (
            "counted once",
            reserved <= told["max_reserved"],
            f"{size(reserved)} PyTorch's when fullest, {size(told['max_reserved'])} its peak",
        )
    )
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
    rows.append(
        ("live bytes at the end", holds, f"{seen} in {len(live)} allocations of the trace, {counted} by the pool")
    )
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
    rows = [
        (f"{what} bit-equal", told[what] == plain[what], "captured and replayed, recorded against unrecorded")
        for what in ("losses", "checksum")
    ]
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
    readable = process["exit"] == "killed" and device["events"]["lost"] == 0
    detail = f"{device['events']['allocations']} allocations, end: {process['exit']}"
    return [
        ("the trace is readable", readable, detail),
        ("nothing finished is lost", marks >= 2 and peak >= logged, f"{marks} marks, peak {size(peak)}"),
    ]


def out_of_memory(bench, found):
    ran = bench.job("out_of_memory", record=True, limit=70)
    if ran.status != 1 or "OutOfMemoryError" not in ran.err:
        raise CouldNot(f"memory did not run out: status {ran.status}, {ran.err.strip()[-200:]}")
    before = ran.err.split("Traceback")[0]
    answer = json.loads(bench.vramreport("oom", "--json", ran.run, statuses=(0, 1)))
    process, device = bench.report(ran.run)
    message = re.search(r"[^\n]*CUDA out of memory[^\n]*", ran.err)
    found["oom"] = {
        "answer": answer,
        "message": message and message.group(),
        "outside": device["outside_pytorch"],
        "stderr": before[-4000:],
    }
    total = found.get("card", {}).get("total")
    others = device["outside_pytorch"]["other_processes_bytes"]
    causes = {"full", "other_process"} if others is None or others > GIB else {"full"}
    said = re.search("Out of memory: .*", before)
    rows = [
        ("said before the error", said is not None, said.group() if said else before.strip()[-100:] or "nothing"),
        ("cause", answer["cause"] in causes, answer["cause"]),
        ("the end", process["exit"] == "oom", process["exit"]),
        ("the card's size", total is None or answer["total_bytes"] == total, size(answer["total_bytes"])),
    ]
    said = re.search(r"of which ([\d.]+) (\w)iB is free", ran.err)
    if said and answer["free_bytes"] is not None:
        unit = {"K": 1 << 10, "M": MIB, "G": GIB}[said.group(2)]
        near = abs(float(said.group(1)) * unit - answer["free_bytes"]) < 0.006 * unit  # the text has two decimals
        rows.append(
            ("free bytes", near, f"{size(answer['free_bytes'])}, PyTorch says {said.group(1)} {said.group(2)}iB")
        )
    return rows
