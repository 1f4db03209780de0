"""Derivatives written by hand: right, and light on what the backward pass must keep."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jax_lm.models.layers.activations import ACTIVATIONS
from jax_lm.models.layers.dot_product import _softmax, attend
from jax_lm.models.layers.mask import causal_mask
from jax_lm.models.layers.norm import LayerNorm, RMSNorm, standardise

X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 8)), jnp.float32)
PLAIN = {
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "gelu": partial(jax.nn.gelu, approximate=False),
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
}


def standardised(x, centre):
    centred = x - x.mean(axis=-1, keepdims=True) if centre else x
    return centred / jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


PAIRS = {
    **{name: (ACTIVATIONS[name], plain) for name, plain in PLAIN.items()},
    "softmax": (_softmax, jax.nn.softmax),
    "layer norm": (partial(standardise, epsilon=1e-5), partial(standardised, centre=True)),
    "rms norm": (
        lambda x: standardise(x, 1e-5, False),
        partial(standardised, centre=False),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_gradients_are_those_of_the_plain_function(name):
    ours, plain = PAIRS[name]

    def weighed(function, x):
        return (function(x) * jnp.cos(jnp.arange(x.size).reshape(x.shape))).sum()

    both = [jax.jit(jax.value_and_grad(partial(weighed, f)))(3 * X) for f in (ours, plain)]
    for actual, expected in zip(*both, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["gelu_tanh", "softmax", "layer norm"])
def test_forward_and_second_derivatives_exist(name):
    check_grads(
        jax.jit(PAIRS[name][0]), (X[:1, :2],), order=2, modes=["fwd", "rev"], atol=0.02, rtol=0.02
    )


def kept(function, *inputs) -> int:
    """Values of all arrays that the backward pass of ``function`` keeps, inputs left out."""
    _, pull = jax.vjp(function, *inputs)
    given = {id(leaf) for leaf in jax.tree.leaves(inputs)}
    return sum(leaf.size for leaf in jax.tree.leaves(pull) if id(leaf) not in given)


@pytest.mark.parametrize("name", ["gelu_tanh", "gelu", "silu", "softmax"])
def test_the_backward_pass_keeps_one_array(name):
    assert kept(PAIRS[name][0], X) == X.size


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_a_norm_keeps_its_result_and_a_factor_a_row(norm):
    def scaled(norm, x):
        return norm(x)

    rows = X.size // X.shape[-1]
    assert kept(scaled, norm.init(X.shape[-1]), X) <= X.size + rows + X.shape[-1]


def test_attention_keeps_its_weights_at_most_twice():
    """Once for their own derivative and, unless both are one array, once for the values'."""
    query, key, value = jnp.ones((3, 2, 4, 64, 8))
    weights = 2 * 4 * 64 * 64
    size = kept(lambda q, k, v: attend(q, k, v, causal_mask()), query, key, value)
    assert weights <= size < 2.5 * weights
