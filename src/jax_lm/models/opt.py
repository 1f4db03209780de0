"""OPT (Zhang et al. 2022, arXiv:2205.01068).

Notable features: learned positions of which the first two are never used; ReLU; biases; output
matrix tied to the token embedding. The 350M model is an exception: its norms come after each
residual sum, with none at the end, and its token embedding is narrower than the residual stream
and projected in and out.
"""

import math
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.base import ModelConfig, Unembedding, divided, token_table
from jax_lm.models.decoder import Decoder
from jax_lm.models.layers.activations import Activation
from jax_lm.models.layers.attention import Attention
from jax_lm.models.layers.dropout import DropoutKey, dropout, split_key
from jax_lm.models.layers.embedding import lookup
from jax_lm.models.layers.feed_forward import FeedForward
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import LayerCache, LayerCaches
from jax_lm.models.layers.low_rank import contract
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import LayerNorm
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, stack

POSITION_OFFSET = 2
"""Row of the first position: fairseq, where OPT comes from, kept row 1 for padding and 0 unused."""


@dataclass(frozen=True, kw_only=True)
class OPTConfig(ModelConfig):
    """Shape of an OPT; the defaults are the 125M model's, but for context and dropout."""

    family: Literal["opt"] = "opt"
    """Model family."""
    dropout: float = 0.0
    """Rate on residual branches."""
    attention_dropout: float = 0.0
    """Rate on attention weights."""
    init_std: float = 0.006
    """Standard deviation of initial weights; divided by sqrt(2 * num_layers) for projections back
    into the residual stream."""
    token_dim: int | None = None
    """Width of the token embedding, projected to embed_dim; None is embed_dim, unprojected."""
    mlp_dim: int | None = None
    """Width of the feed-forward layer; None is 4 * embed_dim."""
    activation: Activation = "relu"
    """Of the feed-forward layer."""
    pre_norm: bool = True
    """Norms before attention and feed-forward; false: after each residual sum, as in 350M."""
    final_norm: bool = True
    """A norm after the last block, if norms come before."""
    bias: bool = True
    """Biases in the projections of the blocks."""
    norm_parameters: bool = True
    """Scale and bias in the norms."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        super().__post_init__()
        _ = self.head_dim

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return divided(self, self.num_heads)

    @property
    def projected(self) -> bool:
        """Whether the token embedding has a width of its own."""
        return self.token_dim not in (None, self.embed_dim)

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last block."""
        return self.pre_norm and self.final_norm

    @property
    def output_std(self) -> float:
        """Standard deviation of initial projections back into the residual stream."""
        return self.init_std / math.sqrt(2 * self.num_layers)


