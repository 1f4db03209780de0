"""Activation functions, by the names that configurations use."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

Activation = Literal["gelu_tanh", "gelu", "relu", "silu"]
"""``gelu_tanh`` is GPT-2's approximation, ``gelu`` the exact one (with the error function;
Hendrycks and Gimpel 2016, arXiv:1606.08415); ``silu`` is also called swish."""


def _keeping_its_slope(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """An elementwise ``function`` of which the backward pass keeps the slope alone.

    Left to itself, it would keep every intermediate value: six arrays for the tanh approximation.
    """

    @jax.custom_jvp
    def activation(x: Array) -> Array:
        return function(x)

    @activation.defjvp
    def derivative(x: tuple[Array], tangent: tuple[Array]) -> tuple[Array, Array]:
        y, slope = jax.jvp(function, x, (jnp.ones_like(x[0]),))
        return y, slope * tangent[0]

    return activation


ACTIVATIONS: Mapping[Activation, Callable[[Array], Array]] = {
    "gelu_tanh": _keeping_its_slope(partial(jax.nn.gelu, approximate=True)),
    "gelu": _keeping_its_slope(partial(jax.nn.gelu, approximate=False)),
    "relu": jax.nn.relu,
    "silu": _keeping_its_slope(jax.nn.silu),
}
