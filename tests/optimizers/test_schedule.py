import math

import pytest

from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.optimizers.schedule import learning_rate


def rates(config: OptimizerConfig, total: int, steps: list[int]) -> list[float]:
    return [float(learning_rate(config, total, step)) for step in steps]


def nanogpt_rate(step: int) -> float:
    """nanoGPT's get_lr with its CPU settings, restated."""
    if step < 100:
        return 1e-3 * (step + 1) / 101
    ratio = (step - 100) / (2000 - 100)
    return 1e-4 + 0.5 * (1 + math.cos(math.pi * ratio)) * (1e-3 - 1e-4)


def test_cosine_is_nanogpts() -> None:
    config = OptimizerConfig(learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100)
    steps = [0, 1, 99, 100, 777, 1999]
    assert rates(config, 2000, steps) == pytest.approx([nanogpt_rate(s) for s in steps], rel=1e-5)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant", "inverse-sqrt", "wsd"])
def test_warmup_is_linear_and_meets_the_peak(schedule: str) -> None:
    config = OptimizerConfig(learning_rate=2.0, schedule=schedule, warmup_steps=4)
    assert rates(config, 50, [0, 1, 2, 3, 4]) == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_the_end_is_reached_one_step_after_the_last_and_kept(schedule: str) -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule=schedule, warmup_steps=2)
    last, end, beyond = rates(config, 40, [39, 40, 400])
    assert end == beyond == pytest.approx(0.1)
    assert 0.1 < last < 0.35


def test_linear_falls_by_the_same_each_step() -> None:
    config = OptimizerConfig(learning_rate=1.0, min_learning_rate=0.2, schedule="linear")
    assert rates(config, 8, [0, 1, 4, 7]) == pytest.approx([1.0, 0.9, 0.6, 0.3])


def test_constant_stays() -> None:
    config = OptimizerConfig(learning_rate=0.7, schedule="constant")
    assert rates(config, 10, [0, 9, 99]) == pytest.approx([0.7] * 3)


def test_inverse_square_root_goes_by_the_step_alone_and_has_a_floor() -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule="inverse-sqrt", warmup_steps=99)
    steps = [99, 399, 2499, 999_999]
    assert rates(config, 10, steps) == pytest.approx([1.0, 0.5, 0.2, 0.01], rel=1e-5)
    floored = OptimizerConfig(
        learning_rate=1.0, min_learning_rate=0.3, schedule="inverse-sqrt", warmup_steps=99
    )
    assert rates(floored, 10, [399, 2499]) == pytest.approx([0.5, 0.3])


def test_wsd_is_flat_until_its_decay() -> None:
    config = OptimizerConfig(
        learning_rate=1.0, min_learning_rate=0.0, schedule="wsd", warmup_steps=10, decay_steps=20
    )
    steps = [9, 10, 79, 80, 90, 99, 100]
    expected = [10 / 11, 1.0, 1.0, 1.0, 0.5, 0.05, 0.0]
    assert rates(config, 100, steps) == pytest.approx(expected, abs=1e-6)
    tenth = OptimizerConfig(learning_rate=1.0, min_learning_rate=0.0, schedule="wsd")
    assert rates(tenth, 100, [90, 95]) == pytest.approx([1.0, 0.5])


def test_warmup_and_decay_longer_than_the_run_still_make_numbers() -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule="wsd", warmup_steps=10, decay_steps=50)
    assert rates(config, 20, [9, 10, 15]) == pytest.approx([10 / 11, 1.0, 0.55])
    assert rates(config, 5, [4]) == pytest.approx([5 / 11])
