# SPDX-License-Identifier: MIT
"""Jobs that do not train as others do: not at all, not all of their models, or from deep inside other code. Of those in
UNKNOWN, too little shows for the bars: what is asked of them is that nothing wrong is said (tags_bad_input.py)."""
import torch

import models
from zoo_models import STEPS, adamw, text, train
from zoo_optimizers import Zwiebel, by_hand


def inference(roles):
    """No backward ever, and no generation: scores of batches, the last of which is held."""
    model = models.bert().eval()
    roles.watch(model)
    with torch.no_grad():
        for step in range(4):
            ids = models.tokens(model)
            scores = model(input_ids=ids).logits
            roles.mark(f"scored {step}", inputs=ids, outputs=scores)


def never_trained(roles):
    """Built, moved to the GPU, an optimizer made: and then the job ends."""
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
    roles.watch(model, optimizers=[adamw(model)])
    roles.mark("built 0")
    more = models.gpt2()
    roles.watch(more)
    roles.mark("built 1")


def distillation(roles):
    """A teacher that only looks, and a pupil that learns from it."""
    teacher, pupil = models.llama(num_hidden_layers=6).eval().requires_grad_(False), models.llama(num_hidden_layers=2)
    optimizer = adamw(pupil)
    roles.watch(teacher, pupil, optimizers=[optimizer])
    batch = text(pupil)
    for step in range(STEPS):
        inputs = batch()
        with torch.no_grad():
            wanted = teacher(input_ids=inputs["input_ids"]).logits
        found = pupil(input_ids=inputs["input_ids"]).logits
        loss = torch.nn.functional.kl_div(
            found.log_softmax(-1), wanted.log_softmax(-1), log_target=True, reduction="batchmean"
        )
        held = {"inputs": inputs, "outputs": [wanted, found, loss]}
        roles.mark(f"forward {step}", **held)
        loss.backward()
        roles.mark(f"backward {step}", **held)
        optimizer.step()
        roles.mark(f"optimizer {step}", **held)
        optimizer.zero_grad()
        roles.mark(f"zero_grad {step}", **held)


def two_optimizers(roles):
    """One model, its embedding and the rest in optimizers of two kinds."""
    model = models.gpt2()
    embedding = list(model.transformer.wte.parameters())
    rest = [p for p in model.parameters() if not any(p is e for e in embedding)]
    parts = [torch.optim.SGD(embedding, lr=0.1, momentum=0.9), torch.optim.AdamW(rest, lr=1e-4)]
    roles.watch(model, optimizers=parts)
    batch = text(model)
    for step in range(STEPS):
        inputs = batch()
        loss = model(**inputs).loss
        held = {"inputs": inputs, "outputs": loss}
        roles.mark(f"forward {step}", **held)
        loss.backward()
        roles.mark(f"backward {step}", **held)
        for part in parts:
            part.step()
        roles.mark(f"optimizer {step}", **held)
        for part in parts:
            part.zero_grad()
        roles.mark(f"zero_grad {step}", **held)


def deep(job):
    """`job`, called from below more frames than the recorder keeps."""

    def call(roles, depth):
        return call(roles, depth - 1) if depth else job(roles)

    return lambda roles: call(roles, 300)


def ordinary(roles):
    model = models.llama()
    train(roles, model, adamw(model), text(model))


def inference_by_hand(roles):
    """No module and no backward: nothing tells weights from data."""
    layers = [torch.randn(512, 512, device="cuda") for _ in range(4)]
    roles.know("weights", lambda: layers)
    with torch.no_grad():
        for step in range(4):
            batch = hidden = torch.rand(64, 512).cuda()
            for layer in layers:
                hidden = torch.relu(hidden @ layer)
            roles.mark(f"scored {step}", inputs=batch, outputs=hidden)


JOBS = {
    "inference": inference,
    "never-trained": never_trained,
    "distillation": distillation,
    "two-optimizers": two_optimizers,
    "deep": deep(ordinary),
}
UNKNOWN = {"inference-by-hand": inference_by_hand, "deep-by-hand": deep(by_hand(Zwiebel))}
