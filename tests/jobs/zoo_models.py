# SPDX-License-Identifier: MIT
"""Architectures, each trained by the ordinary loop."""
import torch
import transformers

import models

STEPS = 3


def adamw(model, **options):
    return torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4, **options)


def inside_backward(roles, parameter, context):
    """Marks when the gradient of one parameter has been made, in the middle of every backward. `context` is a dict that
    the loop keeps up to date: step, inputs and outputs that it holds."""

    def mark(_):
        roles.mark(f"inside backward {context['step']}", inputs=context["inputs"], outputs=context["outputs"])

    parameter.register_hook(mark)


def middle(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return parameters[len(parameters) // 2]


def train(roles, model, optimizer, batch, autocast=None, scaler=None, clip=None, forward=None, steps=STEPS, inside=True):
    """The ordinary loop. `batch()` gives the keyword arguments of the model, `forward(model, batch)` the loss."""
    roles.watch(model, optimizers=[optimizer])
    if scaler:
        roles.know("optimizer", lambda: [scaler._scale, scaler._growth_tracker])
    context = {"step": 0, "inputs": None, "outputs": None}
    if inside:
        inside_backward(roles, middle(model), context)
    for step in range(steps):
        inputs = batch()
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            loss = forward(model, inputs) if forward else model(**inputs).loss
        context.update(step=step, inputs=inputs, outputs=loss)
        roles.mark(f"forward {step}", inputs=inputs, outputs=loss)
        (scaler.scale(loss) if scaler else loss).backward()
        roles.mark(f"backward {step}", inputs=inputs, outputs=loss)
        if clip:
            if scaler:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        roles.mark(f"optimizer {step}", inputs=inputs, outputs=loss)
        optimizer.zero_grad(set_to_none=True)
        roles.mark(f"zero_grad {step}", inputs=inputs, outputs=loss)


def text(model, **shape):
    def batch():
        ids = models.tokens(model, **shape)
        return {"input_ids": ids, "labels": ids}

    return batch


def on_gpu(kind, config):
    with torch.device("cuda"):
        return kind(config).train()


def images(count=4, size=64, classes=10):
    def batch():
        pixels = torch.randn(count, 3, size, size).cuda()
        return {"pixels": pixels, "labels": torch.randint(0, classes, (count,), device="cuda")}

    return batch


def llama(roles):
    model = models.llama()
    train(roles, model, adamw(model), text(model))


def llama_bf16(roles):
    model = models.llama().to(torch.bfloat16)
    train(roles, model, adamw(model), text(model))


def qwen(roles):
    config = transformers.Qwen2Config(
        vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    model = on_gpu(transformers.Qwen2ForCausalLM, config).to(torch.bfloat16)
    train(roles, model, adamw(model), text(model))


def gpt2(roles):
    model = models.gpt2()
    train(roles, model, adamw(model), text(model))


def gpt2_amp(roles):
    model = models.gpt2()
    scaler = torch.amp.GradScaler("cuda")
    train(roles, model, adamw(model), text(model), autocast=torch.float16, scaler=scaler, clip=1.0)


def bert(roles):
    model = models.bert()
    train(roles, model, adamw(model), text(model))


def t5(roles):
    config = transformers.T5Config(
        vocab_size=4096, d_model=256, d_ff=512, d_kv=32, num_layers=3, num_heads=8, use_cache=False,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = on_gpu(transformers.T5ForConditionalGeneration, config)
    train(roles, model, adamw(model), text(model))


def vit(roles):
    config = transformers.ViTConfig(
        hidden_size=192, num_hidden_layers=4, num_attention_heads=6, intermediate_size=768, image_size=64, patch_size=8,
        num_labels=10,
    )  # fmt: skip
    model = on_gpu(transformers.ViTForImageClassification, config)
    train(roles, model, adamw(model), images(), forward=lambda m, b: m(pixel_values=b["pixels"], labels=b["labels"]).loss)


def resnet50(roles):
    import torchvision

    model = torchvision.models.resnet50(num_classes=10).cuda().train()
    loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(roles, model, optimizer, images(), forward=lambda m, b: loss(m(b["pixels"]), b["labels"]))


def mixtral(roles):
    config = transformers.MixtralConfig(
        vocab_size=4096, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=4, num_local_experts=4, max_position_embeddings=512, use_cache=False,
    )  # fmt: skip
    model = on_gpu(transformers.MixtralForCausalLM, config)
    train(roles, model, adamw(model), text(model))


def unet(roles):
    import diffusers

    model = diffusers.UNet2DModel(
        sample_size=32, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).cuda()  # fmt: skip
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=100)

    def batch():
        return {"images": torch.randn(4, 3, 32, 32).cuda(), "noise": torch.randn(4, 3, 32, 32, device="cuda")}

    def forward(model, inputs):
        steps = torch.randint(0, 100, (4,), device="cuda")
        noisy = scheduler.add_noise(inputs["images"], inputs["noise"], steps)
        return torch.nn.functional.mse_loss(model(noisy, steps).sample, inputs["noise"])

    train(roles, model, adamw(model), batch, forward=forward)


def gan(roles):
    """Two models, two optimizers, two backwards a step."""
    nn = torch.nn
    maker = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 3 * 32 * 32), nn.Tanh()).cuda()
    critic = nn.Sequential(nn.Linear(3 * 32 * 32, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)).cuda()
    makes = torch.optim.Adam(maker.parameters(), lr=2e-4)
    judges = torch.optim.Adam(critic.parameters(), lr=2e-4)
    roles.watch(maker, critic, optimizers=[makes, judges])
    bce = nn.functional.binary_cross_entropy_with_logits
    yes, no = torch.ones(32, 1, device="cuda"), torch.zeros(32, 1, device="cuda")
    for step in range(STEPS):
        real = torch.rand(32, 3 * 32 * 32).to("cuda")
        held = {"inputs": [real, yes, no]}
        noise = torch.randn(32, 64, device="cuda")
        held["inputs"].append(noise)
        fake = maker(noise)
        judges.zero_grad()
        loss = bce(critic(real), yes) + bce(critic(fake.detach()), no)
        roles.mark(f"forward critic {step}", outputs=[loss, fake], **held)
        loss.backward()
        roles.mark(f"backward critic {step}", outputs=[loss, fake], **held)
        judges.step()
        roles.mark(f"optimizer critic {step}", outputs=[loss, fake], **held)
        makes.zero_grad()
        loss = bce(critic(fake), yes)
        roles.mark(f"forward maker {step}", outputs=[loss, fake], **held)
        loss.backward()
        roles.mark(f"backward maker {step}", outputs=[loss, fake], **held)
        makes.step()
        roles.mark(f"optimizer maker {step}", outputs=[loss, fake], **held)


JOBS = {
    "llama": llama,
    "llama-bf16": llama_bf16,
    "qwen-tied": qwen,
    "gpt2": gpt2,
    "gpt2-amp-scaler-clip": gpt2_amp,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "resnet50": resnet50,
    "mixtral": mixtral,
    "unet": unet,
    "gan": gan,
}
