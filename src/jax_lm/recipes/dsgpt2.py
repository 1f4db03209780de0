"""GPT-2 on Korean text, then on questions and answers, at the settings of dsGPT2.

dsGPT2 computed in float16 with loss scaling, as ``--dtype float16`` does; bfloat16 needs none.
"""

from dataclasses import replace

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.objectives.dialogue import DialogueConfig
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def dsgpt2_112m() -> TrainConfig:
    """GPT-2 of 12 layers on Korean text, a document a row of 128: dsGPT2's 112m.

    Size: 123.8 M parameters with a vocabulary of 50,257 (its authors count 112 M).
    Data: 90.5 M documents from MongoDB, ``--cleaning dsgpt2``, each a row of its own (``--mode
    documents``); the tokenizer of ``tokenizer train --preset dsgpt2``.
    Cost: 300,000 steps of 650 rows, 25 G tokens with padding; no time is published. 650 rows go on
    1, 2, 5 or 10 devices: on 8, ``--batch-size 648``.
    Reaches: about 3.9 nats a token at step 142,000 (perplexity 48.95).
    Source: github.com/jisngprk/dsGPT2, README and ds_config.json.
    """
    return TrainConfig(
        model=GPT2Config(context_length=128),
        data=DataConfig(mode="documents"),
        optimizer=OptimizerConfig(
            learning_rate=3.5e-4,
            min_learning_rate=3.5e-5,
            schedule="linear",
            warmup_steps=1000,
            beta1=0.95,
            beta2=0.999,
            weight_decay=1e-5,
            clip_norm=0.25,
        ),
        evaluation=EvaluationConfig(every=2000, batch_size=128, max_rows=20_000),
        checkpoint=CheckpointConfig(every=2000),
        tracking=TrackingConfig(every=100),
        run_dir="runs/dsgpt2-112m",
        steps=300_000,
        batch_size=650,
        dtype="bfloat16",
        loss_reduction="sample",
    )


def dsgpt2_112m_half() -> TrainConfig:
    """GPT-2 of 6 layers on Korean text, a document a row of 64: dsGPT2's 112m_half.

    Size: 81.2 M parameters with a vocabulary of 50,257.
    Data: as for dsgpt2-112m.
    Cost: 300,000 steps of 650 rows, 12.5 G tokens with padding; no time is published.
    Reaches: no figure is published.
    Source: github.com/jisngprk/dsGPT2, config/gpt_config.py and ds_config.json.
    """
    return replace(
        dsgpt2_112m(),
        model=GPT2Config(context_length=64, num_layers=6, num_heads=6),
        run_dir="runs/dsgpt2-112m-half",
    )


def dsgpt2_345m() -> TrainConfig:
    """GPT-2 of 24 layers on Korean text, a document a row of 64: dsGPT2's 345m.

    Size: 353.8 M parameters with a vocabulary of 50,257.
    Data: as for dsgpt2-112m.
    Cost: 300,000 steps of 650 rows, 12.5 G tokens with padding; no time is published.
    Reaches: no figure is published.
    Source: github.com/jisngprk/dsGPT2, config/gpt_config.py and ds_config.json.
    """
    return replace(
        dsgpt2_112m(),
        model=GPT2Config(context_length=64, num_layers=24, num_heads=16, embed_dim=1024),
        run_dir="runs/dsgpt2-345m",
    )


def dsgpt2_conversation() -> TrainConfig:
    """The run of dsgpt2-112m taught to answer, from questions and answers: dsGPT2's fine-tuning.

    Size: 123.8 M parameters with a vocabulary of 50,257.
    Data: records with ``q`` and ``a``, 0.3 M in the original; rows made with ``--mode pairs
    --chat-template bare``. --init-from names another run than runs/dsgpt2-112m.
    Cost: 150,000 steps of 320 rows, 6 G tokens with padding; no time is published.
    Reaches: 0.048 nats a token and 98.5 % of them right at step 78,000, on the training pairs. They
    are learned by heart, and no figure is published for others: ``val/loss`` says when to stop, and
    its best checkpoint is kept.
    Source: github.com/jisngprk/dsGPT2, README and ds_config_finetune.json.
    """
    return replace(
        dsgpt2_112m(),
        init_from="runs/dsgpt2-112m",
        objective=DialogueConfig(),
        data=DataConfig(),
        optimizer=OptimizerConfig(
            learning_rate=1e-3,
            min_learning_rate=1e-4,
            schedule="linear",
            warmup_steps=1000,
            beta1=0.95,
            beta2=0.999,
            weight_decay=1e-5,
            clip_norm=0.25,
        ),
        checkpoint=CheckpointConfig(every=2000, best="val/loss"),
        run_dir="runs/dsgpt2-conversation",
        steps=150_000,
        batch_size=320,
    )
