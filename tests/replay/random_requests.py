"""Random requests through real PyTorch on the simulated device, and the snapshot that it writes of them.

Run by exactness.py, which forks one process per case after one import of torch.
"""

import random


def sizes(rng, kind):
    """Sizes that hit every boundary of the allocator, more often than chance would."""
    edges = [1, 512, 513, 1 << 20, (1 << 20) + 1, (2 << 20) - 512, 2 << 20, (10 << 20) - 1, 10 << 20, 20 << 20]
    scale = {"small": 1 << 20, "mixed": 64 << 20, "large": 512 << 20}[kind]
    while True:
        pick = rng.random()
        if pick < 0.15:
            yield max(1, rng.choice(edges) + rng.choice([-512, -1, 0, 0, 1, 512]))
        elif pick < 0.5:
            yield rng.randint(1, 1 << 20)
        elif pick < 0.8:
            yield int(2 ** rng.uniform(0, 24))
        else:
            yield rng.randint(1, scale)


def run(torch, case, path):
    rng = random.Random(case["seed"])
    torch.cuda.init()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=1 << 24)
    if case.get("fraction"):
        torch.cuda.set_per_process_memory_fraction(case["fraction"])
    streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(case.get("streams", 0))]
    pools = [torch.cuda.MemPool() for _ in range(case.get("pools", 0))]
    live = []
    ooms = 0
    make = sizes(rng, case.get("kind", "mixed"))
    for _ in range(case["count"]):
        pick = rng.random()
        bias = case.get("grow", 0.5)
        if pick < 0.004 and case.get("empty", True):
            torch.cuda.empty_cache()
        elif pick < 0.01:
            del live[: len(live) // 2]
        elif pick < bias + 0.02 or not live:
            stream = rng.choice(streams)
            pool = rng.choice(pools) if pools and rng.random() < 0.3 else None
            try:
                with torch.cuda.stream(stream):
                    if pool:
                        with torch.cuda.use_mem_pool(pool):
                            tensor = torch.empty(next(make), dtype=torch.uint8, device="cuda")
                    else:
                        tensor = torch.empty(next(make), dtype=torch.uint8, device="cuda")
                if len(streams) > 1 and rng.random() < 0.2:
                    tensor.record_stream(rng.choice(streams))
                live.append(tensor)
                del tensor
            except torch.cuda.OutOfMemoryError:
                ooms += 1
                for _ in range(rng.randint(1, 1 + len(live) // 4)):
                    if live:
                        live.pop(rng.randrange(len(live)))
        else:
            live.pop(rng.randrange(len(live)))
    torch.cuda.memory._dump_snapshot(path)
    stats = torch.cuda.memory_stats()
    return {
        "ooms": ooms,
        "retries": stats["num_alloc_retries"],
        "reserved_peak": stats["reserved_bytes.all.peak"],
        "allocated_peak": stats["allocated_bytes.all.peak"],
        "total": torch.cuda.get_device_properties(0).total_memory,
        "free": torch.cuda.mem_get_info()[0],
        "reserved": stats["reserved_bytes.all.current"],
    }
