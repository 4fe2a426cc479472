# SPDX-License-Identifier: MIT
"""One real training job: job.py NAME TRUTH_FILE. Knows nothing of how it is run; prints what a job prints."""
import os
import signal
import sys

import torch

import models
from truth import Truth

STEPS = 3


def adamw(model, **options):
    return torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4, **options)


def train(truth, model, optimizer, autocast=None, scaler=None):
    """The ordinary loop; marks lie between the phases, where the owner of each block is known."""
    for step in range(STEPS):
        ids = models.tokens(model)
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            loss = model(input_ids=ids, labels=ids).loss
        if scaler:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        truth.mark(f"backward {step}", model, optimizer, [ids])
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        truth.mark(f"optimizer {step}", model, optimizer, [ids])
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.4f}", flush=True)


def llama(truth):
    model = models.llama()
    train(truth, model, adamw(model, foreach=True))


def llama_fused(truth):
    model = models.llama(attention="eager").to(torch.bfloat16)
    train(truth, model, adamw(model, fused=True))


def llama_sgd(truth):
    model = models.llama()
    train(truth, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def llama_checkpointing(truth):
    model = models.llama()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    train(truth, model, adamw(model))


def gpt2(truth):
    model = models.gpt2()
    train(truth, model, adamw(model))


def gpt2_amp(truth):
    model = models.gpt2()
    train(truth, model, adamw(model), autocast=torch.float16, scaler=torch.amp.GradScaler("cuda"))


def bert(truth):
    model = models.bert()
    train(truth, model, adamw(model))


def lora(truth):
    import peft

    config = peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(models.llama().to(torch.bfloat16), config)
    train(truth, model, adamw(model))


def nf4(truth):
    import bitsandbytes
    import peft

    base = models.llama().to(torch.float16)
    for module in list(base.model.layers.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                linear = bitsandbytes.nn.Linear4bit(
                    child.in_features, child.out_features, bias=False, quant_type="nf4", compute_dtype=torch.float16
                )
                linear.weight = bitsandbytes.nn.Params4bit(
                    child.weight.detach().cpu(), requires_grad=False, quant_type="nf4", module=linear
                )
                setattr(module, name, linear.cuda())
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(base, config)
    train(truth, model, adamw(model))


def adam8bit(truth):
    import bitsandbytes

    model = models.llama()
    train(truth, model, bitsandbytes.optim.AdamW8bit(model.parameters(), lr=1e-4))


def fsdp2(truth):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    model = models.llama()
    mesh = init_device_mesh("cuda", (8,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(truth, model, adamw(model))
    dist.destroy_process_group()


def questions(truth):
    """What a simulated device answers: yes where all is as expected, no where something would be odd."""
    zeros = torch.zeros(4, device="cuda", dtype=torch.long)
    loss = torch.zeros((), device="cuda")
    assert (zeros == 0).all() and (zeros[:1] == 0).all() and zeros.sum() == 4
    assert not (zeros == 0).any() and not zeros.sum() != 4
    assert not torch.isnan(loss) and not torch.isinf(loss).any()
    assert loss.item() == 0
    truth.mark("asked")


def exit_status(truth):
    llama(truth)
    truth.write()
    sys.exit(7)


def out_of_memory(truth):
    """Does not fit a T4: 3 GiB of weights a time, until PyTorch says so. Its own error ends the job."""
    held = []
    while True:
        held.append(torch.empty(3 << 28, device="cuda"))
        truth.write()


def out_of_memory_caught(truth):
    try:
        out_of_memory(truth)
    except torch.OutOfMemoryError:
        print("caught", flush=True)
    torch.cuda.empty_cache()
    llama(truth)


def killed(truth):
    """SIGKILL in the middle of the second backward, without a chance to write anything after its counters."""
    model = models.llama()
    optimizer = adamw(model)
    backwards = []

    def die(gradient):
        backwards.append(1)
        if len(backwards) == 2:
            truth.write()
            os.kill(os.getpid(), signal.SIGKILL)

    model.model.layers[1].mlp.up_proj.weight.register_hook(die)
    train(truth, model, optimizer)


JOBS = {
    "llama": llama,
    "llama-fused": llama_fused,
    "llama-sgd": llama_sgd,
    "llama-checkpointing": llama_checkpointing,
    "llama-expandable": llama,
    "gpt2": gpt2,
    "gpt2-amp": gpt2_amp,
    "bert": bert,
    "lora": lora,
    "nf4": nf4,
    "adam8bit": adam8bit,
    "fsdp2": fsdp2,
    "questions": questions,
    "exit-status": exit_status,
    "out-of-memory": out_of_memory,
    "out-of-memory-caught": out_of_memory_caught,
    "killed": killed,
}


def main():
    name, path = sys.argv[1:]
    torch.manual_seed(0)
    truth = Truth(path)
    JOBS[name](truth)
    truth.write()
    print("peak", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


if __name__ == "__main__":
    main()
