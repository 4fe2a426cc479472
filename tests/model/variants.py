#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the grid does not vary: optimizers that PyTorch or a few lines of Python offer, an averaged copy of the weights,
attention that is computed again, a loss in pieces. Each runs on the simulated device and is planned. Exit status 1 when
one is off by more than 3 %.

    tests/model/variants.py --build BUILD --python PYTHON [NAME...]"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here))
import grid_jobs  # noqa: E402

BASE = dict(
    model="llama", precision="bf16", attention="sdpa", checkpointing="none", optimizer="sgd", batch=2, seq=1024
)
# Few tokens: the peak is in the optimizer's step.
SMALL = dict(batch=1, seq=128)
# What differs from BASE, as plan's flags.
VARIANTS = {
    "lion": dict(optimizer="lion", **SMALL),
    "muon": dict(optimizer="muon", **SMALL),
    "adafactor": dict(optimizer="adafactor", **SMALL),
    "adamw-8bit": dict(optimizer="adamw-8bit", **SMALL),
    "ema": dict(ema=True, optimizer="sgd-momentum"),
    "selective": dict(attention="eager", checkpointing="selective"),
    "fused-loss": {"loss-chunks": 16},
    "accumulation": dict(accumulate=4, optimizer="adamw"),
    "held-outputs": {"hold-outputs": True},
    "sgd-decay": {"l2-decay": True, **SMALL},
    "adam-decay": {"l2-decay": True, "optimizer": "adamw", **SMALL},
}


def lion(torch, parameters):
    """Lines of lion-pytorch 0.2.5, update_fn()."""

    class Lion(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    if "exp_avg" not in self.state[p]:
                        self.state[p]["exp_avg"] = torch.zeros_like(p)
                    average = self.state[p]["exp_avg"]
                    p.mul_(0.9999)
                    update = average.clone().mul_(0.9).add(p.grad, alpha=0.1).sign_()
                    p.add_(update, alpha=-1e-4)
                    average.mul_(0.99).add_(p.grad, alpha=0.01)

    return [Lion(parameters, {})]


def optimizers_of(name, decay, model):
    import torch

    parameters = list(model.parameters())
    if name == "lion":
        return lion(torch, parameters)
    if name == "muon":  # as its documentation shows it
        return [
            torch.optim.Muon([p for p in parameters if p.ndim == 2]),
            torch.optim.AdamW([p for p in parameters if p.ndim != 2]),
        ]
    if name == "adafactor":
        return [torch.optim.Adafactor(parameters)]
    if name == "adamw-8bit":
        import bitsandbytes

        return [bitsandbytes.optim.AdamW8bit(parameters)]
    import grid_run

    if decay and name == "adamw":  # Adam is AdamW but for its decay
        return [torch.optim.Adam(parameters, weight_decay=0.01)]
    return [grid_run.optimizer_of(dict(optimizer=name, decay=0.01 * decay), parameters)]


def recompute_attention():
    """Megatron's "selective": the scores and what is made of them are not kept, query, key and value are."""
    import torch
    from transformers.models.llama import modeling_llama

    plain = modeling_llama.eager_attention_forward

    def attention(module, query, key, value, mask, **options):
        return torch.utils.checkpoint.checkpoint(
            plain, module, query, key, value, mask, use_reentrant=False, **options
        )

    modeling_llama.eager_attention_forward = attention


def loss_in_pieces(model, inputs, pieces):
    """Gradients of the head are made in the forward, piece by piece: the scheme of Liger's fused linear cross entropy,
    whose kernel turns the logits into their gradient where they are."""
    import torch

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(context, hidden, weight, labels):
            loss = torch.zeros(len(hidden), device="cuda", dtype=torch.float32)
            grad_hidden, grad_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
            size = (len(hidden) + pieces - 1) // pieces
            logits = torch.empty(size, len(weight), dtype=hidden.dtype, device="cuda")
            for start in range(0, len(hidden), size):
                rows = hidden[start : start + size]
                torch.mm(rows, weight.t(), out=logits)
                torch.mm(logits, weight, out=grad_hidden[start : start + size])
                grad_weight.addmm_(logits.t(), rows)
            context.save_for_backward(grad_hidden, grad_weight)
            return loss.sum()

        @staticmethod
        def backward(context, _):
            grad_hidden, grad_weight = context.saved_tensors
            return grad_hidden, grad_weight, None

    hidden = model.model(inputs["input_ids"])[0]
    return Loss.apply(hidden.view(-1, hidden.shape[-1]), model.lm_head.weight, inputs["labels"])


def job(name):
    import torch

    import grid_run

    variant = VARIANTS[name]
    settings = {**BASE, **variant}
    if name == "selective":
        recompute_attention()
    model = grid_run.build(settings)
    optimizers = optimizers_of(settings["optimizer"], "l2-decay" in variant, model)
    average = None
    if "ema" in variant:
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)
        )
    inputs = grid_run.inputs_of(settings, model)
    torch.cuda.reset_peak_memory_stats()
    output = None
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        for _ in range(variant.get("accumulate", 1)):
            if "loss-chunks" in variant:
                loss = loss_in_pieces(model, inputs, variant["loss-chunks"])
            elif "hold-outputs" in variant:
                output = model(**inputs)
                loss = output.loss
            else:
                loss = model(**inputs).loss
            loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if average:
            average.update_parameters(model)
    del output
    print(torch.cuda.max_memory_allocated())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=here.parent.parent / "build")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--counts", type=pathlib.Path, help="write PASSED FAILED SKIPPED here")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    errors = []
    with tempfile.TemporaryDirectory() as name:
        config = pathlib.Path(name) / "config.json"
        config.write_text(json.dumps(grid_jobs.MODELS[BASE["model"]]))
        for variant in options.names or VARIANTS:
            run = subprocess.run(
                [options.build / "tools/vramrun", "-o", f"{name}/{variant}", "--simulate", "a100-80", "--"]
                + [options.python, __file__, "--job", variant],
                capture_output=True, text=True,
            )
            if not grid_jobs.finished(run):
                sys.exit(f"{variant}: {run.stderr[-2000:]}")
            measured = int(run.stdout.split()[-1])
            flags = {key: value for key, value in {**BASE, **VARIANTS[variant]}.items() if key != "model"}
            command = [options.build / "tools/vramreport", "plan", "--json", "--config", config, "--gpu", "a100-80"]
            for flag, value in flags.items():
                command += [f"--{flag}"] + [str(value)] * (value is not True)
            plan = subprocess.run(command, capture_output=True, text=True)
            if not plan.stdout:
                sys.exit(f"{variant}: {plan.stderr}")
            peak = json.loads(plan.stdout)["peak"]
            error = peak["refined_bytes"] / measured - 1
            errors.append(abs(error))
            print(f"{variant:12} {measured / 2**20:9.1f} MiB {100 * error:+.2f} %  {peak['instant']}", flush=True)
    good = sum(error <= 0.03 for error in errors)
    if options.counts:
        options.counts.write_text(f"{good} {len(errors) - good} 0\n")
    print(f"worst {100 * max(errors):.2f} %")
    sys.exit(0 if good == len(errors) else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        job(sys.argv[2])
    else:
        main()
