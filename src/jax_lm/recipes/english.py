"""GPT-2 on English text: OpenWebText and WikiText-103."""

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def gpt2_small_openwebtext() -> TrainConfig:
    """GPT-2 124M on OpenWebText, as nanoGPT trains it.

    Size: 124.3 M parameters with GPT-2's vocabulary of 50,257.
    Data: OpenWebText, 9.04 G tokens of GPT-2's, packed into rows of 1024; 0.05 % held out.
    Cost: 295 G tokens; nanoGPT reports about 4 days on 8 A100 of 40 GB. Each of 8 gets 15 rows at a
    time, for which ``--dry-run`` says 9 GB; one alone takes ``--accumulation-steps 40``.
    ``--tokens`` makes the run shorter: the learning rate decays over exactly that.
    Reaches: about 2.85 nats a token, held out. That is nanoGPT's README, where OpenAI's weights
    have 3.12; after 400,000 steps, a user of it reports 2.905.
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
        evaluation=EvaluationConfig(every=1000, batch_size=64, max_rows=1600),
        checkpoint=CheckpointConfig(every=1000),
        tracking=TrackingConfig(every=10),
        run_dir="runs/gpt2-small-openwebtext",
        steps=600_000,
        batch_size=480,
        accumulation_steps=4,
        dtype="bfloat16",
    )


def wikitext103_gpt2() -> TrainConfig:
    """GPT-2 124M on WikiText-103 in windows of 256 tokens, as jax-lm-training trains it.

    Size: 124.4 M parameters with GPT-2's vocabulary of 50,257.
    Data: WikiText-103 with GPT-2's tokenizer; ``python -m jax_lm.preprocess`` takes that program's
    flags and cuts its windows.
    Cost: 5 passes, 161,045 steps of 4,096 tokens; its log comes to about 5 hours on one GPU.
    Reaches: 2.73 nats a token on the test windows (perplexity 15.3) by that program's count, which
    divides by padding too; the mean over real tokens is higher, and none is published.
    Source: github.com/codertimo/jax-lm-training, README and train.py.
    """
    return TrainConfig(
        model=GPT2Config(dropout=0.1),
        data=DataConfig(sequence_length=256),
        optimizer=OptimizerConfig(
            learning_rate=3e-5,
            min_learning_rate=0.0,
            schedule="linear",
            beta1=0.9,
            beta2=0.98,
            weight_decay=0.01,
            clip_norm=0.0,
        ),
        evaluation=EvaluationConfig(every=5000, batch_size=16),
        checkpoint=CheckpointConfig(every=5000, keep=3),
        tracking=TrackingConfig(every=100),
        run_dir="runs/wikitext103-gpt2",
        epochs=5,
        batch_size=16,
    )
