from typing import Any

import pytest

from jax_lm.errors import UsageError
from jax_lm.optimizers.config import OptimizerConfig, described


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learning_rate": 0.0}, "--optimizer.learning-rate is 0.0, expected a number above 0"),
        ({"learning_rate": float("nan")}, "--optimizer.learning-rate is nan"),
        ({"min_learning_rate": 1e-2}, "expected from 0 to the peak, which is 0.0006"),
        ({"warmup_steps": -1}, "--optimizer.warmup-steps is -1, expected 0 or more"),
        ({"schedule": "wsd", "decay_steps": 0}, "--optimizer.decay-steps is 0"),
        ({"beta1": 1.0}, "--optimizer.beta1 is 1.0, expected a number from 0 to below 1"),
        ({"beta2": -0.1}, "--optimizer.beta2 is -0.1"),
        ({"epsilon": 0.0}, "--optimizer.epsilon is 0.0"),
        ({"name": "sgd", "momentum": 1.5}, "--optimizer.momentum is 1.5"),
        ({"weight_decay": -1.0}, "--optimizer.weight-decay is -1.0, expected 0 or more"),
        ({"clip_norm": float("inf")}, "--optimizer.clip-norm is inf"),
        ({"ema_decay": 1.0}, "--optimizer.ema-decay is 1.0"),
        ({"momentum": 0.9}, "--optimizer.momentum belongs to --optimizer.name sgd or muon"),
        ({"name": "lion", "nesterov": False}, "--optimizer.nesterov belongs to"),
        ({"decay_steps": 5}, "--optimizer.decay-steps belongs to --optimizer.schedule wsd"),
        ({"name": "adafactor", "moment_dtype": "bfloat16"}, "adafactor keeps no mean"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        OptimizerConfig(**options)
    assert sentence in str(caught.value)


def test_betas_of_a_recipe_do_not_stand_in_the_way_of_another_name() -> None:
    assert OptimizerConfig(name="sgd", beta2=0.98, epsilon=1e-6).name == "sgd"


def test_the_end_of_the_schedule_follows_the_peak() -> None:
    assert OptimizerConfig(learning_rate=1e-5).final_learning_rate == pytest.approx(1e-6)
    assert OptimizerConfig(schedule="inverse-sqrt").final_learning_rate == 0.0
    assert OptimizerConfig(min_learning_rate=1e-7).final_learning_rate == 1e-7


def test_a_model_card_says_what_trained_it() -> None:
    assert described(OptimizerConfig()) == (
        "AdamW, peak learning rate 0.0006, cosine to 6e-05, no warmup, weight decay 0.1, clipped "
        "at norm 1"
    )
    told = described(
        OptimizerConfig(
            name="muon",
            schedule="constant",
            warmup_steps=2000,
            clip_norm=0.0,
            freeze=("blocks.0-5.*", "*_embedding"),
            ema_decay=0.999,
        )
    )
    assert told == (
        "Muon, with AdamW for what is no matrix, peak learning rate 0.0006, constant, 2,000 steps "
        "of warmup, weight decay 0.1, frozen: blocks.0-5.* *_embedding, weights averaged with "
        "decay 0.999"
    )
