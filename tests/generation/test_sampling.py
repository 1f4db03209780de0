import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.generation.sampling import (
    SamplingConfig,
    keep_top_k,
    keep_top_p,
    sample,
    streams,
    token_keys,
)

PROBABILITIES = np.array([0.1, 0.4, 0.05, 0.25, 0.2])
LOGITS = jnp.log(jnp.asarray(PROBABILITIES, jnp.float32))[None]
EVERY = [0, 1, 2, 3, 4]


def support(logits: jax.Array) -> list[int]:
    return np.flatnonzero(np.isfinite(np.asarray(logits)[0])).tolist()


def draw(count: int, **settings: float) -> np.ndarray:
    keys = jax.random.split(jax.random.key(0), count)
    return np.asarray(sample(jnp.tile(LOGITS, (count, 1)), keys, **settings))


@pytest.mark.parametrize(
    ("k", "kept"),
    [(1, [1]), (2, [1, 3]), (3, [1, 3, 4]), (5, [0, 1, 2, 3, 4]), (9, [0, 1, 2, 3, 4])],
)
def test_top_k_keeps_exactly_the_k_largest(k, kept):
    filtered = keep_top_k(LOGITS, k)
    assert support(filtered) == kept
    assert filtered[0, 1] == LOGITS[0, 1]


def test_top_k_of_equal_logits_keeps_exactly_k():
    assert support(keep_top_k(jnp.zeros((1, 6)), 3)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (0.01, [1]),
        (0.39, [1]),
        (0.41, [1, 3]),
        (0.64, [1, 3]),
        (0.7, [1, 3, 4]),
        (0.97, [0, 1, 2, 3, 4]),
    ],
)
def test_top_p_keeps_the_fewest_tokens_that_reach_p(p, kept):
    assert support(keep_top_p(LOGITS, p)) == kept


def test_filters_of_several_rows_do_not_mix():
    rows = jnp.concatenate([LOGITS, LOGITS[:, ::-1]])
    kept = np.isfinite(np.asarray(keep_top_k(rows, 2)))
    assert kept.tolist() == [[False, True, False, True, False]] * 2
    kept = np.isfinite(np.asarray(keep_top_p(rows, 0.3)))
    assert kept.tolist() == [[False, True, False, False, False], [False, False, False, True, False]]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_temperature(temperature):
    count = 20_000
    expected = PROBABILITIES ** (1 / temperature)
    expected *= count / expected.sum()
    observed = np.bincount(draw(count, temperature=temperature), minlength=5)
    chi_square = ((observed - expected) ** 2 / expected).sum()
    assert chi_square < 18.47  # the 0.999 quantile with 4 degrees of freedom


def test_top_k_then_top_p_renormalises():
    # Of the three largest (0.4, 0.25, 0.2 of 0.85) the first two make 0.76 of the mass.
    observed = np.bincount(draw(10_000, temperature=1.0, top_k=3, top_p=0.7), minlength=5)
    assert np.flatnonzero(observed).tolist() == [1, 3]
    assert abs(observed[1] / 10_000 - 0.4 / 0.65) < 0.02


def test_temperature_zero_is_greedy_and_needs_no_luck():
    assert set(draw(50, temperature=0.0).tolist()) == {1}


def test_low_precision_logits_are_sampled_in_float32():
    logits = jnp.tile(LOGITS.astype(jnp.bfloat16), (4, 1))
    ids = sample(logits, jax.random.split(jax.random.key(0), 4), temperature=0.01)
    assert ids.dtype == jnp.int32
    assert set(ids.tolist()) == {1}


def test_streams_depend_on_seed_prompt_and_copy_alone():
    def data(keys: jax.Array) -> list[tuple[int, ...]]:
        return [tuple(row) for row in np.asarray(jax.random.key_data(keys)).tolist()]

    together = data(streams(2**32 - 1, [[1], [2], [1]]))
    assert data(streams(2**32 - 1, [[2]])) == [together[1]]
    assert data(streams(2**32 - 1, [[1], [1]])) == [together[0], together[2]]
    assert len({*together, *data(streams(0, [[1], [2], [1]]))}) == 6
    first, second = (data(token_keys(streams(0, [[1]]), jnp.int32(i))) for i in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_new_tokens": 0}, "--max-new-tokens must be at least 1, not 0"),
        ({"temperature": -0.5}, "--temperature must be 0 or more, not -0.5"),
        ({"temperature": float("nan")}, "--temperature must be 0 or more, not nan"),
        ({"top_k": -1}, "--top-k must be 0"),
        ({"top_p": 0.0}, "--top-p must be above 0 and at most 1, not 0.0"),
        ({"top_p": 1.5}, "--top-p must be above 0 and at most 1, not 1.5"),
        ({"seed": -1}, "--seed must be between"),
    ],
)
def test_values_that_mean_nothing_are_refused(values, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        SamplingConfig(**values)
