"""The intervals hold the true number as often as they say."""

import numpy as np
import pytest

from jax_lm.evaluation.results.bootstrap import mean_of, resampled_ratios

TRUTH_FROM = 2_000_000


def documents(draws: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nats and bytes: sizes of a long tail, and short documents are harder."""
    sizes = np.ceil(np.exp(draws.normal(6, 0.8, count)))
    rates = np.exp(draws.normal(0, 0.35, count)) * (sizes / 400) ** -0.15
    return (rates * sizes)[:, None], sizes[:, None]


@pytest.fixture(scope="module")
def truth() -> float:
    nats, sizes = documents(np.random.default_rng(1), TRUTH_FROM)
    return float(nats.sum() / sizes.sum())


@pytest.mark.parametrize("count", [25, 100])
def test_the_interval_holds_the_true_number_in_93_to_97_of_100_sets(
    count: int, truth: float
) -> None:
    draws = np.random.default_rng(2)
    held = 0
    for seed in range(1000):
        (found,) = resampled_ratios(*documents(draws, count), resamples=400, seed=seed)
        low, high = found.interval()
        held += low <= truth <= high
    assert 930 <= held <= 970


def test_so_does_that_of_the_mean_of_subsets(truth: float) -> None:
    draws = np.random.default_rng(3)
    held = 0
    for seed in range(1000):
        parts = [
            resampled_ratios(*documents(draws, count), resamples=300, seed=seed + 1000 * index)[0]
            for index, count in enumerate((20, 40, 60))
        ]
        low, high = mean_of(parts).interval()
        held += low <= truth <= high
    assert 930 <= held <= 970


def test_draws_are_those_of_the_seed_and_as_a_plain_loop_makes_them() -> None:
    nats, sizes = documents(np.random.default_rng(4), 12)
    (found,) = resampled_ratios(nats, sizes, resamples=50, seed=9)
    (again,) = resampled_ratios(nats, sizes, resamples=50, seed=9)
    (other,) = resampled_ratios(nats, sizes, resamples=50, seed=10)
    assert found.interval() == again.interval() != other.interval()
    drawn = np.random.default_rng(9).integers(0, 12, (50, 12))
    for index, documents_drawn in enumerate(drawn):
        y, x = nats[documents_drawn, 0], sizes[documents_drawn, 0]
        value = y.sum() / x.sum()
        error = np.sqrt(12 / 11 * ((y - value * x) ** 2).sum()) / x.sum()
        assert found.values[index] == pytest.approx(value, rel=1e-12)
        assert found.errors[index] == pytest.approx(error, rel=1e-9)


def test_equal_documents_leave_no_doubt() -> None:
    ones = np.ones((10, 1))
    (found,) = resampled_ratios(3 * ones, 2 * ones, resamples=20, seed=0)
    assert found.interval() == (1.5, 1.5)
