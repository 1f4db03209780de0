"""Self-attention with rotary positions, and with fewer keys than queries where wanted."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jax_lm.models.layers.attention import merge, project
from jax_lm.models.layers.dot_product import attend
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import LayerCache, write
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import rms_normalise
from jax_lm.models.layers.rotary import Rotation, rotate


class RotaryAttention(eqx.Module):
    """Grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245) of rotated queries and keys.

    Queries are shared out over the keys' heads in order: the first ``heads / kv_heads`` queries
    meet the first key.
    """

    query_weight: Float[Array, "embed heads head_dim"]
    key_weight: Float[Array, "embed kv_heads head_dim"]
    value_weight: Float[Array, "embed kv_heads head_dim"]
    output_weight: Float[Array, "heads head_dim embed"]
    query_bias: Float[Array, "heads head_dim"] | None
    key_bias: Float[Array, "kv_heads head_dim"] | None
    value_bias: Float[Array, "kv_heads head_dim"] | None
    output_bias: Float[Array, "embed"] | None
    query_scale: Float[Array, "head_dim"] | None
    key_scale: Float[Array, "head_dim"] | None
    """Of an RMSNorm over each head's channels, before the rotation (Qwen3); None: no such norm."""
    interleaved: bool = eqx.field(static=True)
    """Which channels make a pair, as ``rotate`` says."""
    dropout_rate: float = eqx.field(static=True)
    norm_epsilon: float = eqx.field(static=True, default=1e-6)

    @staticmethod
    def init(
        key: Key[Array, ""],
        embed_dim: int,
        heads: tuple[int, int, int],
        *,
        stds: tuple[float, float],
        dropout_rate: float = 0.0,
        interleaved: bool = False,
    ) -> "RotaryAttention":
        """Without biases and norms, which a family adds.

        Args:
            key: of the random weights.
            embed_dim: width of the residual stream.
            heads: number of queries' heads, number of keys' heads, width of a head.
            stds: standard deviation of the projections inward, and of the one back.
            dropout_rate: on the attention weights.
            interleaved: which channels make a pair.
        """
        num_heads, num_kv_heads, head_dim = heads
        queries, keys = (embed_dim, num_heads, head_dim), (embed_dim, num_kv_heads, head_dim)
        query_key, key_key, value_key, output_key = jax.random.split(key, 4)
        return RotaryAttention(
            query_weight=normal(query_key, queries, stds[0]),
            key_weight=normal(key_key, keys, stds[0]),
            value_weight=normal(value_key, keys, stds[0]),
            output_weight=normal(output_key, (num_heads, head_dim, embed_dim), stds[1]),
            query_bias=None,
            key_bias=None,
            value_bias=None,
            output_bias=None,
            query_scale=None,
            key_scale=None,
            interleaved=interleaved,
            dropout_rate=dropout_rate,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        rotation: Rotation,
        cache: LayerCache | None = None,
        *,
        key: DropoutKey | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Attend over ``x`` itself or, with a cache, over the cache once ``x`` is written to it.

        Args:
            x: normalised hidden states.
            mask: which keys each query may see; with a cache it says the queries' slots.
            rotation: of each position of ``x``.
            cache: rotated keys, and values, of earlier tokens.
            key: for dropout on the attention weights; None: no dropout.
        """
        queries = project(x, self.query_weight, self.query_bias)
        keys = project(x, self.key_weight, self.key_bias)
        values = project(x, self.value_weight, self.value_bias)
        if self.query_scale is not None and self.key_scale is not None:
            queries = rms_normalise(queries, self.query_scale, self.norm_epsilon)
            keys = rms_normalise(keys, self.key_scale, self.norm_epsilon)
        queries = rotate(queries, rotation, interleaved=self.interleaved)
        keys = rotate(keys, rotation, interleaved=self.interleaved)
        if cache is not None:
            assert mask.query_slots is not None, "a cache needs slots"
            cache = write(cache, keys, values, mask.query_slots)
            keys, values = cache.key.astype(x.dtype), cache.value.astype(x.dtype)
        attended = attend(
            queries, keys, values, mask, dropout_rate=self.dropout_rate, dropout_key=key
        )
        return merge(attended, self.output_weight, self.output_bias), cache


def zero_biases(attention: RotaryAttention, *, output: bool) -> RotaryAttention:
    """``attention`` with biases of zero on queries, keys, values and, if wanted, the output."""
    biased: RotaryAttention = eqx.tree_at(
        lambda a: (a.query_bias, a.key_bias, a.value_bias, a.output_bias),
        attention,
        (
            jnp.zeros(attention.query_weight.shape[1:]),
            jnp.zeros(attention.key_weight.shape[1:]),
            jnp.zeros(attention.value_weight.shape[1:]),
            jnp.zeros(attention.output_weight.shape[2]) if output else None,
        ),
        is_leaf=lambda leaf: leaf is None,
    )
    return biased


def unit_norms(attention: RotaryAttention, epsilon: float) -> RotaryAttention:
    """``attention`` with norms of scale one over the channels of each query and key head."""
    head_dim = attention.query_weight.shape[2]
    return dataclasses.replace(
        attention,
        query_scale=jnp.ones(head_dim),
        key_scale=jnp.ones(head_dim),
        norm_epsilon=epsilon,
    )
