# SPDX-License-Identifier: MIT
"""Training jobs for gpu-check, made of torch alone: job.py NAME OUT. OUT gets what PyTorch itself counted, as JSON, at
every instant that is logged, so that a job which dies leaves it too. The sizes suit any card of 8 GiB or more."""

import ctypes
import importlib.util
import json
import sys
import time

import torch
from torch import nn

LAYERS, HIDDEN, HEADS, VOCABULARY, BATCH, LENGTH = 4, 512, 8, 8192, 4, 256
process = ctypes.CDLL(None)


class Log:
    def __init__(self, path):
        self.path = path
        self.instants, self.more = [], {}

    def __call__(self, instant, **more):
        """The card and PyTorch's counters at an instant, which is a mark of the recording too."""
        torch.cuda.synchronize()
        if hasattr(process, "vramshim_mark"):
            process.vramshim_mark(instant.encode())
        free, total = torch.cuda.mem_get_info()
        counted = {"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()}
        self.instants.append({"name": instant, "free": free, "total": total, **counted})
        self.more.update(more)
        self.write()

    def write(self):
        stats = torch.cuda.memory_stats()
        counted = {name: stats[name] for name in stats if name.startswith("num_") or name.endswith(".all.allocated")}
        peaks = {"max_allocated": torch.cuda.max_memory_allocated(), "max_reserved": torch.cuda.max_memory_reserved()}
        with open(self.path, "w") as file:
            json.dump({**peaks, "stats": counted, "instants": self.instants, **self.more}, file)


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.mlp = nn.Sequential(nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        if self.attention == "sdpa":
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        else:  # no operator whose backward is not deterministic
            mixed = torch.softmax(q @ k.transpose(-1, -2) * (HIDDEN // HEADS) ** -0.5, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, attention="eager"):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.Sequential(*(Block(attention) for _ in range(LAYERS)))
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens):
        logits = self.head(self.blocks(self.embedding(tokens)))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())


def made(attention="eager"):
    torch.manual_seed(1)
    model = Model(attention)  # on the host: the same numbers wherever it then goes
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    return model.cuda(), tokens.cuda(), torch.optim.AdamW


def one_step(model, optimizer, tokens, log=None, step=0):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(tokens)
    if log:
        log(f"forward {step}")
    loss.backward()
    if log:
        log(f"backward {step}")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if log:
        log(f"optimizer {step}")
    return loss


def checksum(model):
    """Of every bit of every weight."""
    return [int(p.detach().contiguous().view(torch.int32).to(torch.int64).sum()) for p in model.parameters()]


def train(log, steps):
    model, tokens, adamw = made()
    optimizer = adamw(model.parameters(), lr=1e-3)
    log("model")
    losses, times = [], []
    for step in range(steps):
        # The first steps are looked at closely, the others are for the clock.
        started = time.perf_counter()
        loss = one_step(model, optimizer, tokens, log if step < 2 else None, step)
        torch.cuda.synchronize()
        if step >= 5:
            times.append(time.perf_counter() - started)
        losses.append(loss.item().hex())
    log("end", losses=losses, checksum=checksum(model), step_s=times)


def step(log):
    train(log, 60)


def few_steps(log):
    train(log, 6)


def mixed(log):
    """What the card's own libraries decide: fused attention, convolutions."""
    model, tokens, adamw = made("sdpa")
    optimizer = adamw(model.parameters(), lr=1e-3)
    for _ in range(3):
        one_step(model, optimizer, tokens)
    log("transformer")
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, stride=2)).cuda()
    for _ in range(3):
        net(torch.randn(8, 3, 96, 96, device="cuda")).float().square().mean().backward()
    log("convolutions")


def graphs(log):
    """A step captured and replayed."""
    model, tokens, _ = made()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(tokens).backward()
            model.zero_grad(set_to_none=True)
    torch.cuda.current_stream().wait_stream(side)
    log("before the capture")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = model(tokens)
        loss.backward()
    log("after the capture")
    losses = []
    for _ in range(3):
        graph.replay()
        losses.append(loss.item().hex())
    log(
        "end", losses=losses, checksum=[int(p.grad.view(torch.int32).to(torch.int64).sum()) for p in model.parameters()]
    )


def endless(log):
    model, tokens, adamw = made()
    optimizer = adamw(model.parameters(), lr=1e-3)
    for number in range(1000000):
        one_step(model, optimizer, tokens)
        torch.cuda.synchronize()
        if number in (5, 6):
            log(f"step {number}")
        if number == 6:
            print("training", flush=True)


def out_of_memory(log):
    model, tokens, adamw = made()
    optimizer = adamw(model.parameters(), lr=1e-3)
    one_step(model, optimizer, tokens)
    log("trained")
    total = torch.cuda.get_device_properties(0).total_memory
    kept = []
    while True:  # what does not fit is asked for while the rest is held, as a too large batch would
        kept.append(torch.empty(total // 16, dtype=torch.uint8, device="cuda"))


def told(question):
    """Builds of PyTorch lack this and that."""
    try:
        return question()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def describe(log):
    """The machine as PyTorch sees it."""
    properties = torch.cuda.get_device_properties(0)
    torch.zeros(1, device="cuda")
    log(
        "context",
        torch=torch.__version__,
        cuda=torch.version.cuda,
        cudnn=told(torch.backends.cudnn.version),
        nccl=told(torch.cuda.nccl.version),
        settings=told(
            lambda: torch.cuda.memory.memory_snapshot() and torch._C._cuda_memorySnapshot(None)["allocator_settings"]
        ),
        python=sys.version,
        name=properties.name,
        capability=[properties.major, properties.minor],
        total=properties.total_memory,
        multiprocessors=properties.multi_processor_count,
        devices=torch.cuda.device_count(),
        transformers=importlib.util.find_spec("transformers") is not None,
    )


JOBS = {job.__name__: job for job in (step, few_steps, mixed, graphs, endless, out_of_memory, describe)}


def main():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    JOBS[sys.argv[1]](Log(sys.argv[2]))


if __name__ == "__main__":
    main()
