"""Encoder-only models: every position sees its whole document."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int

from jax_lm.models.base import Unembedding
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.mask import AttentionMask, bidirectional_mask, token_positions
from jax_lm.models.layers.stack import RematPolicy


class Encoder(eqx.Module):
    """What a family of encoders leaves to be said: its hidden states under a mask."""

    config: eqx.AbstractVar[Any]

    @property
    @abstractmethod
    def unembedding(self) -> Unembedding:
        """The output matrix."""

    @abstractmethod
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
        """Final hidden states, ready for the output matrix."""

    def __call__(
        self,
        input_ids: Int[Array, "batch seq"],
        *,
        segment_ids: Int[Array, "batch seq"] | None = None,
        positions: Int[Array, "#batch seq"] | None = None,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch seq embed"]:
        """Final hidden states, ready for the output matrix.

        Args:
            input_ids: token ids.
            segment_ids: documents of a row, from 1, that do not see each other; 0 is padding.
                None: no padding.
            positions: of each token in its document; None: counted from the document's start.
            key: for dropout; None: inference.
            remat: what the backward pass recomputes of the blocks instead of keeping.
            unroll: trace every block on its own.
        """
        if positions is None:
            positions = token_positions(input_ids, segment_ids)
        mask = bidirectional_mask(segment_ids)
        return self.hidden(input_ids, positions, mask, key=key, remat=remat, unroll=unroll)
