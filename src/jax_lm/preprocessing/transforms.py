"""Documents -> token streams -> packed rows: pure functions of one shard."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.segments import encode_segments
from jax_lm.types import Document, Rows, Segment

KINDS = ("shift", "labels", "weights")
"""Kinds of targets, each able to say all that the one before it can."""
IGNORED_LABEL = -100
BATCH_CHARACTERS = 1_000_000  # an encoding takes ~150 bytes of memory a token


class Stream(NamedTuple):
    """Tokens of one shard and one subset, in reading order."""

    ids: Int[np.ndarray, "tokens"]
    """int32."""
    weights: Float[np.ndarray, "tokens"]
    """float32 weight of each token as a target."""
    spelled: Int[np.ndarray, "tokens"]
    """UTF-8 bytes each token spells, 0 for separators (int32)."""


class Tokenized(NamedTuple):
    """The streams of a shard, by subset in order of appearance, and what went into them."""

    streams: dict[str, Stream]
    documents: int
    text_bytes: int
    """UTF-8 bytes of the documents."""


class PackedRows(NamedTuple):
    """Rows of one subset with the bytes that their scored targets spell."""

    subset: str
    rows: Rows
    num_bytes: Int[np.ndarray, "batch"]
    targets: int


@dataclass
class _StreamParts:
    """A stream while it grows; it begins with a separator, if there is one."""

    separator: int | None
    ids: list[Int[np.ndarray, "tokens"]] = field(default_factory=list)
    weights: list[Float[np.ndarray, "tokens"]] = field(default_factory=list)
    spelled: list[Int[np.ndarray, "tokens"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.separate(1.0)

    def separate(self, weight: float) -> None:
        if self.separator is not None:
            ids = np.array([self.separator], np.int32)
            self.append(ids, weight, np.zeros(1, np.int32))

    def append(
        self, ids: Int[np.ndarray, "tokens"], weight: float, spelled: Int[np.ndarray, "tokens"]
    ) -> None:
        self.ids.append(ids)
        self.weights.append(np.full(len(ids), weight, np.float32))
        self.spelled.append(spelled)

    def join(self) -> Stream:
        return Stream(
            np.concatenate(self.ids), np.concatenate(self.weights), np.concatenate(self.spelled)
        )


def tokenize(
    documents: Iterable[Document], tokenizer: Tokenizer, separator: int | None
) -> Tokenized:
    """Tokenize a shard's documents into one stream a subset: ``[SEP] d1 SEP d2 SEP ... dn SEP``.

    Segments of a document are tokenized apart, so that their boundary is exact, unless all its
    weights are equal. The separator after a document weighs 1 if any of the document does.

    Raises:
        JaxLMError: a weight is negative or not finite.
    """
    parts: dict[str, _StreamParts] = {}
    count = text_bytes = 0
    for batch in _batches(documents):
        segmented = [pieces(document) for document in batch]
        flat = [segment for segments in segmented for segment in segments]
        ids, offsets, spelled = encode_segments(flat, tokenizer)
        text = 0
        for document, segments in zip(batch, segmented, strict=True):
            stream = parts.setdefault(document.subset, _StreamParts(separator))
            for segment in segments:
                place = slice(offsets[text], offsets[text + 1])
                stream.append(ids[place], segment.weight, spelled[place])
                text += 1
            stream.separate(float(any(segment.weight > 0 for segment in segments)))
        count += len(batch)
        text_bytes += sum(len(segment.text.encode("utf-8", "surrogatepass")) for segment in flat)
    streams = {subset: stream.join() for subset, stream in parts.items()}
    return Tokenized(streams, count, text_bytes)


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += sum(len(segment.text) for segment in document.segments)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def pieces(document: Document) -> Sequence[Segment]:
    """The segments to tokenize apart: one, if all weights are equal.

    Raises:
        JaxLMError: a weight is negative or not finite.
    """
    weights = {segment.weight for segment in document.segments}
    for weight in weights:
        if not (math.isfinite(weight) and weight >= 0):
            raise JaxLMError(
                f"{document.id}: a segment's weight is {weight}, expected a number of 0 or more"
            )
    plain = not any(s.markup or s.ids is not None for s in document.segments)
    if len(weights) <= 1 and plain:
        return (Segment(document.text, weights.pop() if weights else 1.0),)
    return document.segments


def needed_kind(streams: Iterable[Stream]) -> str:
    """The least kind of targets that can say the weights of these streams."""
    found = {float(weight) for stream in streams for weight in np.unique(stream.weights[1:])}
    if found <= {1.0}:
        return "shift"
    return "labels" if found <= {0.0, 1.0} else "weights"


def pack(subset: str, stream: Stream, length: int, *, kind: str, pad_id: int) -> PackedRows:
    """Cut a stream into rows of ``length + 1`` ids that start every ``length`` ids.

    Each row's last id is the next row's first, so every id but the very first is a target exactly
    once. For other kinds than "shift" the ids are split into inputs and labels of ``length``.
    """
    count = max(1, math.ceil((len(stream.ids) - 1) / length))
    ids = _windows(stream.ids, count, length, pad_id)
    weights = _windows(stream.weights, count, length, 0)[:, 1:]
    spelled = _windows(stream.spelled, count, length, 0)[:, 1:]
    scored = weights > 0
    lengths = np.clip(len(stream.ids) - np.arange(count) * length, 1, length + 1)
    if kind == "shift":
        rows = Rows(ids, lengths)
    else:
        labels = np.where(scored, ids[:, 1:], IGNORED_LABEL).astype(np.int32)
        kept = weights if kind == "weights" else None
        rows = Rows(ids[:, :-1], np.minimum(lengths, length), labels, kept)
    num_bytes = np.where(scored, spelled, 0).sum(axis=1, dtype=np.int32)
    return PackedRows(subset, rows, num_bytes, int(scored.sum()))


def _windows(values: np.ndarray, count: int, length: int, fill: int) -> np.ndarray:
    padded = np.full(count * length + 1, fill, values.dtype)
    padded[: len(values)] = values
    return np.lib.stride_tricks.sliding_window_view(padded, length + 1)[::length]
