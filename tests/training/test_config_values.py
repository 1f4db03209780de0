"""Values that mean nothing are refused where the configuration is made."""

from collections.abc import Callable

import pytest

from jax_lm.errors import UsageError
from jax_lm.training.config import (
    CheckpointConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EvaluationConfig(every=-1), "--evaluation.every is -1, expected 0 or more"),
        (lambda: EvaluationConfig(max_rows=0), "--evaluation.max-rows is 0, expected 1 or more"),
        (lambda: CheckpointConfig(keep=0), "--checkpoint.keep is 0, expected 1 or more"),
        (lambda: CheckpointConfig(keep_every=0), "--checkpoint.keep-every is 0, expected 1"),
        (lambda: TrackingConfig(every=0), "--tracking.every is 0, expected 1 or more"),
        (lambda: TrackingConfig(wandb_mode="offline"), "without --tracking.wandb-project"),
        (lambda: TrackingConfig(wandb_entity="us"), "wandb-entity logs nothing without"),
        (lambda: TrainConfig(max_time=0.0), "--max-time is 0.0, expected above 0"),
        (lambda: TrainConfig(profile=-1), "--profile is -1, expected 0 or more"),
        (lambda: TrainConfig(stall_minutes=-1.0), "--stall-minutes is -1.0, expected 0"),
        (lambda: TrainConfig(max_bad_steps=0), "--max-bad-steps is 0, expected 1 or more"),
    ],
)
def test_a_value_that_means_nothing_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
