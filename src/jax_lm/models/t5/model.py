"""T5 (Raffel et al. 2020, arXiv:1910.10683) and its version 1.1, as Flan-T5 and UL2 also have it.

Notable features: an encoder and a decoder of pre-norm blocks; RMSNorm, and no biases anywhere;
no positions in the embeddings but a learnt bias on scores for each range of distances, shared by
all blocks of a stack and absent between the stacks; scores that are not scaled; initial weights
whose deviations follow from their widths. Version 1.0 has ReLU and an output matrix tied to the
token embedding, after hidden states divided by sqrt(embed_dim); version 1.1 a gated GELU (UL2 a
gated SiLU) and an output matrix of its own.
"""

import math

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.base import Unembedding, token_table
from jax_lm.models.encoder_decoder import DecoderCaches, EncoderDecoder
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.embedding import lookup
from jax_lm.models.layers.kv_cache import LayerCaches
from jax_lm.models.layers.mask import AttentionMask, bidirectional_mask
from jax_lm.models.layers.stack import RematPolicy
from jax_lm.models.t5.config import T5Config
from jax_lm.models.t5.stacks import DecoderStack, EncoderStack


class T5(EncoderDecoder):
    """The whole model; both stacks read the same token embedding."""

    token_embedding: Float[Array, "vocab embed"]
    encoder: EncoderStack
    decoder: DecoderStack
    output_weight: Float[Array, "vocab embed"] | None
    """None: the token embedding, used a second time."""
    config: T5Config = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: T5Config) -> "T5":
        """Random weights as published; ``config.vocab_size`` must be known.

        The output matrix of version 1.1 starts as a dense layer of the original code does, with
        logits of the size that version 1.0 has; transformers starts it sqrt(embed_dim) times as
        large, and with a loss in the hundreds.
        """
        token_key, encoder_key, decoder_key, output_key = jax.random.split(key, 4)
        output_std = config.init_std / math.sqrt(config.embed_dim)
        return T5(
            token_embedding=token_table(token_key, config, config.init_std),
            encoder=EncoderStack.init(encoder_key, config),
            decoder=DecoderStack.init(decoder_key, config),
            output_weight=None if config.tied else token_table(output_key, config, output_std),
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """The output matrix; no biases."""
        assert self.config.vocab_size is not None
        weight = self.token_embedding if self.output_weight is None else self.output_weight
        return Unembedding(weight, None, self.config.vocab_size)

    @property
    def cache_heads(self) -> tuple[int, int]:
        """Every head has its own keys."""
        return self.config.num_heads, self.config.head_dim

    @property
    def num_decoder_layers(self) -> int:
        """Blocks of the decoder."""
        return self.config.decoder_layers

    @property
    def longest(self) -> None:
        """Inputs and outputs may have any number of tokens."""

    def encode(
        self,
        input_ids: Int[Array, "batch slots"],
        segment_ids: Int[Array, "batch slots"] | None = None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch slots embed"]:
        """The input, read; padding, on either side, has segment 0."""
        x, mask = lookup(self.token_embedding, input_ids), bidirectional_mask(segment_ids)
        return self.encoder(x, mask, key=key, remat=remat, unroll=unroll)

    def remember(self, encoded: Float[Array, "batch slots embed"]) -> LayerCaches:
        """Keys and values of the input for every decoder block, stacked where the blocks are."""
        return self.decoder.remember(encoded)

    def decoder_hidden(
        self,
        decoder_input_ids: Int[Array, "batch seq"],
        masks: tuple[AttentionMask, AttentionMask],
        encoded: Float[Array, "batch slots embed"] | None,
        caches: DecoderCaches | None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> tuple[Float[Array, "batch seq embed"], DecoderCaches | None]:
        """Final hidden states of output positions, scaled where the family's version says so."""
        x, caches = self.decoder(
            lookup(self.token_embedding, decoder_input_ids),
            masks,
            encoded,
            caches,
            key=key,
            remat=remat,
            unroll=unroll,
        )
        return (x / math.sqrt(self.config.embed_dim) if self.config.scale_output else x), caches
