# SPDX-License-Identifier: MIT
"""Optimizers and adapters."""
import math

import torch
import transformers

import models
from zoo_models import STEPS, adamw, text, train


def sgd(roles):
    model = models.llama()
    train(roles, model, torch.optim.SGD(model.parameters(), lr=0.1), text(model))


def sgd_momentum(roles):
    model = models.llama()
    train(roles, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), text(model))


def fused(roles):
    model = models.llama(attention="eager").to(torch.bfloat16)
    train(roles, model, adamw(model, fused=True), text(model))


def single_tensor(roles):
    model = models.gpt2()
    train(roles, model, adamw(model, foreach=False), text(model))


def adafactor(roles):
    model = models.llama()
    train(roles, model, transformers.optimization.Adafactor(model.parameters()), text(model))


def torch_adafactor(roles):
    model = models.llama()
    train(roles, model, torch.optim.Adafactor(model.parameters()), text(model))


def muon(roles):
    model = models.llama()
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers" in name]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    parts = [torch.optim.Muon(matrices, lr=1e-3), torch.optim.AdamW(rest, lr=1e-4)]

    class Pair:
        state = {}

        def step(self):
            for part in parts:
                part.step()

        def zero_grad(self, set_to_none=True):
            for part in parts:
                part.zero_grad(set_to_none)

    for part in parts:
        roles.watch(optimizers=[part])
    train(roles, model, Pair(), text(model))


def adam8bit(roles):
    import bitsandbytes

    model = models.llama()
    train(roles, model, bitsandbytes.optim.AdamW8bit(model.parameters(), lr=1e-4), text(model))


def lora(roles):
    import peft

    config = peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(models.llama().to(torch.bfloat16), config)
    train(roles, model, adamw(model), text(model))


def nf4(roles):
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
    del module, child, linear
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=64, lora_alpha=16, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(base, config)
    optimizer = bitsandbytes.optim.PagedAdamW8bit((p for p in model.parameters() if p.requires_grad), lr=1e-4)
    train(roles, model, optimizer, text(model))


class Zwiebel:
    """AdamW by hand, in names that no framework has."""

    def __init__(self, blaetter):
        self.blaetter = list(blaetter)
        self.eins = [torch.zeros_like(b) for b in self.blaetter]
        self.zwei = [torch.zeros_like(b) for b in self.blaetter]
        self.t = 0

    @torch.no_grad()
    def weiter(self):
        self.t += 1
        for blatt, m, v in zip(self.blaetter, self.eins, self.zwei):
            m.mul_(0.9).add_(blatt.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(blatt.grad, blatt.grad, value=0.001)
            nenner = (v.sqrt() / math.sqrt(1 - 0.999**self.t)).add_(1e-8)
            blatt.addcdiv_(m, nenner, value=-1e-3 / (1 - 0.9**self.t))


class Faul(Zwiebel):
    """The same with states made at the first step."""

    def __init__(self, blaetter):
        self.blaetter = list(blaetter)
        self.t = 0

    @torch.no_grad()
    def weiter(self):
        if not self.t:
            self.eins = [torch.zeros_like(b) for b in self.blaetter]
            self.zwei = [torch.zeros_like(b) for b in self.blaetter]
        super().weiter()


def by_hand(kind):
    """No nn.Module, no optimizer class, no framework: weights are leaves in a dict, the loop is written out."""

    def job(roles):
        breit, tief = 256, 3
        gewichte = {"ein": torch.randn(1000, breit, device="cuda") * 0.02, "aus": torch.randn(breit, 1000, device="cuda")}
        for i in range(tief):
            gewichte[f"a{i}"] = torch.randn(breit, 4 * breit, device="cuda") * 0.02
            gewichte[f"b{i}"] = torch.randn(4 * breit, breit, device="cuda") * 0.02
        for g in gewichte.values():
            g.requires_grad_()
        zwiebel = kind(gewichte.values())
        roles.know("weights", lambda: gewichte)
        roles.know("gradients", lambda: [g.grad for g in gewichte.values()])
        roles.know("optimizer", lambda: [getattr(zwiebel, "eins", []), getattr(zwiebel, "zwei", [])])
        for runde in range(STEPS):
            x = torch.randint(0, 1000, (4, 64)).cuda()
            y = torch.randint(0, 1000, (4, 64)).cuda()
            h = torch.nn.functional.embedding(x, gewichte["ein"])
            for i in range(tief):
                h = h + torch.relu(h @ gewichte[f"a{i}"]) @ gewichte[f"b{i}"]
            verlust = torch.nn.functional.cross_entropy((h @ gewichte["aus"]).flatten(0, 1), y.flatten())
            held = {"inputs": [x, y], "outputs": [h, verlust]}
            roles.mark(f"forward {runde}", **held)
            verlust.backward()
            roles.mark(f"backward {runde}", **held)
            zwiebel.weiter()
            roles.mark(f"optimizer {runde}", **held)
            for g in gewichte.values():
                g.grad = None
            roles.mark(f"zero_grad {runde}", **held)

    return job


def by_hand_module(roles):
    """A hand-written optimizer and loop around an ordinary model with odd names."""

    class Kartoffel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.knolle = torch.nn.Embedding(2000, 256)
            self.schale = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(4))
            self.kraut = torch.nn.Linear(256, 2000)

        def forward(self, wasser):
            wasser = self.knolle(wasser)
            for schale in self.schale:
                wasser = wasser + torch.nn.functional.gelu(schale(wasser))
            return self.kraut(wasser)

    acker = Kartoffel().to("cuda")
    zwiebel = Zwiebel(acker.parameters())
    roles.watch(acker)
    roles.know("optimizer", lambda: [zwiebel.eins, zwiebel.zwei])
    for runde in range(STEPS):
        saat = torch.randint(0, 2000, (8, 64), device="cuda")
        ernte = acker(saat)
        verlust = torch.nn.functional.cross_entropy(ernte.view(-1, 2000), saat.view(-1))
        held = {"inputs": [saat], "outputs": [ernte, verlust]}
        roles.mark(f"forward {runde}", **held)
        verlust.backward()
        roles.mark(f"backward {runde}", **held)
        zwiebel.weiter()
        roles.mark(f"optimizer {runde}", **held)
        for g in acker.parameters():
            g.grad = None
        roles.mark(f"zero_grad {runde}", **held)


JOBS = {
    "sgd": sgd,
    "sgd-momentum": sgd_momentum,
    "adamw-fused": fused,
    "adamw-single": single_tensor,
    "adafactor-hf": adafactor,
    "adafactor-torch": torch_adafactor,
    "muon": muon,
    "adamw-8bit": adam8bit,
    "lora": lora,
    "nf4-paged-8bit": nf4,
    "by-hand": by_hand(Zwiebel),
    "by-hand-lazy": by_hand(Faul),
    "by-hand-module": by_hand_module,
}
