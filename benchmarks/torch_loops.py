"""The loops that others train with, on the rows of ``train_loop.py``."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch_models import GPT2

from jax_lm.models.gpt2 import GPT2Config

CLIP = 1.0


def trainer(
    config: GPT2Config, rows: np.ndarray, folder: Path, *, marks: tuple[int, int], **every: int
) -> tuple[float, float]:
    """Hugging Face's Trainer with transformers' own GPT-2; seconds at the marked steps."""
    from transformers import GPT2Config as TheirConfig
    from transformers import GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    class Clock(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seconds: dict[int, float] = {}

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step in marks:
                self.seconds[state.global_step] = time.perf_counter()

    model = GPT2LMHeadModel(
        TheirConfig(
            vocab_size=config.vocab_size,
            n_positions=config.context_length,
            n_embd=config.embed_dim,
            n_layer=config.num_layers,
            n_head=config.num_heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
        )
    )
    settings = TrainingArguments(
        output_dir=str(folder),
        max_steps=marks[1],
        per_device_train_batch_size=every["batch"],
        learning_rate=6e-4,
        lr_scheduler_type="cosine",
        weight_decay=0.1,
        adam_beta2=0.95,
        max_grad_norm=CLIP,
        logging_steps=every["logged"],
        save_steps=every["saved"],
        save_total_limit=2,
        report_to="tensorboard",
        use_cpu=True,
        disable_tqdm=True,
    )
    clock = Clock()
    data = [{"input_ids": torch.from_numpy(row), "labels": torch.from_numpy(row)} for row in rows]
    Trainer(model=model, args=settings, train_dataset=data, callbacks=[clock]).train()
    return clock.seconds[marks[0]], clock.seconds[marks[1]]


def nanogpt(
    config: GPT2Config, rows: np.ndarray, folder: Path, *, marks: tuple[int, int], **every: int
) -> tuple[float, float]:
    """A loop as nanoGPT's is: random places of one long file, fused AdamW, no data loader.

    Not compiled, as its README advises for a CPU.
    """
    rows.astype(np.uint16).tofile(folder / "train.bin")
    model = GPT2(config)
    decayed = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    seconds = {}
    for step in range(1, marks[1] + 1):
        for group in optimizer.param_groups:
            group["lr"] = 3e-4 * (1 + np.cos(np.pi * step / marks[1]))
        inputs, targets = _random_batch(folder / "train.bin", every["batch"], config.context_length)
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % every["logged"] == 0:
            print(f"iter {step}: loss {loss.item():.4f}")
        if step % every["saved"] == 0:
            kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(kept, folder / "checkpoint.pt")
        if step in marks:
            seconds[step] = time.perf_counter()
    return seconds[marks[0]], seconds[marks[1]]


def _random_batch(path: Path, batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = np.memmap(path, np.uint16, "r")
    starts = np.random.randint(len(tokens) - length, size=batch)
    windows = np.stack([tokens[start : start + length + 1] for start in starts]).astype(np.int64)
    whole = torch.from_numpy(windows)
    return whole[:, :-1], whole[:, 1:]
