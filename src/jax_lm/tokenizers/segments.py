"""Segments -> ids: ordinary text, markup whose special tokens are meant, and ready ids."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.base import Encoded, Tokenizer
from jax_lm.types import Segment

TEXT, MARKUP, READY = range(3)


def encode_segments(
    segments: Sequence[Segment], tokenizer: Tokenizer, *, parse_special: bool = False
) -> Encoded:
    """Ids of each segment, cut apart from its neighbours.

    Args:
        segments: what to cut.
        tokenizer: cuts text; markup keeps its special tokens, ready ids are taken as they are.
        parse_special: special tokens are meant in all text, not in markup alone.

    Raises:
        JaxLMError: text that cannot be spelled, or ready ids outside the vocabulary.
    """
    if not any(segment.markup or segment.ids is not None for segment in segments):
        texts = [segment.text for segment in segments]
        return tokenizer.encode_batch(texts, parse_special=parse_special)
    kinds = [_kind(segment, parse_special) for segment in segments]
    parts = [
        _split(tokenizer.encode_batch(_texts(segments, kinds, TEXT))),
        _split(tokenizer.encode_batch(_texts(segments, kinds, MARKUP), parse_special=True)),
        iter([_ready(segment, tokenizer) for segment in segments if segment.ids is not None]),
    ]
    pieces = [next(parts[kind]) for kind in kinds]
    return _joined(pieces)


def _kind(segment: Segment, parse_special: bool) -> int:
    if segment.ids is not None:
        return READY
    return MARKUP if segment.markup or parse_special else TEXT


def _texts(segments: Sequence[Segment], kinds: Sequence[int], kind: int) -> list[str]:
    return [segment.text for segment, k in zip(segments, kinds, strict=True) if k == kind]


def _ready(segment: Segment, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    ids = np.asarray(segment.ids, np.int32)
    outside = ids[(ids < 0) | (ids >= tokenizer.vocab_size)]
    if outside.size:
        raise JaxLMError(
            f"ready-made id {outside[0]} is outside the tokenizer's vocabulary of "
            f"{tokenizer.vocab_size}: name the tokenizer that made the ids"
        )
    return ids, tokenizer.token_byte_lengths()[ids]


def _split(encoded: Encoded) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start, stop in pairwise(encoded.offsets.tolist()):
        yield encoded.ids[start:stop], encoded.num_bytes[start:stop]


def _joined(pieces: Sequence[tuple[np.ndarray, np.ndarray]]) -> Encoded:
    empty = np.empty(0, np.int32)
    offsets = np.cumsum([0, *(len(ids) for ids, _ in pieces)], dtype=np.int64)
    ids = np.concatenate([empty, *(ids for ids, _ in pieces)])
    return Encoded(ids, offsets, np.concatenate([empty, *(lengths for _, lengths in pieces)]))
