from dataclasses import replace
from pathlib import Path

import pytest

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)
from tests.conftest import TinyFeatures


@pytest.fixture
def config(tiny_features: TinyFeatures, tmp_path: Path) -> TrainConfig:
    """A run of a second: 12 steps of a tiny model."""
    return TrainConfig(
        model=GPT2Config(context_length=32, num_layers=1, num_heads=2, embed_dim=16),
        data=DataConfig(train=(tiny_features.train,), validation=(tiny_features.held_out,)),
        optimizer=OptimizerConfig(learning_rate=1e-2, warmup_steps=2),
        evaluation=EvaluationConfig(every=6, sample_tokens=0),
        checkpoint=CheckpointConfig(every=4, keep=2),
        tracking=TrackingConfig(every=2),
        run_dir=str(tmp_path / "run"),
        steps=12,
        batch_size=4,
    )


@pytest.fixture
def resumed(config: TrainConfig) -> TrainConfig:
    """The same run, to be continued."""
    return replace(config, resume="auto")
