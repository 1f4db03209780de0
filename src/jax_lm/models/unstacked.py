"""A model whose blocks are a list: for decoding, a token at a time."""

from typing import Any, TypeVar

import equinox as eqx

from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.models.layers.stack import unstack

Model = TypeVar("Model", bound=Decoder | EncoderDecoder)


def unstacked(model: Model) -> Model:
    """``model`` with a list in the place of the stack of blocks that decodes; its caches are lists.

    The other stack of an encoder-decoder, which reads the input once, stays one.
    """
    separate: Model = eqx.tree_at(_blocks, model, unstack(_blocks(model)))
    return separate


def _blocks(model: Decoder | EncoderDecoder) -> Any:
    return model.blocks if isinstance(model, Decoder) else model.decoder.blocks
