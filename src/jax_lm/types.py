"""The things that flow: documents of weighted segments, rows of ids, batches.

Nothing here imports JAX, so preprocessing and loading workers stay light. ``Batch`` is a
NamedTuple, which JAX already treats as a pytree (an absent field is an empty subtree).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

ModelKind = Literal["decoder", "encoder", "encoder-decoder"]
"""What reads what: each token what is before it; each token all; one stack the input, another the
output so far."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of text and the weight of its tokens in the loss (0: context only)."""

    text: str
    weight: float = 1.0
    markup: bool = False
    """Special tokens in the text are meant, as in what a chat template puts around a message."""
    ids: Int[np.ndarray, "tokens"] | None = field(default=None, compare=False)
    """Ids of text that came in already tokenised; ``text`` is then empty."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text as weighted segments.

    Plain text is one segment of weight 1; an input/output pair is weights 0 and 1.
    """

    segments: tuple[Segment, ...]
    id: str
    """Stable and readable: where the document came from, such as ``news.jsonl:7``."""
    subset: str = ""
    """Name of the part of the corpus that metrics are reported for; empty: no parts."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The segments' text, joined."""
        return "".join(segment.text for segment in self.segments)


class Rows(NamedTuple):
    """Feature rows as they lie in memory; ``width`` is T, or T + 1 where labels are the shift."""

    input_ids: Int[np.ndarray, "batch width"]
    lengths: Int[np.ndarray, "batch"]
    """Number of real tokens of each row; what follows is padding."""
    labels: Int[np.ndarray, "batch width"] | None = None
    """The next token of each position, -100 where not scored; None: the plain shift."""
    loss_weights: Float[np.ndarray, "batch width"] | None = None
    segment_ids: Int[np.ndarray, "batch width"] | None = None
    """Number, from 1, of each position's document within its row; 0 is padding."""
    sentence_ends: Int[np.ndarray, "batch ends"] | None = None
    """Positions after the last token of each sentence, filled up with -1."""
    target_ids: Int[np.ndarray, "batch target_width"] | None = None
    """The output of each pair, where inputs and outputs are kept apart."""
    target_lengths: Int[np.ndarray, "batch"] | None = None


class Batch(NamedTuple):
    """What a model trains on; ``target_seq`` is ``seq`` for all but encoder-decoders."""

    input_ids: Int[np.ndarray, "batch seq"]
    targets: Int[np.ndarray, "batch target_seq"]
    loss_mask: Float[np.ndarray, "batch target_seq"]
    """Weight of each target in the loss; 0 where the target is padding or context."""
    segment_ids: Int[np.ndarray, "batch seq"] | None = None
    """Number, from 1, of each position's document within its row; 0 is padding. None: each row is
    one document, and what follows it is seen by nothing real (a decoder looks back only)."""
    positions: Int[np.ndarray, "batch seq"] | None = None
    """Place of each token within its document; None: counted from the document's start."""
    decoder_input_ids: Int[np.ndarray, "batch target_seq"] | None = None
    """What an encoder-decoder's decoder reads: the targets, one place later."""
