"""Layers against their formulas, restated in NumPy float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.layers.attention import attend
from jax_lm.models.layers.dropout import dropout
from jax_lm.models.layers.feed_forward import ACTIVATIONS
from jax_lm.models.layers.kv_cache import causal_mask
from jax_lm.models.layers.norm import LayerNorm

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


def test_attention_is_its_formula():
    query, key, value = RANDOM.normal(size=(3, 2, 2, 5, 4)).astype(np.float32)
    mask = np.tril(np.ones((1, 5, 5), bool))
    scores = np.einsum("bhtd,bhsd->bhts", query, key, dtype=np.float64) / 2.0
    weights = np.exp(scores) * mask[:, None]
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("bhts,bhsd->bhtd", weights, value)
    arrays = (jnp.asarray(a) for a in (query, key, value, mask))
    np.testing.assert_allclose(attend(*arrays), expected, atol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name):
    x = np.linspace(-4, 4, 41)
    exact = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x]
    tanh = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    expected = {"gelu": exact, "gelu_tanh": tanh}[name]
    np.testing.assert_allclose(ACTIVATIONS[name](jnp.asarray(x, jnp.float32)), expected, atol=2e-6)


def test_dropout_keeps_the_mean_and_the_rate():
    x = jnp.ones((200, 200))
    y = np.asarray(dropout(x, 0.25, jax.random.key(0)))
    assert set(np.unique(y).round(4)) == {0.0, np.float32(1 / 0.75).round(4)}
    assert abs((y == 0).mean() - 0.25) < 0.01
    assert dropout(x, 0.25, None) is x


def test_the_causal_mask_follows_positions():
    mask = causal_mask(jnp.array([[0, 1], [3, 4]]), 6)
    assert mask.sum(axis=-1).tolist() == [[1, 2], [4, 5]]
    assert mask[1, 0].tolist() == [True] * 4 + [False] * 2


def test_the_published_model_has_124_million_parameters():
    config = GPT2Config(vocab_size=50257)
    abstract = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(abstract)) == 124_439_808


def test_projections_into_the_residual_stream_start_smaller():
    config = GPT2Config(vocab_size=8, context_length=8, num_layers=8, num_heads=2, embed_dim=64)
    blocks = jax.jit(GPT2.init, static_argnums=1)(jax.random.key(0), config).blocks
    ratio = blocks.feed_forward.up_weight.std() / blocks.feed_forward.down_weight.std()
    assert abs(float(ratio) - 4.0) < 0.1
    assert abs(float(blocks.attention.output_weight.std()) - 0.005) < 2e-4
