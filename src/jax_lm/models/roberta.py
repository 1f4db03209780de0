"""RoBERTa (Liu et al. 2019, arXiv:1907.11692), and BERT (Devlin et al. 2018, arXiv:1810.04805).

Notable features: an encoder for masked language modelling; post-norm blocks (the norm comes after
the residual sum); words, learned positions and token types summed and normalised; RoBERTa's
positions start after the id of the padding token; a dense layer, GELU and LayerNorm before the
output matrix, which is tied to the token embedding and has a bias.
"""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jax_lm.errors import UsageError
from jax_lm.models.base import ModelConfig, TokenIds, Unembedding, divided, token_table
from jax_lm.models.encoder import Encoder
from jax_lm.models.layers.activations import ACTIVATIONS, Activation
from jax_lm.models.layers.attention import Attention
from jax_lm.models.layers.dropout import DropoutKey, dropout, split_key
from jax_lm.models.layers.embedding import lookup
from jax_lm.models.layers.feed_forward import FeedForward
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.low_rank import contract
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import LayerNorm
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, stack
from jax_lm.types import ModelKind


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(ModelConfig):
    """Shape of a RoBERTa or BERT; the defaults are RoBERTa's base model."""

    kind: ClassVar[ModelKind] = "encoder"
    family: Literal["roberta"] = "roberta"
    """Model family."""
    layout: Literal["roberta", "bert"] = "roberta"
    """RoBERTa's positions start at pad_id + 1 and its head has the exact GELU; BERT's start at 0
    and its head has the blocks' activation."""
    context_length: int = 512
    """Longest sequence, in tokens; also the length of a training row."""
    mlp_dim: int | None = None
    """Width of the feed-forward layer; None is 4 * embed_dim."""
    num_token_types: int = 1
    """Rows of the token type embedding (BERT: 2); every token has the first type."""
    activation: Activation = "gelu"
    """Of the feed-forward layer."""
    dropout: float = 0.0
    """Rate on embeddings and residual branches."""
    attention_dropout: float = 0.0
    """Rate on attention weights."""
    norm_epsilon: float = 1e-5
    """Added to the variance in LayerNorm (BERT: 1e-12)."""
    pad_id: int | None = None
    """Id of the padding token; in a new model the tokenizer's."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        super().__post_init__()
        _ = self.head_dim

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return divided(self, self.num_heads)

    @property
    def first_position(self) -> int:
        """Row of the position embedding that a sequence's first token has."""
        if self.layout == "bert":
            return 0
        assert self.pad_id is not None, "pad_id comes from the tokenizer"
        return self.pad_id + 1

    def with_tokens(self, ids: TokenIds) -> "RobertaConfig":
        """With the vocabulary and the padding id; another one than the tokenizer's cannot be.

        Raises:
            UsageError: RoBERTa's layout needs a padding token, and the tokenizer has none.
        """
        if ids.pad is None and self.layout == "roberta":
            raise UsageError(
                "the tokenizer has no padding token, after whose id RoBERTa counts its positions: "
                "train one with the special token <pad>, or use --model.layout bert"
            )
        filled = super().with_tokens(ids)
        return filled if ids.pad is None else dataclasses.replace(filled, pad_id=ids.pad)


def _roberta(num_layers: int, num_heads: int, embed_dim: int) -> RobertaConfig:
    return RobertaConfig(
        vocab_size=50265,
        num_layers=num_layers,
        num_heads=num_heads,
        embed_dim=embed_dim,
        dropout=0.1,
        attention_dropout=0.1,
    )


def _bert(num_layers: int, num_heads: int, embed_dim: int) -> RobertaConfig:
    return dataclasses.replace(
        _roberta(num_layers, num_heads, embed_dim),
        layout="bert",
        vocab_size=30522,
        num_token_types=2,
        norm_epsilon=1e-12,
    )


PRESETS = {
    "roberta-base": _roberta(12, 12, 768),
    "roberta-large": _roberta(24, 16, 1024),
    "distilroberta-base": _roberta(6, 12, 768),
    "bert-base-uncased": _bert(12, 12, 768),
    "bert-large-uncased": _bert(24, 16, 1024),
}
"""The published sizes; the padding id comes from the tokenizer."""


