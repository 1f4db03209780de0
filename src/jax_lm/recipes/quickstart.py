"""The run of ``jax-lm quickstart``."""

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def quickstart() -> TrainConfig:
    """A small GPT-2 that learns Python from the interpreter's standard library.

    Size: 1.1 M parameters with a vocabulary of 1,024.
    Data: the SPEC ``stdlib?split=train``, a byte-level BPE vocabulary of 1024.
    Cost: about three minutes on 2 CPU cores, 1.4 GB of memory.
    Reaches: about 1.9 bits per byte on held-out files, where xz -9 reaches about 2.0.
    """
    return TrainConfig(
        model=GPT2Config(
            context_length=128,
            num_layers=2,
            num_heads=3,
            embed_dim=192,
            bias=False,
            activation="gelu",
        ),
        optimizer=OptimizerConfig(
            learning_rate=3e-3,
            min_learning_rate=1e-4,
            warmup_steps=60,
            beta2=0.95,
        ),
        evaluation=EvaluationConfig(
            every=400, batch_size=32, max_rows=128, sample_prompt="def", sample_tokens=48
        ),
        checkpoint=CheckpointConfig(every=200),
        tracking=TrackingConfig(every=20),
        run_dir="runs/quickstart",
        steps=1700,
        batch_size=8,
    )
