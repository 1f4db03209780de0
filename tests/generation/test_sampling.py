import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.generation.requests import Request, copies
from jax_lm.generation.sampling import (
    SamplingConfig,
    forbid,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    largest,
    penalise,
    sample,
    stream,
    token_keys,
    token_log_prob,
)

PROBABILITIES = np.array([0.1, 0.4, 0.05, 0.25, 0.2])
LOGITS = jnp.log(jnp.asarray(PROBABILITIES, jnp.float32))[None]
EVERY = [0, 1, 2, 3, 4]


def support(logits: jax.Array) -> list[int]:
    return np.flatnonzero(np.isfinite(np.asarray(logits)[0])).tolist()


def rows(value: float, dtype: type, count: int = 1) -> jax.Array:
    return jnp.full(count, value, dtype)


@jax.jit
def drawn(logits: jax.Array, temperature, top_k, top_p, min_p) -> jax.Array:
    keys = jax.random.split(jax.random.key(0), len(logits))
    return sample(logits, keys, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)


def draw(count: int, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logits=LOGITS):
    floats = [rows(value, jnp.float32, count) for value in (temperature, top_p, min_p)]
    chosen = rows(top_k, jnp.int32, count)
    ids = drawn(jnp.tile(logits, (count, 1)), floats[0], chosen, *floats[1:])
    return np.asarray(ids)


def top_k(logits: jax.Array, k: int) -> jax.Array:
    return keep_top_k(logits, rows(k, jnp.int32, len(logits)))


def top_p(logits: jax.Array, p: float) -> jax.Array:
    return keep_top_p(logits, rows(p, jnp.float32, len(logits)))


@pytest.mark.parametrize(
    ("k", "kept"),
    [(1, [1]), (2, [1, 3]), (3, [1, 3, 4]), (5, [0, 1, 2, 3, 4]), (9, [0, 1, 2, 3, 4])],
)
def test_top_k_keeps_exactly_the_k_largest(k, kept):
    filtered = top_k(LOGITS, k)
    assert support(filtered) == kept
    assert filtered[0, 1] == LOGITS[0, 1]


def test_top_k_of_equal_logits_keeps_exactly_k():
    assert support(top_k(jnp.zeros((1, 6)), 3)) == [0, 1, 2]


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
    assert support(top_p(LOGITS, p)) == kept


def test_filters_of_several_rows_do_not_mix():
    both = jnp.concatenate([LOGITS, LOGITS[:, ::-1]])
    kept = np.isfinite(np.asarray(top_k(both, 2)))
    assert kept.tolist() == [[False, True, False, True, False]] * 2
    kept = np.isfinite(np.asarray(top_p(both, 0.3)))
    assert kept.tolist() == [[False, True, False, False, False], [False, False, False, True, False]]


def test_each_row_has_its_own_settings_and_may_have_none():
    four = jnp.tile(LOGITS, (4, 1))
    kept = np.isfinite(np.asarray(keep_top_k(four, jnp.array([1, 0, 2, 9])))).sum(axis=1)
    assert kept.tolist() == [1, 5, 2, 5]
    kept = np.isfinite(np.asarray(keep_top_p(four, jnp.array([0.3, 1.0, 0.6, 0.7]))))
    assert kept.sum(axis=1).tolist() == [1, 5, 2, 3]
    kept = np.isfinite(np.asarray(keep_min_p(four, jnp.array([1.0, 0.0, 0.49, 0.51]))))
    assert kept.sum(axis=1).tolist() == [1, 5, 3, 2]


def test_the_largest_are_those_that_sorting_finds():
    draws = np.random.default_rng(0)
    values = draws.normal(size=(20, 301)).astype(np.float32).round(1)  # with many that are equal
    values[:, 0] = -np.inf
    values[:, 1] = -0.0
    targets = draws.integers(1, 302, 20)
    found = largest(jnp.asarray(values), jnp.ones(values.shape, jnp.int32), jnp.asarray(targets))
    for row, target, kept in zip(values, targets, np.asarray(found), strict=True):
        order = np.argsort(-row, kind="stable")
        assert np.flatnonzero(kept).tolist() == sorted(order[:target].tolist())


