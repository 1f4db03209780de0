"""Any model on any batch: the one place that asks what kind a model is."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder import Encoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.stack import RematPolicy
from jax_lm.types import Batch

Model = Decoder | Encoder | EncoderDecoder


def forward(
    model: Model, batch: Batch, *, key: DropoutKey | None = None, remat: RematPolicy = "none"
) -> Float[Array, "batch target_seq embed"]:
    """Hidden states of every target of a batch, ready for ``model.unembedding``.

    Args:
        model: of any family, in the dtype of the computation.
        batch: its arrays on the device.
        key: for dropout; None: inference.
        remat: what the backward pass recomputes of the blocks instead of keeping.
    """
    arrays: Any = jax.tree.map(jnp.asarray, batch)
    options: dict[str, Any] = {"segment_ids": arrays.segment_ids, "key": key, "remat": remat}
    if isinstance(model, EncoderDecoder):
        assert batch.decoder_input_ids is not None, "an encoder-decoder needs decoder inputs"
        return model(arrays.input_ids, arrays.decoder_input_ids, **options)
    return model(arrays.input_ids, positions=arrays.positions, **options)
