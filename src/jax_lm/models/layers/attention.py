"""Multi-head attention: one function that computes it, one layer that projects around it."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jax_lm.models.layers.dropout import dropout
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import LayerCache, write

KERNEL = "XLA (einsum, heads outward)"
"""What computes attention; shown by ``jax-lm doctor``."""


def attend(
    query: Float[Array, "batch heads seq head_dim"],
    key: Float[Array, "batch heads slots head_dim"],
    value: Float[Array, "batch heads slots head_dim"],
    mask: Bool[Array, "#batch seq slots"],
    *,
    dropout_rate: float = 0.0,
    dropout_key: Key[Array, ""] | None = None,
) -> Float[Array, "batch heads seq head_dim"]:
    """Scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762), softmax in float32.

    Heads come before positions, so that on a CPU the products are plain batched matrix products.
    """
    scale = 1.0 / math.sqrt(query.shape[-1])
    scores = jnp.einsum("bhtd,bhsd->bhts", query * scale, key, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, None], scores, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    weights = dropout(weights, dropout_rate, dropout_key)
    return jnp.einsum("bhts,bhsd->bhtd", weights, value)


class Attention(eqx.Module):
    """Multi-head self-attention with separate query, key and value projections."""

    query_weight: Float[Array, "embed heads head_dim"]
    key_weight: Float[Array, "embed heads head_dim"]
    value_weight: Float[Array, "embed heads head_dim"]
    output_weight: Float[Array, "heads head_dim embed"]
    query_bias: Float[Array, "heads head_dim"] | None
    key_bias: Float[Array, "heads head_dim"] | None
    value_bias: Float[Array, "heads head_dim"] | None
    output_bias: Float[Array, "embed"] | None
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(
        key: Key[Array, ""],
        embed_dim: int,
        num_heads: int,
        *,
        bias: bool,
        dropout_rate: float,
        init_std: float,
        output_std: float,
    ) -> "Attention":
        """Normal weights (``output_std`` for the projection back to ``embed``), zero biases."""
        head_dim = embed_dim // num_heads
        inward = (embed_dim, num_heads, head_dim)
        query_key, key_key, value_key, output_key = jax.random.split(key, 4)
        return Attention(
            query_weight=normal(query_key, inward, init_std),
            key_weight=normal(key_key, inward, init_std),
            value_weight=normal(value_key, inward, init_std),
            output_weight=normal(output_key, (num_heads, head_dim, embed_dim), output_std),
            query_bias=jnp.zeros(inward[1:]) if bias else None,
            key_bias=jnp.zeros(inward[1:]) if bias else None,
            value_bias=jnp.zeros(inward[1:]) if bias else None,
            output_bias=jnp.zeros(embed_dim) if bias else None,
            dropout_rate=dropout_rate,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: Bool[Array, "#batch seq slots"],
        cache: LayerCache | None = None,
        positions: Int[Array, "batch seq"] | None = None,
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Attend over ``x`` itself or, with a cache, over the cache once ``x`` is written to it.

        Args:
            x: normalised hidden states.
            mask: which slots each position may see.
            cache: keys and values of earlier tokens.
            positions: where in the cache the tokens of ``x`` belong; needed with a cache.
            key: for dropout on the attention weights; None: no dropout.
        """
        query = _project(x, self.query_weight, self.query_bias)
        keys = _project(x, self.key_weight, self.key_bias)
        values = _project(x, self.value_weight, self.value_bias)
        if cache is not None:
            assert positions is not None, "a cache needs positions"
            cache = write(cache, keys, values, positions)
            keys, values = cache.key.astype(x.dtype), cache.value.astype(x.dtype)
        attended = attend(
            query, keys, values, mask, dropout_rate=self.dropout_rate, dropout_key=key
        )
        y = jnp.einsum("bhtd,hde->bte", attended, self.output_weight)
        return (y if self.output_bias is None else y + self.output_bias[None, None, :]), cache


def _project(
    x: Float[Array, "batch seq embed"],
    weight: Float[Array, "embed heads head_dim"],
    bias: Float[Array, "heads head_dim"] | None,
) -> Float[Array, "batch heads seq head_dim"]:
    y = jnp.einsum("bte,ehd->bhtd", x, weight)
    return y if bias is None else y + bias[None, :, None, :]
