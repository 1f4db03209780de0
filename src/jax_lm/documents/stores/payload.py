"""One document <-> bytes: a line of JSON that says what it is, then its text as it stands."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from jax_lm.types import Document, Segment

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)

PLAIN = ((1.0, False, False),)
"""Weight, markup and readiness of a document that is nothing but text."""


def encode_document(document: Document) -> bytes:
    """The document's bytes; fields that say nothing are left out at the end of the line.

    The line is ``[id, subset, metadata, segments]``, a segment ``[bytes, weight, markup]`` or
    ``[bytes, weight, markup, dtype, bytes of ids]``; what follows are the bytes it counts.
    """
    pieces: list[bytes] = []
    segments = [_encode_segment(segment, pieces) for segment in document.segments]
    fields: list[Any] = [document.id, document.subset, dict(document.metadata), segments]
    if [(*segment[1:3], len(segment) > 3) for segment in segments] == list(PLAIN):
        fields.pop()
        while len(fields) > 1 and not fields[-1]:
            fields.pop()
    return b"\n".join([json_bytes(fields), b"".join(pieces)])


def decode_document(data: bytes) -> Document:
    """The document that ``encode_document`` gave these bytes for."""
    end = data.index(b"\n")
    fields = json.loads(data[:end])
    if len(fields) < 4:
        segments: tuple[Segment, ...] = (Segment(data[end + 1 :].decode("utf-8")),)
    else:
        segments = tuple(_decode_segments(fields[3], data, end + 1))
    subset = fields[1] if len(fields) > 1 else ""
    metadata: Mapping[str, Any] = fields[2] if len(fields) > 2 else {}
    return Document(segments, fields[0], subset, metadata)


def json_bytes(value: Any) -> bytes:
    """One line of JSON; lone surrogates become escapes, what JSON has no name for its text."""
    try:
        return COMPACT.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=str).encode("ascii")


def _encode_segment(segment: Segment, pieces: list[bytes]) -> list[Any]:
    text = segment.text.encode("utf-8")
    pieces.append(text)
    described: list[Any] = [len(text), float(segment.weight), segment.markup]
    if segment.ids is not None:
        ids = segment.ids.astype(segment.ids.dtype.newbyteorder("<"), copy=False).tobytes()
        pieces.append(ids)
        described += [segment.ids.dtype.newbyteorder("<").str, len(ids)]
    return described


def _decode_segments(described: list[Any], data: bytes, start: int) -> list[Segment]:
    segments = []
    for num_bytes, weight, markup, *ready in described:
        text = data[start : start + num_bytes].decode("utf-8")
        start += num_bytes
        ids = None
        if ready:
            dtype, size = ready
            ids = np.frombuffer(data[start : start + size], np.dtype(dtype))
            start += size
        segments.append(Segment(text, weight, markup, ids))
    return segments
