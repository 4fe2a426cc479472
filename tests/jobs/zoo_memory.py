# SPDX-License-Identifier: MIT
"""Ways to trade memory for time, and uses of a model that are not one step after another."""

import torch
import transformers

import models
from zoo_models import STEPS, adamw, inside_backward, middle, text, train


def accumulation(set_to_none):
    def job(roles):
        model = models.llama()
        optimizer = adamw(model)
        batch = text(model)
        roles.watch(model, optimizers=[optimizer])
        context = {}
        inside_backward(roles, middle(model), context)
        for step in range(STEPS):
            for micro in range(2):
                inputs = batch()
                loss = model(**inputs).loss / 2
                context.update(step=f"{step}.{micro}", inputs=inputs, outputs=loss)
                roles.mark(f"forward {step}.{micro}", inputs=inputs, outputs=loss)
                loss.backward()
                roles.mark(f"backward {step}.{micro}", inputs=inputs, outputs=loss)
            optimizer.step()
            roles.mark(f"optimizer {step}", inputs=inputs, outputs=loss)
            optimizer.zero_grad(set_to_none=set_to_none)
            roles.mark(f"zero_grad {step}", inputs=inputs, outputs=loss)

    return job


def checkpointing(reentrant):
    def job(roles):
        model = models.llama()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        if reentrant:
            model.enable_input_require_grads()
        train(roles, model, adamw(model), text(model))

    return job


def selective(roles):
    """Matrix products are kept, the rest is computed again."""
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    kept = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}
    stored = []

    def policy(_, operator, *__, **___):
        return CheckpointPolicy.MUST_SAVE if operator in kept else CheckpointPolicy.PREFER_RECOMPUTE

    def contexts():
        pair = create_selective_checkpoint_contexts(policy)
        stored.append(pair[0].storage)
        return pair

    blocks = torch.nn.ModuleList(
        torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0) for _ in range(3)
    ).cuda()

    def forward(blocks, inputs):
        stored.clear()
        hidden = inputs["x"]
        for block in blocks:
            hidden = checkpoint(block, hidden, use_reentrant=False, context_fn=contexts)
        return hidden.square().mean()

    roles.know("activations", lambda: stored)
    train(roles, blocks, adamw(blocks), lambda: {"x": torch.randn(4, 64, 256, device="cuda")}, forward=forward)


def offload(roles):
    model = models.llama()

    def forward(model, inputs):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return model(**inputs).loss

    train(roles, model, adamw(model), text(model), forward=forward)


def compiled(roles):
    model = models.gpt2()
    train(roles, model, adamw(model), text(model), forward=lambda m, b, f=torch.compile(model): f(**b).loss)


def ema(roles):
    model = models.llama()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    optimizer = adamw(model)
    batch = text(model)
    roles.watch(model, average, optimizers=[optimizer])
    for step in range(STEPS):
        inputs = batch()
        loss = model(**inputs).loss
        roles.mark(f"forward {step}", inputs=inputs, outputs=loss)
        loss.backward()
        roles.mark(f"backward {step}", inputs=inputs, outputs=loss)
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        roles.mark(f"average {step}", inputs=inputs, outputs=loss)


def ema_by_hand(roles):
    model = models.gpt2()
    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
    roles.know("weights", lambda: shadow)
    optimizer = adamw(model)
    batch = text(model)
    roles.watch(model, optimizers=[optimizer])
    for step in range(STEPS):
        inputs = batch()
        loss = model(**inputs).loss
        loss.backward()
        roles.mark(f"backward {step}", inputs=inputs, outputs=loss)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for name, p in model.named_parameters():
                shadow[name].lerp_(p, 0.01)
        roles.mark(f"average {step}", inputs=inputs, outputs=loss)


def evaluation(roles):
    """Evaluation between steps, as people write it: eval(), no_grad(), a running list of losses."""
    model = models.llama()
    optimizer = adamw(model)
    batch = text(model)
    roles.watch(model, optimizers=[optimizer])
    for step in range(STEPS):
        inputs = batch()
        loss = model(**inputs).loss
        roles.mark(f"forward {step}", inputs=inputs, outputs=loss)
        loss.backward()
        roles.mark(f"backward {step}", inputs=inputs, outputs=loss)
        optimizer.step()
        optimizer.zero_grad()
        roles.mark(f"optimizer {step}", inputs=inputs, outputs=loss)
        model.eval()
        losses = []
        with torch.no_grad():
            for i in range(2):
                check = batch()
                found = model(**check)
                losses.append(found.loss)
                logits = found.logits
                held = {"inputs": [inputs, check], "outputs": [loss, losses, logits]}
                roles.mark(f"evaluation {step}.{i}", **held)
        model.train()
        del found, check, logits


def generation(roles):
    model = models.llama(use_cache=True).eval()
    roles.watch(model)
    ids = models.tokens(model, batch=2, length=32)
    with torch.inference_mode():
        cache, step = None, ids
        for i in range(12):
            found = model(input_ids=step, past_key_values=cache, use_cache=True)
            cache = found.past_key_values
            step = found.logits[:, -1:].argmax(-1)
            held = [[layer.keys, layer.values] for layer in cache.layers]
            roles.mark(f"token {i}", inputs=[ids], outputs=[found.logits, step], caches=held)
            del held


class Enough(Exception):
    pass


def generate(roles):
    """transformers' own generate(), marked by a stopping criterion. What the simulated device answers to whether all
    sequences have ended is not the truth: the job says that none has, and the criterion ends it by an exception."""
    model = models.llama(use_cache=True).eval()
    model._has_unfinished_sequences = lambda *_, **__: True
    roles.watch(model)
    ids = models.tokens(model, batch=2, length=32)
    cache = transformers.DynamicCache(config=model.config)

    class Mark(transformers.StoppingCriteria):
        count = 0

        def __call__(self, input_ids, scores, **_):
            held = [[layer.keys, layer.values] for layer in cache.layers]
            roles.mark(f"token {self.count}", inputs=[ids], outputs=[input_ids, scores], caches=held)
            self.count += 1
            if self.count == 8:
                raise Enough
            return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)

    try:
        model.generate(
            ids, past_key_values=cache, max_new_tokens=8, do_sample=False, pad_token_id=0, stopping_criteria=[Mark()]
        )
    except Enough:
        pass


JOBS = {
    "accumulation": accumulation(True),
    "accumulation-zeros": accumulation(False),
    "checkpoint-reentrant": checkpointing(True),
    "checkpoint": checkpointing(False),
    "checkpoint-selective": selective,
    "offload-host": offload,
    "compile": compiled,
    "ema": ema,
    "ema-by-hand": ema_by_hand,
    "evaluation": evaluation,
    "generation": generation,
    "generate-hf": generate,
}
