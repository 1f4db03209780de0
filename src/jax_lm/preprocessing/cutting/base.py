"""What every mode of cutting is given, and the rows it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from jax_lm.preprocessing.manifest import SpecialIds
from jax_lm.preprocessing.tokenized import TokenizedDocuments
from jax_lm.types import Rows

KINDS = ("shift", "labels", "weights", "pairs", "drawn")
"""Kinds of targets, each of the first three able to say all that the one before it can; those that
are drawn when rows are read have no weights to say."""
IGNORED_LABEL = -100


@dataclass(frozen=True, kw_only=True)
class Cutting:
    """How the documents of a shard become rows; picklable."""

    mode: str
    """A key of ``modes.MODES``."""
    sequence_length: int
    """T: how many tokens of a row are inputs."""
    special: SpecialIds
    kind: str = "shift"
    """Least kind of targets to write."""
    segment_ids: bool = False
    """Say which tokens of a row belong to the same document."""
    sentences: bool = False
    """Say where sentences end."""
    stride: int | None = None
    """Mode windows: tokens from one window's start to the next; None: windows do not overlap."""
    min_sequence_length: int | None = None
    """Mode windows: leave out windows that offer fewer targets than this."""
    num_special_tokens: int | None = None
    """Mode windows: places of a row kept for BOS and EOS; None: as many as the tokenizer has."""
    seed_compatible: bool = False
    """Mode windows: take every id 0 for padding, as the program that it comes from did."""
    context_length: int = 1
    """Mode rolling: c, so that every window but the first scores T - c + 1 new tokens."""
    max_input_length: int | None = None
    """Mode pairs: tokens of the input that are kept, its last ones; None: T."""
    max_output_length: int | None = None
    """Mode pairs: tokens of the output that are kept, its first ones; None: T."""

    @property
    def window_length(self) -> int:
        """Ids that a row is made of: its last target is no input, unless targets are drawn."""
        return self.sequence_length + (self.kind != "drawn")


class FeatureRows(NamedTuple):
    """Rows of a shard, ready to be written."""

    rows: Rows
    num_bytes: Int[np.ndarray, "batch"]
    """UTF-8 bytes that the scored targets of each row spell (int32)."""
    subset_ids: Int[np.ndarray, "batch"]
    """Index into ``subsets`` (int32)."""
    subsets: tuple[str, ...]
    targets: int
    """Targets with a weight above 0."""
    tokens: int
    """Ids in the rows, separators included; each counted once, where a mode repeats none."""
    cut_off: int = 0
    """Tokens of the documents that no row holds."""
    dropped: Mapping[str, int] = MappingProxyType({})
    """Documents or windows that gave no row, by reason."""
    attention_mask: Int[np.ndarray, "batch width"] | None = None
    """Where it is not ones up to each row's length (int8)."""
    drawn: bool = False
    """Targets are drawn when rows are read, from inputs alone."""

    @property
    def kind(self) -> str:
        """The kind of the rows' targets."""
        if self.drawn:
            return "drawn"
        rows = self.rows
        columns = (rows.labels, rows.loss_weights, rows.target_ids)
        present = (k for k, c in zip(KINDS[1:-1], columns, strict=True) if c is not None)
        return max(present, default="shift", key=KINDS.index)


def start_id(special: SpecialIds) -> int | None:
    """What stands before a document: BOS, else EOS, else the separator, else nothing."""
    ids = (special.bos, special.eos, special.separator)
    return next((token_id for token_id in ids if token_id is not None), None)


def end_id(special: SpecialIds) -> int | None:
    """What stands after a document: EOS, else the separator, else nothing."""
    return special.separator if special.eos is None else special.eos


def kind_of(documents: TokenizedDocuments, cutting: Cutting, least: str = "shift") -> str:
    """The kind of targets to write: what is asked for, what the weights need, or ``least``."""
    return max(cutting.kind, needed_kind(documents), least, key=KINDS.index)


def needed_kind(documents: TokenizedDocuments) -> str:
    """The least kind of targets that can say the weights of these documents."""
    if documents.weights is None:
        return "shift"
    return "labels" if set(np.unique(documents.weights)) <= {0.0, 1.0} else "weights"
