#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs jobs of the grid (all, or those whose label contains every word given) on the device at hand and prints a JSON
line each: PyTorch's own counters of two steps."""
import contextlib
import gc
import json
import sys

import torch
import transformers

import grid_jobs


def build(job):
    raw = dict(grid_jobs.MODELS[job["model"]])
    names = raw.pop("architectures", None)
    config = transformers.AutoConfig.for_model(**raw)
    config._attn_implementation = job["attention"]
    config.use_cache = False
    torch.set_default_dtype(torch.bfloat16 if job["precision"] == "bf16" else torch.float32)
    with torch.device("cuda"):
        if names:
            model = getattr(transformers, names[0])(config)
        else:
            model = transformers.AutoModelForCausalLM.from_config(config)
    torch.set_default_dtype(torch.float32)
    if job["checkpointing"] == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if job.get("lora"):
        import peft

        adapters = peft.LoraConfig(task_type="CAUSAL_LM", r=job["lora"], target_modules=["q_proj", "v_proj"])
        model = peft.get_peft_model(model, adapters)
    return model.train()


def optimizer_of(job, parameters):
    name = job["optimizer"]
    if name.startswith("sgd"):
        momentum = 0.9 if name == "sgd-momentum" else 0.0
        return torch.optim.SGD(parameters, lr=1e-3, momentum=momentum, weight_decay=job.get("decay", 0.0))
    options = {"adamw": {}, "adamw-fused": {"fused": True}, "adamw-loop": {"foreach": False}}[name]
    return torch.optim.AdamW(parameters, lr=1e-4, **options)


def inputs_of(job, model):
    if job["model"] == "vit":
        size = model.config.image_size
        dtype = torch.bfloat16 if job["precision"] == "bf16" else torch.float32
        return dict(
            pixel_values=torch.zeros(job["batch"], 3, size, size, device="cuda", dtype=dtype),
            labels=torch.zeros(job["batch"], device="cuda", dtype=torch.long),
        )
    tokens = torch.zeros(job["batch"], job["seq"], device="cuda", dtype=torch.long)
    return dict(input_ids=tokens, labels=tokens)


def train_step(job, model, optimizer, inputs):
    autocast = contextlib.nullcontext()
    if job["precision"] == "amp":
        autocast = torch.autocast("cuda", dtype=torch.bfloat16)
    optimizer.zero_grad(set_to_none=True)
    with autocast:
        loss = model(**inputs).loss
    loss.backward()
    optimizer.step()


def run(job, record=False):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    model = build(job)
    count = sum(p.numel() for p in model.parameters())
    optimizer = optimizer_of(job, list(model.parameters()))
    inputs = inputs_of(job, model)
    for _ in range(2):
        train_step(job, model, optimizer, inputs)
    peak = torch.cuda.max_memory_allocated() - before
    result = dict(
        job=job, parameters=count, peak_allocated=peak, peak_reserved=torch.cuda.max_memory_reserved(), before=before
    )
    if record:
        torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")
        train_step(job, model, optimizer, inputs)
        result["snapshot"] = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(enabled=None)
    return result


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--job"]:  # one that is in no grid, as JSON
        print(json.dumps(run(json.loads(words[1]))), flush=True)
        sys.exit()
    extra = "--extra" in words
    words = [word for word in words if word != "--extra"]
    for job in grid_jobs.extra_jobs() if extra else grid_jobs.jobs():
        if all(word in grid_jobs.label(job).split() for word in words):
            print(json.dumps(run(job)), flush=True)
