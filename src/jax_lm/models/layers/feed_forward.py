"""Position-wise feed-forward layers, plain and gated."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jax_lm.models.layers.activations import ACTIVATIONS, Activation
from jax_lm.models.layers.dropout import DropoutKey, dropout
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.low_rank import contract
from jax_lm.models.layers.placement import placed


class FeedForward(eqx.Module):
    """``activation(x up + b) down + c``."""

    up_weight: Float[Array, "embed mlp"]
    up_bias: Float[Array, "mlp"] | None
    down_weight: Float[Array, "mlp embed"]
    down_bias: Float[Array, "embed"] | None
    activation: Activation = eqx.field(static=True)
    dropout_rate: float = eqx.field(static=True, default=0.0)
    """Of what the activation gives."""

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
        dropout_rate: float = 0.0,
    ) -> "FeedForward":
        """Normal weights (``output_std`` for the projection back to ``embed``), zero biases."""
        up_key, down_key = jax.random.split(key)
        return FeedForward(
            up_weight=normal(up_key, (embed_dim, mlp_dim), init_std),
            up_bias=jnp.zeros(mlp_dim) if bias else None,
            down_weight=normal(down_key, (mlp_dim, embed_dim), output_std),
            down_bias=jnp.zeros(embed_dim) if bias else None,
            activation=activation,
            dropout_rate=dropout_rate,
        )

    def __call__(
        self, x: Float[Array, "batch seq embed"], *, key: DropoutKey | None = None
    ) -> Float[Array, "batch seq embed"]:
        """Apply to every position alone; ``key`` is for dropout, None: no dropout."""
        hidden = contract("bte,em->btm", x, self.up_weight)
        if self.up_bias is not None:
            hidden = hidden + self.up_bias[None, None, :]
        hidden = placed(ACTIVATIONS[self.activation](hidden), "batch seq mlp")
        hidden = dropout(hidden, self.dropout_rate, key)
        y = contract("btm,me->bte", hidden, self.down_weight)
        return y if self.down_bias is None else y + self.down_bias[None, None, :]


class GatedFeedForward(eqx.Module):
    """``(activation(x gate) * (x up)) down`` (Shazeer 2020, arXiv:2002.05202), without biases."""

    gate_weight: Float[Array, "embed mlp"]
    up_weight: Float[Array, "embed mlp"]
    down_weight: Float[Array, "mlp embed"]
    activation: Activation = eqx.field(static=True)
    dropout_rate: float = eqx.field(static=True, default=0.0)
    """Of what the activation gives."""

    @staticmethod
    def init(
        key: Key[Array, ""],
        embed_dim: int,
        mlp_dim: int,
        *,
        activation: Activation,
        init_std: float,
        output_std: float,
        dropout_rate: float = 0.0,
    ) -> "GatedFeedForward":
        """Normal weights (``output_std`` for the projection back to ``embed``)."""
        gate_key, up_key, down_key = jax.random.split(key, 3)
        return GatedFeedForward(
            gate_weight=normal(gate_key, (embed_dim, mlp_dim), init_std),
            up_weight=normal(up_key, (embed_dim, mlp_dim), init_std),
            down_weight=normal(down_key, (mlp_dim, embed_dim), output_std),
            activation=activation,
            dropout_rate=dropout_rate,
        )

    def __call__(
        self, x: Float[Array, "batch seq embed"], *, key: DropoutKey | None = None
    ) -> Float[Array, "batch seq embed"]:
        """Apply to every position alone; ``key`` is for dropout, None: no dropout."""
        gate = ACTIVATIONS[self.activation](contract("bte,em->btm", x, self.gate_weight))
        hidden = placed(gate * contract("bte,em->btm", x, self.up_weight), "batch seq mlp")
        hidden = dropout(hidden, self.dropout_rate, key)
        return contract("btm,me->bte", hidden, self.down_weight)
