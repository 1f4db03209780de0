"""The position-wise feed-forward layer and its activations."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jax_lm.models.layers.init import normal

Activation = Literal["gelu_tanh", "gelu"]
"""``gelu_tanh`` is GPT-2's approximation, ``gelu`` the exact one (with the error function)."""

ACTIVATIONS: dict[Activation, Callable[[Array], Array]] = {
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "gelu": partial(jax.nn.gelu, approximate=False),
}


class FeedForward(eqx.Module):
    """``activation(x up + b) down + c``."""

    up_weight: Float[Array, "embed mlp"]
    up_bias: Float[Array, "mlp"] | None
    down_weight: Float[Array, "mlp embed"]
    down_bias: Float[Array, "embed"] | None
    activation: Activation = eqx.field(static=True)

    @staticmethod
    def init(
        key: Key[Array, ""],
        embed_dim: int,
        mlp_dim: int,
        *,
        bias: bool,
        activation: Activation,
        init_std: float,
        output_std: float,
    ) -> "FeedForward":
        """Normal weights (``output_std`` for the projection back to ``embed``), zero biases."""
        up_key, down_key = jax.random.split(key)
        return FeedForward(
            up_weight=normal(up_key, (embed_dim, mlp_dim), init_std),
            up_bias=jnp.zeros(mlp_dim) if bias else None,
            down_weight=normal(down_key, (mlp_dim, embed_dim), output_std),
            down_bias=jnp.zeros(embed_dim) if bias else None,
            activation=activation,
        )

    def __call__(self, x: Float[Array, "batch seq embed"]) -> Float[Array, "batch seq embed"]:
        """Apply to every position alone."""
        hidden = jnp.einsum("bte,em->btm", x, self.up_weight)
        if self.up_bias is not None:
            hidden = hidden + self.up_bias[None, None, :]
        hidden = ACTIVATIONS[self.activation](hidden)
        y = jnp.einsum("btm,me->bte", hidden, self.down_weight)
        return y if self.down_bias is None else y + self.down_bias[None, None, :]
