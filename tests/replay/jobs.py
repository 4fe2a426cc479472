"""Small training jobs whose tensors change size from step to step, as real ones do."""


def mlp(torch, case):
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(12)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(case.get("steps", 4)):
        x = torch.randn(8192 + 512 * (step * 5 % 7), 2048, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def transformer(torch, case):
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.1)
    model = torch.nn.Sequential(torch.nn.Embedding(16000, 512), torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False),
                                torch.nn.Linear(512, 16000)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(case.get("steps", 5)):
        tokens = torch.randint(0, 16000, (8, 200 + 40 * (step * 3 % 5)), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bool(case.get("amp"))):
            logits = model(tokens)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def inference(torch, case):
    """A cache that grows by concatenation, requests of many lengths."""
    blocks = [torch.nn.Linear(1024, 3072).cuda() for _ in range(8)]
    with torch.no_grad():
        for request in range(case.get("steps", 6)):
            caches = [torch.empty(4, 0, 2048, device="cuda") for _ in blocks]
            x = torch.randn(4, 64 + 37 * (request * 7 % 11), 1024, device="cuda")
            for _ in range(24):
                for i, block in enumerate(blocks):
                    q, kv = block(x).split([1024, 2048], dim=-1)
                    caches[i] = torch.cat([caches[i], kv], dim=1)
                    x = q + 1
                x = torch.randn(4, 16, 1024, device="cuda")


JOBS = {"mlp": mlp, "transformer": transformer, "inference": inference}


def run(torch, case, path):
    torch.manual_seed(0)
    torch.cuda.init()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=1 << 24)
    if case.get("fraction"):
        torch.cuda.set_per_process_memory_fraction(case["fraction"])
    oom = 0
    try:
        JOBS[case["job"]](torch, case)
    except torch.cuda.OutOfMemoryError:
        oom = 1
    stats = torch.cuda.memory_stats()
    report = {
        "ooms": oom,
        "retries": stats["num_alloc_retries"],
        "reserved_peak": stats["reserved_bytes.all.peak"],
        "allocated_peak": stats["allocated_bytes.all.peak"],
        "total": torch.cuda.get_device_properties(0).total_memory,
        "free": torch.cuda.mem_get_info()[0],
        "reserved": stats["reserved_bytes.all.current"],
    }
    torch.cuda.memory._dump_snapshot(path)
    return report