class Block(eqx.Module):
    """Two residual lines, each normalised after the sum."""

    attention: Attention
    attention_norm: LayerNorm
    feed_forward: FeedForward
    feed_forward_norm: LayerNorm
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: RobertaConfig) -> "Block":
        """A block as published."""
        attention_key, feed_forward_key = jax.random.split(key)
        stds = {"init_std": config.init_std, "output_std": config.init_std}
        return Block(
            attention=Attention.init(
                attention_key,
                config.embed_dim,
                config.num_heads,
                bias=True,
                dropout_rate=config.attention_dropout,
                **stds,
            ),
            attention_norm=_norm(config),
            feed_forward=FeedForward.init(
                feed_forward_key,
                config.embed_dim,
                config.mlp_dim or 4 * config.embed_dim,
                bias=True,
                activation=config.activation,
                **stds,
            ),
            feed_forward_norm=_norm(config),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        *,
        key: DropoutKey | None = None,
    ) -> Float[Array, "batch seq embed"]:
        """Hidden states after the block."""
        keys = split_key(key, 3)
        attended, _ = self.attention(x, mask, key=keys[0])
        x = self.attention_norm(x + dropout(attended, self.dropout_rate, keys[1]))
        fed = self.feed_forward(x)
        return self.feed_forward_norm(x + dropout(fed, self.dropout_rate, keys[2]))


class Head(eqx.Module):
    """``norm(activation(x dense + b))``: what comes before the output matrix."""

    dense_weight: Float[Array, "embed word_embed"]
    dense_bias: Float[Array, "word_embed"]
    norm: LayerNorm
    activation: Activation = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: RobertaConfig) -> "Head":
        """Normal weights, zero bias."""
        return Head(
            dense_weight=normal(key, (config.embed_dim, config.embed_dim), config.init_std),
            dense_bias=jnp.zeros(config.embed_dim),
            norm=_norm(config),
            activation=config.activation if config.layout == "bert" else "gelu",
        )

    def __call__(self, x: Float[Array, "batch seq embed"]) -> Float[Array, "batch seq embed"]:
        """Apply to every position alone."""
        y = contract("bte,ef->btf", x, self.dense_weight) + self.dense_bias[None, None, :]
        return self.norm(ACTIVATIONS[self.activation](y))


class Roberta(Encoder):
    """The whole model; ``blocks`` holds all blocks' parameters on a leading ``layers`` axis."""

    token_embedding: Float[Array, "vocab embed"]
    position_embedding: Float[Array, "context embed"]
    type_embedding: Float[Array, "types embed"]
    embedding_norm: LayerNorm
    blocks: Block
    head: Head
    output_bias: Float[Array, "vocab"]
    config: RobertaConfig = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: RobertaConfig) -> "Roberta":
        """Random weights as published; ``config.vocab_size`` and ``pad_id`` must be known."""
        keys = jax.random.split(key, 5)
        embed_dim, std = config.embed_dim, config.init_std
        num_positions = config.first_position + config.context_length
        positions = normal(keys[1], (num_positions, embed_dim), std)
        tokens = token_table(keys[0], config, std)
        if config.pad_id is not None:
            tokens = tokens.at[config.pad_id].set(0.0)
        if config.layout == "roberta":
            positions = positions.at[config.pad_id].set(0.0)
        return Roberta(
            token_embedding=tokens,
            position_embedding=positions,
            type_embedding=normal(keys[2], (config.num_token_types, embed_dim), std),
            embedding_norm=_norm(config),
            blocks=stack(lambda k: Block.init(k, config), keys[3], config.num_layers),
            head=Head.init(keys[4], config),
            output_bias=jnp.zeros(config.padded_vocab_size),
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """The token embedding, used a second time, and a bias."""
        assert self.config.vocab_size is not None
        return Unembedding(self.token_embedding, self.output_bias, self.config.vocab_size)

    def hidden(
        self,
        input_ids: Int[Array, "batch seq"],
        positions: Int[Array, "#batch seq"],
        mask: AttentionMask,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch seq embed"]:
        """Embed, run the blocks, apply the head."""
        embedding_key, blocks_key = split_key(key, 2)
        x = lookup(self.token_embedding, input_ids) + self.type_embedding[:1, None]
        x = x + self.position_embedding[positions + self.config.first_position]
        x = dropout(self.embedding_norm(x), self.config.dropout, embedding_key)
        x, _ = apply_blocks(
            lambda block, x, _, key: (block(x, mask, key=key), None),
            self.blocks,
            x,
            None,
            key=blocks_key,
            remat=remat,
            unroll=unroll,
        )
        return self.head(x)


def _norm(config: RobertaConfig) -> LayerNorm:
    return LayerNorm.init(config.embed_dim, epsilon=config.norm_epsilon)
