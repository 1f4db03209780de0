"""nanoGPT's character-level run, CPU configuration."""

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def shakespeare_char() -> TrainConfig:
    """A 0.80 M-parameter character model of Shakespeare's plays.

    Size: 0.80 M parameters with a vocabulary of 65.
    Data: tinyshakespeare with a tokenizer of ``--kind characters``, first 90 % for training, last
    10 % held out.
    Cost: 1.5 M tokens, about two minutes on 2 CPU cores.
    Reaches: at most 1.92 nats a character on all held-out characters in disjoint blocks of 64
    (nanoGPT reports about 1.88 on noisy samples).
    Source: github.com/karpathy/nanoGPT, config/train_shakespeare_char.py with the README's
    settings for a CPU: no biases, exact GELU, decay on every matrix, beta2 0.99.
    """
    return TrainConfig(
        model=GPT2Config(
            context_length=64,
            num_layers=4,
            num_heads=4,
            embed_dim=128,
            bias=False,
            activation="gelu",
        ),
        optimizer=OptimizerConfig(
            learning_rate=1e-3,
            min_learning_rate=1e-4,
            warmup_steps=100,
            beta1=0.9,
            beta2=0.99,
            weight_decay=0.1,
            clip_norm=1.0,
        ),
        evaluation=EvaluationConfig(every=250, batch_size=64, sample_prompt="\n"),
        checkpoint=CheckpointConfig(every=500),
        tracking=TrackingConfig(every=20),
        run_dir="runs/shakespeare-char",
        steps=2000,
        batch_size=12,
        seed=1337,
    )
