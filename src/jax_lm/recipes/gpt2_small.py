"""GPT-2 small on web text."""

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def gpt2_small() -> TrainConfig:
    """GPT-2 124M, pretrained with nanoGPT's schedule on features of your own.

    Data: ``--data.train PREFIX --data.validation PREFIX``, rows of 1024 tokens.
    Cost: 295 G tokens for the whole schedule; one 80 GB GPU takes days for a tenth of it, so give
    ``--tokens`` what you can afford: the learning rate decays over exactly that.
    Reaches: nanoGPT reports a held-out loss of about 2.85 nats a token on OpenWebText at the end.
    Source: github.com/karpathy/nanoGPT, config/train_gpt2.py.
    """
    return TrainConfig(
        model=GPT2Config(bias=False),
        optimizer=OptimizerConfig(
            learning_rate=6e-4,
            min_learning_rate=6e-5,
            warmup_steps=2000,
            beta1=0.9,
            beta2=0.95,
            weight_decay=0.1,
            clip_norm=1.0,
        ),
        evaluation=EvaluationConfig(every=1000, batch_size=8, max_rows=1600),
        checkpoint=CheckpointConfig(every=1000),
        tracking=TrackingConfig(every=10),
        run_dir="runs/gpt2-small",
        steps=600_000,
        batch_size=480,
        dtype="bfloat16",
        remat="full",
    )
