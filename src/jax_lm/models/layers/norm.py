"""Normalisation layers; statistics are computed in float32 whatever the compute dtype."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class LayerNorm(eqx.Module):
    """Layer normalisation over ``embed`` (Ba et al. 2016, arXiv:1607.06450).

    Bias optional, and the scale too: OPT can have norms without parameters.
    """

    scale: Float[Array, "embed"] | None
    bias: Float[Array, "embed"] | None
    epsilon: float = eqx.field(static=True)

    @staticmethod
    def init(embed_dim: int, *, bias: bool = True, epsilon: float = 1e-5) -> "LayerNorm":
        """Scale one, bias zero."""
        return LayerNorm(jnp.ones(embed_dim), jnp.zeros(embed_dim) if bias else None, epsilon)

    def __call__(self, x: Float[Array, "*rest embed"]) -> Float[Array, "*rest embed"]:
        """Normalise, scale and shift; the result has the dtype of ``x``."""
        y = standardise(x.astype(jnp.float32), self.epsilon)
        if self.scale is not None:
            y = y * jnp.expand_dims(self.scale, tuple(range(x.ndim - 1)))
        if self.bias is not None:
            y = y + jnp.expand_dims(self.bias, tuple(range(x.ndim - 1)))
        return y.astype(x.dtype)


class RMSNorm(eqx.Module):
    """Root-mean-square normalisation over ``embed``."""

    scale: Float[Array, "embed"]
    epsilon: float = eqx.field(static=True)

    @staticmethod
    def init(embed_dim: int, *, epsilon: float = 1e-6) -> "RMSNorm":
        """Scale one."""
        return RMSNorm(jnp.ones(embed_dim), epsilon)

    def __call__(self, x: Float[Array, "*rest embed"]) -> Float[Array, "*rest embed"]:
        """Normalise and scale; the result has the dtype of ``x``."""
        return rms_normalise(x, self.scale, self.epsilon)


def rms_normalise(
    x: Float[Array, "*rest channels"], scale: Float[Array, "channels"], epsilon: float
) -> Float[Array, "*rest channels"]:
    """``x`` over its root mean square, times ``scale`` (Zhang and Sennrich 2019, 1910.07467)."""
    y = standardise(x.astype(jnp.float32), epsilon, centre=False)
    return (y * jnp.expand_dims(scale, tuple(range(x.ndim - 1)))).astype(x.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def standardise(
    x: Float[Array, "*rest channels"], epsilon: float, centre: bool = True
) -> Float[Array, "*rest channels"]:
    """``x`` less its mean, where ``centre``, over the root of its mean square plus ``epsilon``.

    The backward pass keeps the result and one factor a row, nothing else of the size of ``x``.
    """
    return _standardised(x, epsilon, centre)[0]


@standardise.defjvp
def _standardise_derivative(
    epsilon: float, centre: bool, x: tuple[Array], tangent: tuple[Array]
) -> tuple[Float[Array, "*rest channels"], Float[Array, "*rest channels"]]:
    y, factor = _standardised(x[0], epsilon, centre)
    moved = tangent[0]
    if centre:
        moved = moved - moved.mean(axis=-1, keepdims=True)
    return y, factor * (moved - y * (y * moved).mean(axis=-1, keepdims=True))


def _standardised(
    x: Float[Array, "*rest channels"], epsilon: float, centre: bool
) -> tuple[Float[Array, "*rest channels"], Float[Array, "*rest 1"]]:
    if centre:
        x = x - x.mean(axis=-1, keepdims=True)
    factor = jax.lax.rsqrt(jnp.square(x).mean(axis=-1, keepdims=True) + epsilon)
    return x * factor, factor
