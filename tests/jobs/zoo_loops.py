# SPDX-License-Identifier: MIT
"""Loops of several models, several losses or several backwards a step."""
import copy

import torch

import models
from zoo_models import STEPS, adamw, images

functional = torch.nn.functional


def rest_of_step(roles, step, held, optimizer):
    """What follows the backward in most loops."""
    roles.mark(f"backward {step}", **held)
    optimizer.step()
    roles.mark(f"optimizer {step}", **held)
    optimizer.zero_grad()
    roles.mark(f"zero_grad {step}", **held)


def preference(roles):
    """DPO: what is trained and a frozen copy of it, through one function; a judge that is frozen without no_grad()."""
    policy = models.llama()
    reference = copy.deepcopy(policy).eval()
    judge = models.bert().eval().requires_grad_(False)
    optimizer = adamw(policy)
    roles.watch(policy, reference, judge, optimizers=[optimizer])

    def likelihood(model, ids):
        logits = model(input_ids=ids).logits[:, :-1]
        return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(2).sum(-1)

    for step in range(STEPS):
        chosen, rejected = models.tokens(policy, batch=2), models.tokens(policy, batch=2)
        ids = torch.cat([chosen, rejected])
        with torch.no_grad():
            before = likelihood(reference, ids)
        marks = judge(input_ids=ids).logits
        now = likelihood(policy, ids)
        margin = (now - before).view(2, 2)
        loss = -functional.logsigmoid(0.1 * (margin[0] - margin[1]) + marks.mean() * 0.01).mean()
        held = {"inputs": [chosen, rejected, ids], "outputs": [before, marks, now, margin, loss]}
        roles.mark(f"forward {step}", **held)
        loss.backward()
        rest_of_step(roles, step, held, optimizer)


class Pendel:
    """Momentum made at the first use of each, in a dict."""

    def __init__(self, schnur=0.9):
        self.schnur, self.schwung = schnur, {}

    @torch.no_grad()
    def schubs(self, seile):
        for name, seil in seile.items():
            if name not in self.schwung:
                self.schwung[name] = seil.grad.clone()
            else:
                self.schwung[name].mul_(self.schnur).add_(seil.grad)
            seil.sub_(self.schwung[name], alpha=1e-3)
            seil.grad = None


def rnn_by_hand(roles):
    """A recurrent net written out, backpropagation through some of the time: its state goes on, without its graph."""
    size, words = 512, 10_000
    seile = {
        "ein": torch.randn(words, size, device="cuda") * 0.02,
        "quer": torch.randn(size, size, device="cuda") * 0.02,
        "kante": torch.zeros(size, device="cuda"),
        "aus": torch.randn(size, words, device="cuda") * 0.02,
    }
    for seil in seile.values():
        seil.requires_grad_()
    pendel = Pendel()
    roles.know("weights", lambda: seile)
    roles.know("gradients", lambda: [seil.grad for seil in seile.values()])
    roles.know("optimizer", lambda: pendel.schwung)
    text = torch.randint(0, words, (16, STEPS * 16 + 1), device="cuda")
    state = torch.zeros(16, size, device="cuda")
    for step in range(STEPS):
        loss = 0
        for at in range(step * 16, step * 16 + 16):
            state = torch.tanh(seile["ein"][text[:, at]] + state @ seile["quer"] + seile["kante"])
            loss = loss + functional.cross_entropy(state @ seile["aus"], text[:, at + 1])
        held = {"inputs": text, "outputs": [state, loss]}
        roles.mark(f"forward {step}", **held)
        loss.backward()
        roles.mark(f"backward {step}", **held)
        pendel.schubs(seile)
        state = state.detach()
        roles.mark(f"optimizer {step}", **held)


def two_losses(roles):
    """One trunk, two heads, a backward for each."""
    nn = torch.nn
    trunk = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512)) for _ in range(6))).cuda()
    heads = nn.ModuleList([nn.Linear(512, 100), nn.Linear(512, 64)]).cuda()
    optimizer = adamw(nn.ModuleList([trunk, heads]))
    roles.watch(trunk, heads, optimizers=[optimizer])
    for step in range(STEPS):
        data = torch.randn(256, 512).cuda()
        kinds, wanted = torch.randint(0, 100, (256,)).cuda(), torch.randn(256, 64).cuda()
        middle = trunk(data)
        first = functional.cross_entropy(heads[0](middle), kinds)
        second = functional.mse_loss(heads[1](middle), wanted)
        held = {"inputs": [data, kinds, wanted], "outputs": [middle, first, second]}
        roles.mark(f"forward {step}", **held)
        first.backward(retain_graph=True)
        roles.mark(f"between {step}", **held)
        second.backward()
        rest_of_step(roles, step, held, optimizer)


def frozen_backbone(roles):
    """What a frozen net sees, in a graph of its own only behind it; evaluated after each step."""
    import torchvision

    backbone = torchvision.models.resnet50(num_classes=10).cuda().eval().requires_grad_(False)
    backbone.fc = torch.nn.Identity()
    head = torch.nn.Sequential(torch.nn.Linear(2048, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = adamw(head)
    roles.watch(backbone, head, optimizers=[optimizer])
    batch = images(count=16)
    for step in range(STEPS):
        inputs = batch()
        seen = backbone(inputs["pixels"])
        loss = functional.cross_entropy(head(seen), inputs["labels"])
        held = {"inputs": inputs, "outputs": [seen, loss]}
        roles.mark(f"forward {step}", **held)
        loss.backward()
        rest_of_step(roles, step, held, optimizer)
        with torch.no_grad():
            guesses = [head(backbone(images(count=16)()["pixels"])) for _ in range(3)]
        roles.mark(f"evaluated {step}", inputs=inputs, outputs=[seen, loss, guesses])


def self_distillation(roles):
    """A teacher inside the module that is trained: the average of what it teaches."""
    nn = torch.nn

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.student = nn.Sequential(
                *(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(8)), nn.Linear(512, 4096)
            )
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)
            self.register_buffer("center", torch.zeros(4096))

        def forward(self, one, other):
            with torch.no_grad():
                wanted = ((self.teacher(one) - self.center) / 0.04).softmax(-1)
            return -(wanted * (self.student(other) / 0.1).log_softmax(-1)).sum(-1).mean()

        @torch.no_grad()
        def follow(self):
            for mine, theirs in zip(self.teacher.parameters(), self.student.parameters()):
                mine.mul_(0.99).add_(theirs, alpha=0.01)

    both = Both().cuda()
    optimizer = adamw(both)
    roles.watch(both, optimizers=[optimizer])
    for step in range(STEPS):
        views = [torch.randn(128, 512).cuda() for _ in range(2)]
        loss = both(*views)
        held = {"inputs": views, "outputs": loss}
        roles.mark(f"forward {step}", **held)
        loss.backward()
        rest_of_step(roles, step, held, optimizer)
        both.follow()
        roles.mark(f"followed {step}", **held)


JOBS = {
    "preference": preference,
    "rnn-by-hand": rnn_by_hand,
    "two-losses": two_losses,
    "frozen-backbone": frozen_backbone,
    "self-distillation": self_distillation,
}
