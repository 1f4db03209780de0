"""Normalisation layers; statistics are computed in float32 whatever the compute dtype."""

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
        x32 = x.astype(jnp.float32)
        mean = x32.mean(axis=-1, keepdims=True)
        centred = x32 - mean
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        y = centred * jax.lax.rsqrt(variance + self.epsilon)
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
    x32 = x.astype(jnp.float32)
    mean_square = jnp.square(x32).mean(axis=-1, keepdims=True)
    scale = jnp.expand_dims(scale, tuple(range(x.ndim - 1)))
    return (x32 * jax.lax.rsqrt(mean_square + epsilon) * scale).astype(x.dtype)
