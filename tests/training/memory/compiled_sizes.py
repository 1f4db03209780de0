"""Estimates steps and compiles them ahead of time, on fake devices; prints both sizes as JSON."""

import json
import os
import sys
from dataclasses import replace
from typing import Any

CASES = {
    1: (
        "gpt2, float32, 4 parts, remat of attention",
        "roberta, bfloat16, Lion with bfloat16 momentum",
    ),
    8: (
        "gpt2, dropout, 2 parts, remat of all but products, on three mesh axes",
        "t5, Adafactor, on three mesh axes",
        "llama 1b, bfloat16, vocabulary 128,256, on fsdp 4 x tensor 2",
        "llama 7b, bfloat16, LoRA, remat of all, on fsdp 8",
    ),
}
"""By the number of devices."""


def configurations() -> dict[str, Any]:
    """What is trained in each case."""
    from jax_lm.models.low_rank import LoraConfig
    from jax_lm.models.presets import PRESETS
    from jax_lm.optimizers.config import OptimizerConfig
    from jax_lm.sharding.mesh import MeshConfig
    from jax_lm.training.config import TrainConfig

    three_axes = MeshConfig(data=2, fsdp=2, tensor=2)
    runs = (
        TrainConfig(
            model=replace(PRESETS["gpt2"], dropout=0.0),
            batch_size=16,
            accumulation_steps=4,
            remat="attention",
        ),
        TrainConfig(
            model=replace(PRESETS["roberta-base"], dropout=0.0, pad_id=1),
            batch_size=16,
            dtype="bfloat16",
            optimizer=OptimizerConfig(name="lion", moment_dtype="bfloat16"),
        ),
        TrainConfig(
            model=PRESETS["gpt2"],
            batch_size=32,
            accumulation_steps=2,
            remat="dots",
            mesh=three_axes,
        ),
        TrainConfig(
            model=replace(PRESETS["t5-base"], vocab_size=32_128),
            batch_size=32,
            mesh=three_axes,
            optimizer=OptimizerConfig(name="adafactor"),
        ),
        TrainConfig(
            model=replace(PRESETS["llama-3.2-1b"], context_length=1024),
            batch_size=16,
            dtype="bfloat16",
            remat="dots",
            mesh=MeshConfig(fsdp=4, tensor=2),
        ),
        TrainConfig(
            model=replace(PRESETS["llama-7b"], context_length=1024),
            batch_size=8,
            dtype="bfloat16",
            remat="full",
            mesh=MeshConfig(fsdp=8),
            lora=LoraConfig(rank=8),
        ),
    )
    return dict(zip((*CASES[1], *CASES[8]), runs, strict=True))


def main(devices: int) -> None:
    """Print, for each case of so many devices, the parts of the estimate and XLA's total."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}"
    from jax_lm.sharding.mesh import make_mesh
    from jax_lm.training.memory.abstract_step import batch_shapes, compiled_size, trace_step
    from jax_lm.training.memory.estimate import estimate

    every, sizes = configurations(), {}
    for name in CASES[devices]:
        config = every[name]
        batch = batch_shapes(config, config.batch_size)
        step = trace_step(config, make_mesh(config.mesh), batch)
        found = estimate(step)
        sizes[name] = {"parts": dict(found.parts), "compiled": compiled_size(step).total}
    print(json.dumps(sizes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
