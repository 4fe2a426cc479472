#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One job of the grid at a given batch and sequence: extrapolate_job.py NUMBER --batch B --seq S. Prints PyTorch's own
peak of allocated bytes."""
import argparse

import grid_run

JOBS = [
    dict(model="llama", precision="bf16", attention="sdpa", checkpointing="none", optimizer="adamw"),
    dict(model="llama", precision="bf16", attention="sdpa", checkpointing="full", optimizer="adamw"),
    dict(model="llama-gqa", precision="bf16", attention="eager", checkpointing="none", optimizer="adamw-fused"),
    dict(model="llama-gqa", precision="amp", attention="sdpa", checkpointing="none", optimizer="adamw"),
    dict(model="qwen3", precision="bf16", attention="eager", checkpointing="full", optimizer="sgd"),
    dict(model="qwen3", precision="fp32", attention="sdpa", checkpointing="none", optimizer="sgd-momentum"),
    dict(model="gpt2", precision="amp", attention="eager", checkpointing="none", optimizer="adamw"),
    dict(model="gpt2", precision="bf16", attention="sdpa", checkpointing="full", optimizer="adamw-loop"),
    dict(model="bert", precision="fp32", attention="eager", checkpointing="none", optimizer="adamw"),
    dict(model="bert", precision="amp", attention="sdpa", checkpointing="full", optimizer="adamw-fused"),
]

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    options = parser.parse_args()
    job = dict(JOBS[options.number], batch=options.batch, seq=options.seq)
    print(grid_run.run(job)["peak_allocated"])
