# SPDX-License-Identifier: MIT
"""One rank of many: PyTorch's fake process group answers for the others."""
import contextlib

import torch

import models
from zoo_models import adamw, text, train

RANKS = 8


@contextlib.contextmanager
def ranks(backend="fake"):
    """The simulated NCCL waits for nobody: it needs a store, but no other rank in it."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group(backend, store=FakeStore() if backend == "fake" else dist.HashStore(), rank=0, world_size=RANKS)
    yield
    dist.destroy_process_group()


def ddp(views):
    def job(roles):
        with ranks("nccl"):
            model = torch.nn.parallel.DistributedDataParallel(
                models.llama(), device_ids=[0], gradient_as_bucket_view=views
            )
            train(roles, model, adamw(model), lambda: text(model.module)())

    return job


def fsdp2(roles):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    with ranks():
        model = models.llama()
        mesh = init_device_mesh("cuda", (RANKS,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        train(roles, model, adamw(model), text(model), inside=False)


def fsdp2_mixed(roles):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    with ranks():
        model = models.llama()
        mesh = init_device_mesh("cuda", (RANKS,))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        train(roles, model, adamw(model), text(model), inside=False)


def tensor_parallel(roles):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel as tp

    with ranks():
        model = models.llama(num_key_value_heads=8)  # a head for each rank
        roles.watch(model).mark("whole 0")
        mesh = init_device_mesh("cuda", (RANKS,))
        column, row = tp.ColwiseParallel, tp.RowwiseParallel
        plan = {f"self_attn.{name}_proj": column() for name in "qkv"}
        plan.update({"self_attn.o_proj": row(), "mlp.gate_proj": column(), "mlp.up_proj": column(), "mlp.down_proj": row()})
        for layer in model.model.layers:
            tp.parallelize_module(layer, mesh, plan)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)  # DTensors and tensors do not mix
        train(roles, model, optimizer, text(model))


def fsdp1(roles):
    import functools

    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    with ranks():
        base = models.llama()
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})
        model = FullyShardedDataParallel(base, auto_wrap_policy=policy, device_id=0, use_orig_params=True)
        batch = text(base)
        train(roles, model, adamw(model), batch, inside=False)


JOBS = {
    "ddp": ddp(False),
    "ddp-views": ddp(True),
    "fsdp1": fsdp1,
    "fsdp2": fsdp2,
    "fsdp2-mixed": fsdp2_mixed,
    "tensor-parallel": tensor_parallel,
}
