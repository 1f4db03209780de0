"""Activation functions, by the names that configurations use."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
from jaxtyping import Array

Activation = Literal["gelu_tanh", "gelu", "relu", "silu"]
"""``gelu_tanh`` is GPT-2's approximation, ``gelu`` the exact one (with the error function;
Hendrycks and Gimpel 2016, arXiv:1606.08415); ``silu`` is also called swish."""

ACTIVATIONS: dict[Activation, Callable[[Array], Array]] = {
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "gelu": partial(jax.nn.gelu, approximate=False),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}
