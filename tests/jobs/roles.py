# SPDX-License-Identifier: MIT
"""Ground truth for tests: at a named mark, what each storage alive on the GPU truly is, as the job itself can prove it:
parameters and buffers, .grad, optimizer state, tensors saved for the backward, the batch, results that are held, caches.
A storage may have several true names (logits are saved for the backward and held by a variable): `tags` lists them all.

The one thing it adds to a job is a pair of saved-tensor hooks, which allocate nothing and hold exactly what PyTorch
would have held, exactly as long. What nobody can prove (temporaries, workspaces) is left out."""
import contextlib
import ctypes
import gc
import json
import sys
import threading
import time
import weakref

import torch

_process = ctypes.CDLL(None)


def recorder_mark(name):
    """The recorder's mark, where the job runs under it; a named range where PyTorch's profiler watches."""
    if hasattr(_process, "vramshim_mark"):
        _process.vramshim_mark(name.encode())
    with torch.profiler.record_function(f"mark:{name}"):
        pass


def saved(tensor):
    """What a saved-tensor hook hands to autograd: dies when the graph lets go of the tensor. A tensor and no object of
    Python's: where that dies, the interpreter's frames hide from the recorder who let go of it."""
    held = tensor.detach()
    # Of a parameter or a view of one: where it has been gathered from its shards, the parameter lets go first.
    held.of_weight = isinstance(tensor, torch.nn.Parameter) or isinstance(tensor._base, torch.nn.Parameter)
    return held


def tensors_in(value, depth=6):
    """All tensors in nested containers, and inside wrapper subclasses and quantized parameters."""
    if torch.is_tensor(value):
        if hasattr(value, "_local_tensor"):
            yield from tensors_in(value._local_tensor, depth)
            return
        if hasattr(value, "__tensor_flatten__"):
            for name in value.__tensor_flatten__()[0]:
                yield from tensors_in(getattr(value, name), depth)
            return
        yield value
        state = getattr(value, "quant_state", None)
        if state is not None:
            yield from tensors_in(vars(state), depth)
    elif depth and isinstance(value, dict):
        for item in list(value.values()):
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple, set)):
        for item in list(value):
            yield from tensors_in(item, depth - 1)
    elif depth and type(value).__name__ in ("QuantState", "_VersionWrapper"):
        yield from tensors_in(vars(value), depth - 1)


def storage_of(tensor):
    """Address and bytes of a tensor's storage on the GPU, or None."""
    if getattr(tensor, "is_paged", False) or not tensor.is_cuda:  # paged states are managed memory, not the allocator's
        return None
    try:
        storage = tensor.untyped_storage()
        return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() else None
    except (RuntimeError, NotImplementedError):
        return None


def bucket_bytes(model):
    """Of DDP's buckets, as far as no Python object has them: where gradients are views of them, each .grad does."""
    if type(model).__name__ != "DistributedDataParallel":
        return 0
    trained = [p for p in model.parameters() if p.requires_grad]
    known = {}
    if model.gradient_as_bucket_view:
        known = dict(storage_of(p.grad) for p in trained if p.grad is not None)
    return sum(p.numel() * p.element_size() for p in trained) - sum(known.values())


