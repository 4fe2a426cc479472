# SPDX-License-Identifier: MIT
"""What the job itself knows of its memory: PyTorch's counters, and which blocks hold weights, gradients, optimizer
states and inputs at each mark. Written as JSON at every mark, so that a job which is killed leaves it too."""
import ctypes
import json

import torch

_process = ctypes.CDLL(None)


def vramshim_mark(name):
    """The recorder's mark, where the job runs under it."""
    if hasattr(_process, "vramshim_mark"):
        _process.vramshim_mark(name.encode())


def _blocks(tensors):
    """Address of each tensor's storage on the GPU: block sizes are the recorder's business, PyTorch rounds them."""
    found = {}
    for tensor in tensors:
        if tensor is None:
            continue
        if hasattr(tensor, "to_local"):
            tensor = tensor.to_local()
        storage = tensor.untyped_storage()
        if tensor.is_cuda and storage.nbytes():
            found[hex(storage.data_ptr())] = storage.nbytes()
    return found


def _states(optimizer):
    for state in optimizer.state.values():
        for value in state.values():
            if torch.is_tensor(value):
                yield value


class Truth:
    def __init__(self, path):
        self.path = path
        self.marks = {}

    def mark(self, name, model=None, optimizer=None, inputs=()):
        tags = {}
        if model is not None:
            tags["weights"] = _blocks([*model.parameters(), *model.buffers()])
            tags["gradients"] = _blocks(p.grad for p in model.parameters())
        if optimizer is not None:
            tags["optimizer"] = _blocks(_states(optimizer))
        tags["inputs"] = _blocks(inputs)
        self.marks[name] = {"tags": tags, "allocated": torch.cuda.memory_allocated()}
        vramshim_mark(name)
        self.write()

    def write(self):
        """Counters are read first: writing allocates nothing on the GPU."""
        stats = torch.cuda.memory_stats()
        with open(self.path, "w") as file:
            json.dump(
                {
                    "max_allocated": torch.cuda.max_memory_allocated(),
                    "max_reserved": torch.cuda.max_memory_reserved(),
                    "allocated": torch.cuda.memory_allocated(),
                    "reserved": torch.cuda.memory_reserved(),
                    "allocations": stats["allocation.all.allocated"],
                    "frees": stats["allocation.all.freed"],
                    "ooms": stats["num_ooms"],
                    "marks": self.marks,
                },
                file,
            )
