"""One document as a person reads it."""

import json
from collections.abc import Iterator
from itertools import islice

from jax_lm.documents.base import Cursor, DocumentSource
from jax_lm.documents.limited import LimitedSource
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.types import Document, Segment

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
SAFE_CONTROLS = {code: text for code, text in CONTROLS.items() if chr(code) not in "\n\t"}
SHOWN_IDS = 50
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


def document_at(source: DocumentSource, index: int) -> Document:
    """Document ``index`` of a source, counting from 0.

    Raises:
        JaxLMError: the source has fewer documents.
    """
    if index < 0:
        raise UsageError(f"-i counts from 0, so {index} names no document")
    read = 0
    for _, document in islice(source.read(Cursor(0, 0)), index + 1):
        read += 1
        if read > index:
            return document
    documents = "one document, number 0" if read == 1 else f"{read:,} documents, counted from 0"
    if left_out := sum(source.dropped.values()):
        documents += f", {left_out:,} others being left out"
    limit = source.max_documents if isinstance(source, LimitedSource) else None
    if read == limit:
        documents += f", for --max-documents {limit} ends it there"
    raise JaxLMError(f"{source.name}: there is no document {index}; it holds {documents}")


def document_lines(document: Document, max_characters: int, styled: bool) -> Iterator[str]:
    """A document's id, subset, metadata and text.

    Args:
        document: what to show.
        max_characters: of each segment; 0 shows all.
        styled: dim what has weight 0 and what a chat template wrote, with escape sequences for a
            terminal.
    """
    yield f"id        {document.id}"
    if document.subset:
        yield f"subset    {document.subset}"
    for key, value in document.metadata.items():
        yield f"metadata  {printable(f'{key}: {json.dumps(value, ensure_ascii=False)}')}"
    yield ""
    segments = document.segments
    is_plain = len(segments) == 1 and segments[0].weight == 1 and not segments[0].markup
    for number, segment in enumerate(segments, 1):
        if not is_plain:
            yield f"--- segment {number} of {len(segments)}, {_role(segment)}"
        yield from _segment_lines(
            segment, max_characters, styled and (segment.markup or not segment.weight)
        )


def _role(segment: Segment) -> str:
    kind = ", markup" if segment.markup else ""
    return f"weight {segment.weight:g}{kind}"


def printable(text: str) -> str:
    """Text without the control characters that could disturb a terminal."""
    return text.translate(SAFE_CONTROLS)


def _segment_lines(segment: Segment, max_characters: int, dim: bool) -> Iterator[str]:
    if segment.ids is not None:
        ids = " ".join(map(str, segment.ids[:SHOWN_IDS].tolist()))
        more = " ..." if len(segment.ids) > SHOWN_IDS else ""
        yield f"{len(segment.ids):,} ready-made ids: {ids}{more}"
        return
    shown = segment.text[:max_characters] if max_characters else segment.text
    text = printable(shown.replace("\r\n", "\n"))
    yield f"{DIM}{text}{PLAIN}" if dim else text
    if len(shown) < len(segment.text):
        rest = len(segment.text) - len(shown)
        yield f"... {rest:,} more characters (--show-characters 0 shows all)"
