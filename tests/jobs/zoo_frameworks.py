# SPDX-License-Identifier: MIT
"""Training loops that are not the user's: Trainer, Accelerate, Lightning, DeepSpeed."""
import os
import tempfile

import torch
import transformers

import models
from zoo_models import STEPS, adamw, text
from zoo_parallel import ranks


class Rows(torch.utils.data.Dataset):
    def __init__(self, count, vocabulary, length=128):
        self.rows = torch.randint(0, vocabulary, (count, length))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


def on_cpu():
    config = models.llama_config()
    return transformers.LlamaForCausalLM(config).train()


def trainer(roles):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    held = {}

    class Marks(TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, optimizer=None, **_):
            roles.watch(model, optimizers=[optimizer.optimizer if hasattr(optimizer, "optimizer") else optimizer])

        def on_pre_optimizer_step(self, args, state, control, **_):
            roles.mark(f"backward {state.global_step}", **held)

        def on_optimizer_step(self, args, state, control, **_):
            roles.mark(f"optimizer {state.global_step}", **held)

    class Marking(Trainer):
        def compute_loss(self, model, inputs, **options):
            loss = super().compute_loss(model, inputs, **options)
            held.update(inputs=inputs, outputs=loss)
            roles.mark(f"forward {self.state.global_step}", **held)
            return loss

    model = on_cpu()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=4, report_to=[], save_strategy="no", logging_steps=1,
            bf16=True, disable_tqdm=True,
        )  # fmt: skip
        Marking(model, arguments, train_dataset=Rows(64, 4096), callbacks=[Marks()]).train()


def accelerate(roles):
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = on_cpu()
    loader = torch.utils.data.DataLoader(Rows(64, 4096), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, adamw(model), loader)
    roles.watch(model, optimizers=[optimizer.optimizer])
    for step, batch in enumerate(loader):
        if step == 2 * STEPS:
            break
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            roles.mark(f"forward {step}", inputs=batch, outputs=loss)
            accelerator.backward(loss)
            roles.mark(f"backward {step}", inputs=batch, outputs=loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            roles.mark(f"optimizer {step}", inputs=batch, outputs=loss)
            optimizer.zero_grad()


def lightning(roles):
    import lightning

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = on_cpu()
            self.held = {}

        def training_step(self, batch, _):
            loss = self.net(**batch).loss
            self.held = {"inputs": batch, "outputs": loss}
            roles.mark(f"forward {self.global_step}", **self.held)
            return loss

        def on_after_backward(self):
            roles.mark(f"backward {self.global_step}", **self.held)

        def on_train_batch_end(self, *_):
            roles.mark(f"optimizer {self.global_step - 1}", **self.held)

        def configure_optimizers(self):
            optimizer = adamw(self)
            roles.watch(self, optimizers=[optimizer])
            return optimizer

    with tempfile.TemporaryDirectory() as folder:
        lightning.Trainer(
            max_steps=STEPS, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder, precision="bf16-mixed",
        ).fit(Task(), torch.utils.data.DataLoader(Rows(64, 4096), batch_size=4))  # fmt: skip


def deepspeed(stage):
    def job(roles):
        os.environ["LOCAL_RANK"] = "0"
        import deepspeed as ds

        with ranks("nccl"):
            config = {
                "train_micro_batch_size_per_gpu": 4,
                "bf16": {"enabled": True},
                "zero_optimization": {
                    "stage": stage,
                    "stage3_param_persistence_threshold": 1000,
                    "reduce_bucket_size": 2_000_000,  # elements; 5e8, the default, are a hundred models of this size
                },
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
                "gradient_clipping": 1.0,
            }
            model = models.llama()
            engine, optimizer, _, _ = ds.initialize(model=model, model_parameters=model.parameters(), config=config)
            roles.watch(model, optimizers=[optimizer.optimizer])
            roles.know("gradients", lambda: [bucket.buffer for bucket in optimizer.ipg_buckets.values()])
            if stage == 2:
                roles.know("optimizer", lambda: optimizer.single_partition_of_fp32_groups)
                roles.know("weights", lambda: optimizer.bit16_groups_flat)
                roles.know("gradients", lambda: [p.grad for p in optimizer.single_partition_of_fp32_groups])
                roles.know("gradients", lambda: optimizer.averaged_gradients)
            else:
                roles.know("optimizer", lambda: optimizer.fp32_partitioned_groups_flat)
                roles.know("weights", lambda: [p.ds_tensor for p in model.parameters()])
                roles.know("gradients", lambda: [optimizer.grad_partitions_flat_buffer, optimizer.averaged_gradients])
                roles.know("gradients", lambda: [p.grad for p in optimizer.fp32_partitioned_groups_flat])
            batch = text(model)
            for step in range(STEPS):
                inputs = batch()
                loss = engine(**inputs).loss
                roles.mark(f"forward {step}", inputs=inputs, outputs=loss)
                engine.backward(loss)
                roles.mark(f"backward {step}", inputs=inputs, outputs=loss)
                engine.step()
                roles.mark(f"optimizer {step}", inputs=inputs, outputs=loss)

    return job


JOBS = {
    "trainer": trainer,
    "accelerate": accelerate,
    "lightning": lightning,
    "deepspeed-zero2": deepspeed(2),
    "deepspeed-zero3": deepspeed(3),
}