class Block(eqx.Module):
    """Two residual lines: attention, then feed-forward, with norms before or after each."""

    attention_norm: LayerNorm
    attention: Attention
    feed_forward_norm: LayerNorm
    feed_forward: FeedForward
    pre_norm: bool = eqx.field(static=True)
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: OPTConfig) -> "Block":
        """A block as published."""
        attention_key, feed_forward_key = jax.random.split(key)
        stds = {"init_std": config.init_std, "output_std": config.output_std}
        return Block(
            attention_norm=_norm(config),
            attention=Attention.init(
                attention_key,
                config.embed_dim,
                config.num_heads,
                bias=config.bias,
                dropout_rate=config.attention_dropout,
                **stds,
            ),
            feed_forward_norm=_norm(config),
            feed_forward=FeedForward.init(
                feed_forward_key,
                config.embed_dim,
                config.mlp_dim or 4 * config.embed_dim,
                bias=config.bias,
                activation=config.activation,
                **stds,
            ),
            pre_norm=config.pre_norm,
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        cache: LayerCache | None = None,
        *,
        key: DropoutKey | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Hidden states after the block, and the cache with this block's keys and values."""
        keys = split_key(key, 3)
        seen = self.attention_norm(x) if self.pre_norm else x
        attended, cache = self.attention(seen, mask, cache, key=keys[0])
        x = x + dropout(attended, self.dropout_rate, keys[1])
        x = x if self.pre_norm else self.attention_norm(x)
        seen = self.feed_forward_norm(x) if self.pre_norm else x
        x = x + dropout(self.feed_forward(seen), self.dropout_rate, keys[2])
        return x if self.pre_norm else self.feed_forward_norm(x), cache


class OPT(Decoder):
    """The whole model; ``blocks`` holds all blocks' parameters on a leading ``layers`` axis."""

    token_embedding: Float[Array, "vocab word_embed"]
    position_embedding: Float[Array, "context embed"]
    """``context_length`` rows and two before them that are never looked up."""
    project_in_weight: Float[Array, "word_embed embed"] | None
    project_out_weight: Float[Array, "embed word_embed"] | None
    """From the token embedding's width and back; None: the widths are the same."""
    blocks: Block
    final_norm: LayerNorm | None
    config: OPTConfig = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: OPTConfig) -> "OPT":
        """Random weights as published; ``config.vocab_size`` must be known."""
        token_key, position_key, in_key, out_key, blocks_key = jax.random.split(key, 5)
        embed_dim, std = config.embed_dim, config.init_std
        token_dim = config.token_dim or embed_dim
        rows = config.context_length + POSITION_OFFSET

        def projection(
            key: Key[Array, ""], shape: tuple[int, int]
        ) -> Float[Array, "inputs outputs"] | None:
            return normal(key, shape, std) if config.projected else None

        return OPT(
            token_embedding=token_table(token_key, config, std, width=token_dim),
            position_embedding=normal(position_key, (rows, embed_dim), std),
            project_in_weight=projection(in_key, (token_dim, embed_dim)),
            project_out_weight=projection(out_key, (embed_dim, token_dim)),
            blocks=stack(lambda k: Block.init(k, config), blocks_key, config.num_layers),
            final_norm=_norm(config) if config.has_final_norm else None,
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """The token embedding, used a second time."""
        assert self.config.vocab_size is not None
        return Unembedding(self.token_embedding, None, self.config.vocab_size)

    @property
    def cache_heads(self) -> tuple[int, int]:
        """Every head has its own keys."""
        return self.config.num_heads, self.config.head_dim

    def hidden(
        self,
        input_ids: Int[Array, "batch seq"],
        positions: Int[Array, "#batch seq"],
        mask: AttentionMask,
        caches: LayerCaches | None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCaches | None]:
        """Embed, run the blocks, normalise; both ends projected where the widths differ."""
        x = lookup(self.token_embedding, input_ids)
        if self.project_in_weight is not None:
            x = contract("btw,we->bte", x, self.project_in_weight)
        x = x + self.position_embedding[positions + POSITION_OFFSET]
        x, caches = apply_blocks(
            lambda block, x, cache, key: block(x, mask, cache, key=key),
            self.blocks,
            x,
            caches,
            key=key,
            remat=remat,
            unroll=unroll,
        )
        if self.final_norm is not None:
            x = self.final_norm(x)
        if self.project_out_weight is not None:
            x = contract("bte,ew->btw", x, self.project_out_weight)
        return x, caches


def _norm(config: OPTConfig) -> LayerNorm:
    norm = LayerNorm.init(config.embed_dim)
    return norm if config.norm_parameters else LayerNorm(None, None, norm.epsilon)


def _published(
    num_layers: int,
    num_heads: int,
    embed_dim: int,
    token_dim: int | None = None,
    pre_norm: bool = True,
) -> OPTConfig:
    return OPTConfig(
        num_layers=num_layers,
        num_heads=num_heads,
        embed_dim=embed_dim,
        token_dim=token_dim,
        pre_norm=pre_norm,
        vocab_size=50_272,
        context_length=2048,
        dropout=0.1,
        attention_dropout=0.1,
    )


PRESETS = {
    "opt-125m": _published(12, 12, 768),
    "opt-350m": _published(24, 16, 1024, token_dim=512, pre_norm=False),
    "opt-1.3b": _published(24, 32, 2048),
    "opt-2.7b": _published(32, 32, 2560),
    "opt-6.7b": _published(32, 32, 4096),
    "opt-13b": _published(40, 40, 5120),
    "opt-30b": _published(48, 56, 7168),
    "opt-66b": _published(64, 72, 9216),
}
"""The published sizes; dropout 0.1 throughout but not on embeddings, as the paper says (their
config.json has none on attention weights)."""
