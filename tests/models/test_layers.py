"""Layers against their formulas, restated in NumPy float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.layers.activations import ACTIVATIONS
from jax_lm.models.layers.dropout import DropoutKey, dropout
from jax_lm.models.layers.mask import (
    bidirectional_mask,
    cached_mask,
    causal_mask,
    cross_mask,
    token_positions,
)
from jax_lm.models.layers.norm import LayerNorm, RMSNorm
from jax_lm.models.layers.rotary import frequencies, rotate, rotation
from jax_lm.models.registry import count_parameters

RANDOM = np.random.default_rng(0)


def test_layer_norm_is_its_formula():
    x = RANDOM.normal(3, 5, (2, 4, 8)).astype(np.float32)
    scale, bias = RANDOM.normal(size=(2, 8)).astype(np.float32)
    x64 = x.astype(np.float64)
    normed = (x64 - x64.mean(-1, keepdims=True)) / np.sqrt(x64.var(-1, keepdims=True) + 1e-3)
    norm = LayerNorm(jnp.asarray(scale), jnp.asarray(bias), 1e-3)
    np.testing.assert_allclose(norm(jnp.asarray(x)), normed * scale + bias, atol=1e-5)
    without = LayerNorm(jnp.asarray(scale), None, 1e-3)
    np.testing.assert_allclose(without(jnp.asarray(x)), normed * scale, atol=1e-5)


def test_layer_norm_of_low_precision_input_is_computed_in_float32():
    x = jnp.asarray(RANDOM.normal(1000, 1, (1, 64)), jnp.bfloat16)
    norm = LayerNorm.init(64)
    y = norm(x)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, norm(x.astype(jnp.float32)).astype(jnp.bfloat16))


def test_rms_norm_is_its_formula():
    x = RANDOM.normal(3, 5, (2, 4, 8)).astype(np.float32)
    scale = RANDOM.normal(size=8).astype(np.float32)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-3) * scale
    np.testing.assert_allclose(RMSNorm(jnp.asarray(scale), 1e-3)(jnp.asarray(x)), expected, 1e-5)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_scores_depend_on_distance_alone(interleaved):
    """And channels beyond those that turn stay as they are."""
    query, key = RANDOM.normal(size=(2, 1, 1, 1, 8)).astype(np.float32)

    def turned(x, position):
        turn = rotation(jnp.array([[position]]), frequencies(6))
        return np.asarray(rotate(jnp.asarray(x), turn, interleaved=interleaved))

    scores = [(turned(query, 5 + shift) * turned(key, 2 + shift)).sum() for shift in (0, 3, 50)]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-4)
    assert abs(scores[0] - (turned(query, 6) * turned(key, 2)).sum()) > 1e-3
    np.testing.assert_array_equal(turned(query, 9)[..., 6:], query[..., 6:])
    pair = (0, 1) if interleaved else (0, 3)
    angle = 5.0  # of the first pair: a radian a position
    a, b = query[0, 0, 0, list(pair)]
    expected = [
        a * math.cos(angle) - b * math.sin(angle),
        b * math.cos(angle) + a * math.sin(angle),
    ]
    np.testing.assert_allclose(turned(query, 5)[0, 0, 0, list(pair)], expected, atol=1e-5)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name):
    x = np.linspace(-4, 4, 41)
    exact = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x]
    tanh = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    silu = x / (1 + np.exp(-x))
    formulas = {"gelu": exact, "gelu_tanh": tanh, "relu": np.maximum(x, 0), "silu": silu}
    expected = formulas[name]
    np.testing.assert_allclose(ACTIVATIONS[name](jnp.asarray(x, jnp.float32)), expected, atol=2e-6)


def test_dropout_keeps_the_mean_and_the_rate():
    x = jnp.ones((200, 200))
    y = np.asarray(dropout(x, 0.25, DropoutKey(jax.random.key(0), jnp.arange(200))))
    assert set(np.unique(y).round(4)) == {0.0, np.float32(1 / 0.75).round(4)}
    assert abs((y == 0).mean() - 0.25) < 0.01
    assert dropout(x, 0.25, None) is x


def test_masks_follow_slots_windows_and_segments():
    cached = np.asarray(cached_mask(jnp.array([[0, 1], [3, 4]])).dense(2, 6))
    assert cached.sum(axis=-1).tolist() == [[1, 2], [4, 5]]
    assert cached[1, 0].tolist() == [True] * 4 + [False] * 2
    windowed = np.asarray(cached_mask(jnp.array([[0, 4]]), window=2).dense(2, 6))
    assert windowed[0].tolist() == [[True] + [False] * 5, [False] * 3 + [True] * 2 + [False]]
    segments = jnp.array([[0, 1, 1, 2]])
    packed = np.asarray(causal_mask(segments).dense(4, 4))
    assert packed[0].astype(int).tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 1],
    ]
    assert np.asarray(cross_mask(segments).dense(3, 4)).tolist() == [[[False, True, True, True]]]
    assert bidirectional_mask(None).dense(4, 4) is None


def test_positions_start_again_with_every_segment():
    segments = jnp.array([[0, 0, 1, 1, 2, 2], [1, 1, 1, 0, 0, 0]])
    found = token_positions(jnp.zeros((2, 6), jnp.int32), segments)
    assert found.tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]


def test_the_published_model_has_124_million_parameters():
    config = GPT2Config(vocab_size=50257)
    assert count_parameters(config) == 124_439_808  # padding of the vocabulary left out
    assert count_parameters(config, embeddings=False) == 124_439_808 - 1024 * 768
    assert config.padded_vocab_size == 50304


def test_projections_into_the_residual_stream_start_smaller():
    config = GPT2Config(vocab_size=8, context_length=8, num_layers=8, num_heads=2, embed_dim=64)
    blocks = jax.jit(GPT2.init, static_argnums=1)(jax.random.key(0), config).blocks
    ratio = blocks.feed_forward.up_weight.std() / blocks.feed_forward.down_weight.std()
    assert abs(float(ratio) - 4.0) < 0.1
    assert abs(float(blocks.attention.output_weight.std()) - 0.005) < 2e-4
