"""Documents -> their tokens in flat arrays, whatever mode cuts them afterwards."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.base import Encoded, Tokenizer
from jax_lm.tokenizers.segments import encode_segments
from jax_lm.types import Document, Segment

BATCH_CHARACTERS = 1_000_000  # an encoding takes ~150 bytes of memory a token

SentenceEnds = Callable[[str], Sequence[int]]
"""UTF-8 offsets at which the sentences of a text end."""


class TokenizedDocuments(NamedTuple):
    """The tokens of a shard; document i is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: Int[np.ndarray, "tokens"]
    """int32, without any separator."""
    num_bytes: Int[np.ndarray, "tokens"]
    """UTF-8 bytes of the text that each token stands for (int32)."""
    offsets: Int[np.ndarray, "documents_plus_one"]
    """int64, starting with 0."""
    weights: Float[np.ndarray, "tokens"] | None
    """float32 weight of each token as a target; None: all are 1."""
    subset_ids: Int[np.ndarray, "documents"]
    """Index into ``subsets`` (int32)."""
    subsets: tuple[str, ...]
    """In order of appearance."""
    sentence_ends: Int[np.ndarray, "sentences"] | None
    """Positions in ``ids`` after the last token of each sentence, where asked for (int64)."""
    text_bytes: int
    """UTF-8 bytes of the documents' text."""

    @property
    def lengths(self) -> Int[np.ndarray, "documents"]:
        """Tokens of each document."""
        return np.diff(self.offsets)


def tokenize(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    *,
    parse_special: bool = False,
    sentence_ends: SentenceEnds | None = None,
) -> TokenizedDocuments:
    """Tokenize a shard's documents.

    Segments of a document are tokenized apart, so that their boundary is exact, unless all its
    weights are equal and none is markup.

    Args:
        documents: in order.
        tokenizer: the tokenizer.
        parse_special: special tokens are meant in all text, not in markup alone.
        sentence_ends: finds sentences in a document's text.

    Raises:
        JaxLMError: a weight is negative or not finite, or text cannot be spelled.
    """
    growing = _Growing(sentence_ends)
    for batch in _batches(documents):
        segmented = [pieces(document) for document in batch]
        segments = [segment for segments in segmented for segment in segments]
        encoded = encode_segments(segments, tokenizer, parse_special=parse_special)
        growing.add(batch, segmented, encoded)
        growing.text_bytes += _text_bytes(segments, encoded, parse_special)
    return growing.join()


def pieces(document: Document) -> Sequence[Segment]:
    """The segments to tokenize apart: one, if all weights are equal and none is special.

    Raises:
        JaxLMError: a weight is negative or not finite.
    """
    segments = document.segments
    for segment in segments:
        if not (math.isfinite(segment.weight) and segment.weight >= 0):
            raise JaxLMError(
                f"{document.id}: a segment's weight is {segment.weight}, expected a number of 0 "
                "or more"
            )
    if len(segments) == 1:
        return segments
    weights = {segment.weight for segment in segments}
    plain = not any(segment.markup or segment.ids is not None for segment in segments)
    if len(weights) <= 1 and plain:
        return (Segment(document.text, weights.pop() if weights else 1.0),)
    return segments


@dataclass
class _Growing:
    """The arrays of a shard, batch by batch."""

    sentence_ends: SentenceEnds | None
    ids: list[np.ndarray] = field(default_factory=list)
    num_bytes: list[np.ndarray] = field(default_factory=list)
    lengths: list[np.ndarray] = field(default_factory=list)
    weights: list[np.ndarray | None] = field(default_factory=list)
    """None: all are 1."""
    subset_ids: list[int] = field(default_factory=list)
    subsets: dict[str, int] = field(default_factory=dict)
    ends: list[np.ndarray] = field(default_factory=list)
    tokens: int = 0
    text_bytes: int = 0

    def add(
        self, batch: list[Document], segmented: list[Sequence[Segment]], encoded: Encoded
    ) -> None:
        counts = np.fromiter(map(len, segmented), np.int64, len(segmented))
        offsets = encoded.offsets[np.concatenate([[0], np.cumsum(counts)])]
        self.ids.append(encoded.ids)
        self.num_bytes.append(encoded.num_bytes)
        self.lengths.append(np.diff(offsets))
        self.weights.append(_weights(segmented, encoded))
        for document in batch:
            name = document.subset
            self.subset_ids.append(self.subsets.setdefault(name, len(self.subsets)))
        if self.sentence_ends is not None:
            segments = [segment for segments in segmented for segment in segments]
            self.ends.append(_token_ends(segments, encoded, self.sentence_ends) + self.tokens)
        self.tokens += len(encoded.ids)

    def join(self) -> TokenizedDocuments:
        lengths = np.concatenate([np.zeros(1, np.int64), *self.lengths])
        none = np.empty(0, np.int32)
        return TokenizedDocuments(
            ids=np.concatenate([none, *self.ids]),
            num_bytes=np.concatenate([none, *self.num_bytes]),
            offsets=np.cumsum(lengths, dtype=np.int64),
            weights=self._all_weights(),
            subset_ids=np.array(self.subset_ids, np.int32),
            subsets=tuple(self.subsets),
            sentence_ends=None
            if self.sentence_ends is None
            else np.concatenate([np.empty(0, np.int64), *self.ends]),
            text_bytes=self.text_bytes,
        )

    def _all_weights(self) -> np.ndarray | None:
        if all(weights is None for weights in self.weights):
            return None
        return np.concatenate(
            [
                np.ones(len(ids), np.float32) if weights is None else weights
                for weights, ids in zip(self.weights, self.ids, strict=True)
            ]
        )


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        for segment in document.segments:
            characters += len(segment.text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _weights(segmented: list[Sequence[Segment]], encoded: Encoded) -> np.ndarray | None:
    weights = np.array([s.weight for segments in segmented for s in segments], np.float32)
    if (weights == 1).all():
        return None
    return np.repeat(weights, np.diff(encoded.offsets))


def _text_bytes(segments: Sequence[Segment], encoded: Encoded, parse_special: bool) -> int:
    """Bytes of the text; markup and ready ids count what their tokens spell."""
    total = 0
    for index, segment in enumerate(segments):
        if segment.markup or segment.ids is not None or parse_special:
            place = slice(encoded.offsets[index], encoded.offsets[index + 1])
            total += int(encoded.num_bytes[place].sum())
        elif segment.text.isascii():
            total += len(segment.text)
        else:
            total += len(segment.text.encode("utf-8", "surrogatepass"))
    return total


def _token_ends(
    segments: Sequence[Segment], encoded: Encoded, find: SentenceEnds
) -> Int[np.ndarray, "sentences"]:
    """Positions after the token in which each sentence ends; markup has no sentences.

    A segment's bytes are counted from its own first token, since markup before it spells fewer
    bytes than it has.
    """
    spelled = np.concatenate([[0], np.cumsum(encoded.num_bytes, dtype=np.int64)])
    ends = [
        spelled[encoded.offsets[index]] + end
        for index, segment in enumerate(segments)
        if not segment.markup
        for end in find(segment.text)
    ]
    return np.unique(np.searchsorted(spelled, np.array(ends, np.int64)))