def test_a_repetition_penalty_is_that_of_transformers():
    import torch
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    logits = np.random.default_rng(0).normal(size=(2, 11)).astype(np.float32)
    texts = np.array([[3, 3, 0, 7], [10, 2, 5, 5]])
    expected = RepetitionPenaltyLogitsProcessor(1.7)(torch.tensor(texts), torch.tensor(logits))
    padded = np.pad(texts, ((0, 0), (0, 3)), constant_values=9)
    found = penalise(
        jnp.asarray(logits), jnp.asarray(padded), jnp.array([4, 4]), rows(1.7, jnp.float32, 2)
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


def test_forbidden_ids_and_log_probabilities():
    two = jnp.tile(LOGITS, (2, 1))
    found = forbid(two, jnp.array([[1, -1], [1, 2]]), jnp.array([True, False]))
    assert support(found[:1]) == [0, 2, 3, 4]
    assert support(found[1:]) == EVERY
    logs = token_log_prob(3 + two, jnp.array([1, 2]))
    np.testing.assert_allclose(logs, np.log([0.4, 0.05]), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"temperature": 0.5}, EVERY),
        ({"temperature": 1.0}, EVERY),
        ({"temperature": 2.0}, EVERY),
        ({"temperature": 2.0, "top_k": 3}, [1, 3, 4]),
        ({"top_p": 0.8}, [1, 3, 4]),
        ({"temperature": 0.7, "min_p": 0.2}, [0, 1, 3, 4]),  # 0.1 of 0.4 is 0.14 there
        ({"min_p": 0.2}, [0, 1, 3, 4]),
        ({"top_k": 4, "top_p": 0.9, "min_p": 0.3}, [1, 3, 4]),
    ],
)
def test_frequencies_are_those_of_theory(settings, kept):
    count = 20_000
    expected = PROBABILITIES ** (1 / settings.get("temperature", 1.0))
    if settings == {"temperature": 0.7, "min_p": 0.2}:
        kept = np.flatnonzero(expected >= 0.2 * expected.max()).tolist()
    expected[[i for i in EVERY if i not in kept]] = 0
    expected *= count / expected.sum()
    observed = np.bincount(draw(count, **settings), minlength=5)
    assert np.flatnonzero(observed).tolist() == kept
    chi_square = ((observed - expected)[kept] ** 2 / expected[kept]).sum()
    # The 0.999 quantiles with 2, 3 and 4 degrees of freedom.
    assert chi_square < {3: 13.82, 4: 16.27, 5: 18.47}[len(kept)]


def test_top_k_then_top_p_renormalises():
    # Of the three largest (0.4, 0.25, 0.2 of 0.85) the first two make 0.76 of the mass.
    observed = np.bincount(draw(10_000, temperature=1.0, top_k=3, top_p=0.7), minlength=5)
    assert np.flatnonzero(observed).tolist() == [1, 3]
    assert abs(observed[1] / 10_000 - 0.4 / 0.65) < 0.02


def test_temperature_zero_is_greedy_and_needs_no_luck():
    assert set(draw(50, temperature=0.0).tolist()) == {1}


def test_low_precision_logits_are_sampled_in_float32():
    logits = LOGITS.astype(jnp.bfloat16)
    ids = draw(4, temperature=0.01, logits=logits[:1])
    assert ids.dtype == np.int32
    assert set(ids.tolist()) == {1}


def test_streams_depend_on_seed_prompt_and_copy_alone():
    def data(seed: int, prompts: list[list[int]]) -> list[tuple[int, ...]]:
        config = SamplingConfig(seed=seed)
        numbered = zip(prompts, copies(prompts), strict=True)
        asked = [Request(prompt, config, copy).random_words for prompt, copy in numbered]
        return [tuple(stream(jnp.array(words, jnp.uint32)).tolist()) for words in asked]

    together = data(2**32 - 1, [[1], [2], [1]])
    assert data(2**32 - 1, [[2]]) == [together[1]]
    assert data(2**32 - 1, [[1], [1]]) == [together[0], together[2]]
    assert len({*together, *data(0, [[1], [2], [1]])}) == 6
    streams = jnp.array(together[:1] * 2, jnp.uint32)
    first, second = jax.random.key_data(token_keys(streams, jnp.array([0, 1]))).tolist()
    assert first != second


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_new_tokens": 0}, "--max-new-tokens is 0, expected 1 or more"),
        ({"temperature": -0.5}, "--temperature is -0.5, expected 0 or more"),
        ({"temperature": float("nan")}, "--temperature is nan, expected 0 or more"),
        ({"top_k": -1}, "--top-k is -1, expected 0"),
        ({"top_p": 0.0}, "--top-p is 0.0, expected above 0 and at most 1"),
        ({"top_p": 1.5}, "--top-p is 1.5, expected above 0 and at most 1"),
        ({"min_p": 1.1}, "--min-p is 1.1, expected from 0 to 1"),
        ({"min_new_tokens": -1}, "--min-new-tokens is -1, expected 0 or more"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "--min-new-tokens is 9, expected at most"),
        ({"repetition_penalty": 0.0}, "--repetition-penalty is 0.0, expected above 0"),
        ({"stop": ("a", "")}, "--stop is empty, expected some text"),
        ({"stop_ids": (2, -1)}, "--stop-ids is"),
        ({"seed": -1}, "--seed is -1, expected from 0"),
    ],
)
def test_values_that_mean_nothing_are_refused(values, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        SamplingConfig(**values)
