#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vramreport compare without a word about the model or the job, but batch and sequence: what it infers from the
recording against what was run. Exit status 1 where something is inferred wrongly, or the refined estimate from inferred
sizes is off by more than 3 %.

    tests/model/inferred.py --build BUILD --python PYTHON [NUMBER...]"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here))
import grid_jobs  # noqa: E402


def job(model, precision, attention, checkpointing, optimizer, batch=2, seq=512):
    return dict(model=model, precision=precision, attention=attention, checkpointing=checkpointing,
                optimizer=optimizer, batch=batch, seq=seq)


JOBS = [
    job("llama", "bf16", "sdpa", "none", "adamw"),
    job("llama", "fp32", "eager", "full", "adamw-fused"),
    job("llama-gqa", "amp", "sdpa", "full", "sgd-momentum"),
    job("llama-gqa", "bf16", "eager", "none", "adamw-loop"),
    job("qwen3", "bf16", "sdpa", "none", "adamw"),
    job("qwen2", "fp32", "sdpa", "none", "sgd"),
    job("mistral", "amp", "eager", "none", "adamw"),
    job("gemma", "bf16", "sdpa", "full", "adamw-fused"),
    job("gpt2", "bf16", "sdpa", "none", "adamw"),
    job("bert", "amp", "sdpa", "none", "adamw"),
    job("vit", "fp32", "sdpa", "none", "sgd"),
    dict(job("llama-gqa", "bf16", "sdpa", "none", "adamw"), lora=16),
    job("llama-narrow", "bf16", "sdpa", "none", "adamw"),
    dict(job("llama", "bf16", "sdpa", "none", "sgd"), decay=0.01),
]
# Flags of compare that say no more than a run's own command line often does.
SAID = ("batch", "seq")
KEYS = dict(
    layers=("num_hidden_layers", "n_layer"), hidden=("hidden_size", "n_embd"), heads=("num_attention_heads", "n_head"),
    kv_heads=("num_key_value_heads", "num_attention_heads", "n_head"), ffn=("intermediate_size",),
    vocab=("vocab_size",),
)
NO_SHAPE = ("vit",)  # its image's size is in no block


def wrong(answer, job):
    """What is not as it was run, in words. A size whose tensors come out as the same blocks is as good: those of 10 MiB
    and more, which have segments of their own."""
    model, found = answer["model"], []
    for key in ("precision", "optimizer", "checkpointing", "attention"):
        if model[key] != job[key]:
            found.append(f"{key} {model[key]} instead of {job[key]}")
    if model["l2_decay"] != ("decay" in job):
        found.append("weight decay on the gradients" if model["l2_decay"] else "no weight decay on the gradients")
    if model["lora_rank"] != job.get("lora", 0):
        found.append(f"adapters of rank {model['lora_rank']} instead of {job.get('lora', 0)}")
    config = grid_jobs.MODELS[job["model"]]
    if job["model"] in NO_SHAPE:
        return found
    width = 4 if job["precision"] != "bf16" else 2
    for key, names in KEYS.items():
        truth = next((config[name] for name in names if name in config), None) or 4 * config.get("n_embd", 0)
        row = model.get("hidden", 1) * width
        large = key in ("ffn", "vocab") and truth * row >= 10 << 20
        same = large and abs(model.get(key, 0) - truth) * row <= 1 << 20
        if model.get(key) != truth and not same:
            found.append(f"{key} {model.get(key)} instead of {truth}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=here.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--keep", type=pathlib.Path, help="keep the recordings here, and use those that are there")
    parser.add_argument("--counts", type=pathlib.Path, help="write PASSED FAILED SKIPPED here")
    parser.add_argument("numbers", nargs="*", type=int)
    options = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or pathlib.Path(name)
        for number in options.numbers or range(len(JOBS)):
            job = JOBS[number]
            run = folder / f"run{number}"
            if not run.exists():
                out = subprocess.run(
                    [options.build / "tools/vramrun", "-o", run, "--simulate", "a100-80", "--", options.python]
                    + [here / "grid_run.py", "--job", json.dumps(job)],
                    capture_output=True, text=True,
                )
                if not grid_jobs.finished(out):
                    sys.exit(out.stderr[-2000:])
            command = [options.build / "tools/vramreport", "compare", run, "--json"]
            for flag in SAID if job["model"] != "vit" else ("batch",):
                command += [f"--{flag}", str(job[flag])]
            out = subprocess.run(command, capture_output=True, text=True)
            if not out.stdout:
                sys.exit(f"{grid_jobs.label(job)}: {out.stderr}")
            answer = json.loads(out.stdout)
            peak = answer["peak"]
            found = wrong(answer, job)
            error = (peak["refined_bytes"] or 0) / peak["measured_bytes"] - 1
            if job["model"] in NO_SHAPE:
                said = "no refined estimate" if peak["refined_bytes"] is None else "a refined estimate of what?"
                good = peak["refined_bytes"] is None
            else:
                said = f"refined {100 * error:+.2f} %"
                good = abs(error) <= 0.03
            good = good and not found
            passed, failed = passed + good, failed + (not good)
            print(f"{grid_jobs.label(job)}  {said}  {'; '.join(found) or 'all as it was run'}", flush=True)
    if options.counts:
        options.counts.write_text(f"{passed} {failed} 0\n")
    print(f"{passed} of {passed + failed} jobs inferred as they were run")
    sys.exit(1 if failed else 0)


main()
