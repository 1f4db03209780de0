"""Multi-head attention: what projects around ``attend``."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jax_lm.models.layers.dot_product import attend
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import LayerCache, write
from jax_lm.models.layers.low_rank import LowRank, contract
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.placement import placed


class Attention(eqx.Module):
    """Multi-head attention (Vaswani et al. 2017, arXiv:1706.03762), each head with its own keys.

    Over its own input, or over another one's keys and values: ``remember`` makes those once.
    """

    query_weight: Float[Array, "embed heads head_dim"]
    key_weight: Float[Array, "embed heads head_dim"]
    value_weight: Float[Array, "embed heads head_dim"]
    output_weight: Float[Array, "heads head_dim embed"]
    query_bias: Float[Array, "heads head_dim"] | None
    key_bias: Float[Array, "heads head_dim"] | None
    value_bias: Float[Array, "heads head_dim"] | None
    output_bias: Float[Array, "embed"] | None
    dropout_rate: float = eqx.field(static=True)
    scale: float | None = eqx.field(static=True, default=None)
    """Multiplies the scores; None: 1 / sqrt(head_dim)."""

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
        mask: AttentionMask,
        cache: LayerCache | None = None,
        *,
        bias: Float[Array, "#batch heads seq slots"] | None = None,
        key: DropoutKey | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Attend over ``x`` itself or, with a cache, over the cache once ``x`` is written to it.

        Args:
            x: hidden states.
            mask: which keys each query may see; with a cache it says the queries' slots.
            cache: keys and values of earlier tokens.
            bias: added to the scores.
            key: for dropout on the attention weights; None: no dropout.
        """
        memory = self.remember(x)
        if cache is not None:
            assert mask.query_slots is not None, "a cache needs slots"
            memory = cache = write(cache, memory.key, memory.value, mask.query_slots)
        return self.recall(x, memory, mask, bias=bias, key=key), cache

    def remember(self, x: Float[Array, "batch slots embed"]) -> LayerCache:
        """Keys and values of ``x``."""
        return LayerCache(
            project(x, self.key_weight, self.key_bias),
            project(x, self.value_weight, self.value_bias),
        )

    def recall(
        self,
        x: Float[Array, "batch seq embed"],
        memory: LayerCache,
        mask: AttentionMask,
        *,
        bias: Float[Array, "#batch heads seq slots"] | None = None,
        key: DropoutKey | None = None,
    ) -> Float[Array, "batch seq embed"]:
        """What ``x`` finds in ``memory``, which ``remember`` made of the same or another input."""
        attended = attend(
            project(x, self.query_weight, self.query_bias),
            memory.key.astype(x.dtype),
            memory.value.astype(x.dtype),
            mask,
            scale=self.scale,
            bias=bias,
            dropout_rate=self.dropout_rate,
            dropout_key=key,
        )
        return merge(attended, self.output_weight, self.output_bias)


def project(
    x: Float[Array, "batch seq embed"],
    weight: Float[Array, "embed heads head_dim"] | LowRank,
    bias: Float[Array, "heads head_dim"] | None,
) -> Float[Array, "batch heads seq head_dim"]:
    """Into heads; they come before positions, so that attention is plain batched products.

    One position alone is a product of two matrices: of the general one, XLA makes a product with
    the weights transposed, and transposes them anew for every token.
    """
    if x.shape[1] == 1 and not isinstance(weight, LowRank):
        flat = x[:, 0] @ weight.reshape(weight.shape[0], -1)
        y = flat.reshape(x.shape[0], *weight.shape[1:])[:, :, None]
    else:
        y = contract("bte,ehd->bhtd", x, weight)
    return placed(y if bias is None else y + bias[None, :, None, :], "batch heads seq head_dim")


def merge(
    attended: Float[Array, "batch heads seq head_dim"],
    weight: Float[Array, "heads head_dim embed"] | LowRank,
    bias: Float[Array, "embed"] | None,
) -> Float[Array, "batch seq embed"]:
    """Back to the residual stream; one position alone as ``project`` does it."""
    if attended.shape[2] == 1 and not isinstance(weight, LowRank):
        flat = attended.reshape(attended.shape[0], -1)
        y = (flat @ weight.reshape(-1, weight.shape[-1]))[:, None]
    else:
        y = contract("bhtd,hde->bte", attended, weight)
    return placed(y if bias is None else y + bias[None, None, :], "batch seq embed")