class Roles:
    def __init__(self, path, aside=False, after=None):
        """`aside`: look in a thread of its own, which a profiler of Python calls does not follow. `after` is called
        with the name of each mark."""
        self.path, self.aside, self.after = path, aside, after
        self.models, self.optimizers, self.extra = [], [], {}
        self.saved = weakref.WeakValueDictionary()
        self.marks = {}
        self.seconds = 0.0  # spent in here, to be taken off when runs are timed

    def watch(self, *models, optimizers=()):
        self.models += models
        self.optimizers += optimizers
        return self

    def know(self, tag, supplier):
        """Tensors that only the job can name: `supplier` is called at each mark and returns them, nested at will."""
        self.extra.setdefault(tag, []).append(supplier)

    @contextlib.contextmanager
    def hooks(self):
        def pack(tensor):
            held = saved(tensor)
            self.saved[id(held)] = held
            return held

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda held: held):
            yield

    def _in_python(self, frame):
        """Tensors that custom functions, checkpoints and FSDP keep in Python objects of their own."""
        while frame:  # CheckpointFunction.backward: the part that was computed again
            if frame.f_code.co_filename.endswith("torch/utils/checkpoint.py") and frame.f_code.co_name == "backward":
                yield "activations", [frame.f_locals.get("outputs"), frame.f_locals.get("detached_inputs")]
            frame = frame.f_back
        for thing in gc.get_objects():
            kind = type(thing).__name__
            if issubclass(type(thing), torch.autograd.function.FunctionCtx):  # isinstance() asks proxies, which may be dead
                if getattr(thing, "__dict__", None):
                    yield "activations", vars(thing)
            elif kind == "_CheckpointFrame":
                yield "activations", [list(handles.values()) for handles in thing.recomputed.values()]
            elif kind == "FSDPParam":
                # While a parameter is gathered, its shard is no parameter of the model's.
                yield "weights", [thing.all_gather_outputs, getattr(thing, "_sharded_param_data", None)]
                yield "gradients", [getattr(thing, "unsharded_accumulated_grad", None)]
            elif kind == "FlatParamHandle":
                flat = thing.flat_param
                for name in ("_full_param_padded", "_local_shard", "_mp_shard", "_full_prec_full_param_padded"):
                    yield "weights", getattr(flat, name, None)
                yield "gradients", [getattr(flat, "_saved_grad_shard", None), flat.grad]

    def mark(self, name, inputs=(), outputs=(), caches=()):
        started = time.perf_counter()
        arguments = (name, inputs, outputs, caches, sys._getframe())
        if self.aside:
            thread = threading.Thread(target=self._look, args=arguments)
            thread.start()
            thread.join()
        else:
            self._look(*arguments)
        del arguments  # the frame holds the job's variables
        recorder_mark(name)
        if self.after:
            self.after(name)
        self.seconds += time.perf_counter() - started

    def _look(self, name, inputs, outputs, caches, frame):
        found = {}

        def add(tag, value):
            for tensor in tensors_in(value):
                storage = storage_of(tensor)
                if storage:
                    known = found.setdefault(storage[0], {"bytes": 0, "tags": []})
                    known["bytes"] = max(known["bytes"], storage[1])
                    if tag not in known["tags"]:
                        known["tags"].append(tag)
                    if tensor.grad_fn is not None:
                        known["graph"] = True

        for model in self.models:
            add("weights", list(model.parameters()) + list(model.buffers()))
            add("gradients", [parameter.grad for parameter in model.parameters()])
        for optimizer in self.optimizers:
            for state in list(optimizer.state.values()):
                add("optimizer", state)
        for tag, suppliers in self.extra.items():
            for supplier in suppliers:
                add(tag, supplier())
        add("inputs", inputs)
        add("outputs", outputs)
        add("activations", caches)
        known_to_python = [(tag, list(tensors_in(value))) for tag, value in self._in_python(frame)]
        for tag, tensors in known_to_python:
            if tag != "activations":
                add(tag, tensors)
        kept = {}
        for held in list(self.saved.values()):
            for tensor in tensors_in(held):
                storage = storage_of(tensor)
                if storage:
                    kept[storage[0]] = (storage[1], held.of_weight)
        owned = {address for address, known in found.items() if set(known["tags"]) - {"outputs"}}
        for address, (size, weight) in kept.items():  # a weight that is saved for the backward remains a weight
            if address not in owned:
                known = found.setdefault(address, {"bytes": size, "tags": []})
                known["tags"].append("weights" if weight else "activations")
        before = set(found)
        for tag, tensors in known_to_python:
            for tensor in tensors:
                storage = storage_of(tensor)
                if storage and storage[0] not in before:
                    known = found.setdefault(storage[0], {"bytes": storage[1], "tags": []})
                    if tag not in known["tags"]:
                        known["tags"].append(tag)
        self.marks[name] = {
            "blocks": {hex(address): known for address, known in found.items()},
            "allocated": torch.cuda.memory_allocated(),
            "buckets": sum(map(bucket_bytes, self.models)),
        }
        self.write()

    def write(self, **more):
        with open(self.path, "w") as file:
            json.dump({"marks": self.marks, **more}, file)


class Silence:
    """In the place of Roles: the marks, and nothing else. The job is then as its author wrote it."""

    seconds = 0.0

    def __init__(self, path):
        self.path = path

    def watch(self, *_, **__):
        return self

    def know(self, *_):
        pass

    def hooks(self):
        return contextlib.nullcontext()

    def mark(self, name, **_):
        recorder_mark(name)

    def write(self, **more):
        with open(self.path, "w") as file:
            json.dump(more, file)
