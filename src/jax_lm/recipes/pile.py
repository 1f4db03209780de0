"""Decoders on the Pile, at the sizes and settings of appliedml42/LLMs.

What is trained is GPT-2. The original has norms after each block, ReLU, fixed sinusoidal positions
and an output matrix of its own with a bias; GPT-2 has norms before, GELU, learned positions and the
token embedding as its output matrix, so that it has fewer parameters at the same depth and width.
Rows are those of the original: 1,024 tokens, of which 512 and more are context seen before.
"""

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.sharding.mesh import MeshConfig
from jax_lm.training.config import (
    CheckpointConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def pile_178m() -> TrainConfig:
    """A decoder of 6 layers, 1024 wide, on the Pile: the 178M run of appliedml42/LLMs.

    Size: 127.8 M parameters with a vocabulary of 50,000; 178 M in the original, whose output matrix
    is one of its own.
    Data: the Pile; a SentencePiece BPE of 50,000 with the separator [eod]; rows made with ``--mode
    rolling --context-length 512``.
    Cost: 3.37 M steps of 128 rows as scheduled; the original had 7 days on 4 GPUs. A longer run of
    the same shape had 10 days, and kept step 871,983.
    Reaches: no figure is published. ``evaluate --method rolling --context-length 512`` gives the
    Pile paper's bits per byte, 1.2253 for OpenAI's GPT-2 124M.
    Source: github.com/appliedml42/LLMs, branch old_2023 (the run Helen_Doughty).
    """
    return TrainConfig(
        model=GPT2Config(num_layers=6, num_heads=8, embed_dim=1024),
        optimizer=OptimizerConfig(
            learning_rate=1e-4,
            min_learning_rate=0.0,
            warmup_steps=5000,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.01,
            clip_norm=0.0,
        ),
        evaluation=EvaluationConfig(every=10_000, batch_size=128, max_rows=20_000),
        checkpoint=CheckpointConfig(every=5000, keep=3, best="val/loss"),
        tracking=TrackingConfig(every=100),
        run_dir="runs/pile-178m",
        steps=3_366_428,
        batch_size=128,
        dtype="bfloat16",
    )


def pile_1b4() -> TrainConfig:
    """A decoder of 24 layers, 2048 wide, on the Pile: the 1.4B run of appliedml42/LLMs.

    Size: 1.313 B parameters with a vocabulary of 50,000; 1.41 B in the original, whose output
    matrix is one of its own.
    Data: as for pile-178m.
    Cost: 4.85 M steps of 128 rows as scheduled; the original had at most 60 days on 4 GPUs. It kept
    step 500,000. Weights, gradients and moments are 16 bytes a parameter: 21 GB, 5.3 GB on each of
    4; with activations, ``--dry-run`` says about 14 GB.
    Reaches: no figure is published. The Pile paper gives OpenAI's GPT-2 1.5B 1.0468 bits per byte.
    Source: github.com/appliedml42/LLMs, branch old_2023 (the run Jennifer_Privett), which computed
    in float16.
    """
    return TrainConfig(
        model=GPT2Config(num_layers=24, num_heads=16, embed_dim=2048),
        optimizer=OptimizerConfig(
            learning_rate=2.5e-5,
            min_learning_rate=0.0,
            warmup_steps=5000,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.01,
            clip_norm=1.0,
        ),
        evaluation=EvaluationConfig(every=10_000, batch_size=32, max_rows=20_000),
        checkpoint=CheckpointConfig(every=5000, keep=3, best="val/loss"),
        tracking=TrackingConfig(every=100),
        mesh=MeshConfig(fsdp=4),
        run_dir="runs/pile-1b4",
        steps=4_854_349,
        batch_size=128,
        accumulation_steps=8,
        dtype="bfloat16",
    )


def pile_2b6() -> TrainConfig:
    """A decoder of 30 layers, 2560 wide, on part of the Pile: the 2.6B run of appliedml42/LLMs.

    Size: 2.491 B parameters with a vocabulary of 50,000; 2.6 B in the original, whose output matrix
    is one of its own.
    Data: as for pile-178m, of the subsets ``USPTO Backgrounds,OpenSubtitles,Wikipedia (en)`` alone.
    Cost: 215,332 steps of 128 rows, 28 G tokens with their context, on 4 GPUs; no time is
    published. Weights, gradients and moments are 16 bytes a parameter: 40 GB, 10 GB on each of 4;
    with activations, ``--dry-run`` says about 19 GB.
    Reaches: no figure is published.
    Source: github.com/appliedml42/LLMs, branch old_2023 (the run Michael_Krokos).
    """
    return TrainConfig(
        model=GPT2Config(num_layers=30, num_heads=20, embed_dim=2560),
        optimizer=OptimizerConfig(
            learning_rate=3e-5,
            min_learning_rate=0.0,
            warmup_steps=30_000,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.01,
            clip_norm=1.0,
        ),
        evaluation=EvaluationConfig(every=5000, batch_size=16, max_rows=20_000),
        checkpoint=CheckpointConfig(every=2000, keep=3, best="val/loss"),
        tracking=TrackingConfig(every=100),
        mesh=MeshConfig(fsdp=4),
        run_dir="runs/pile-2b6",
        steps=215_332,
        batch_size=128,
        accumulation_steps=16,
        dtype="bfloat16",
    )
