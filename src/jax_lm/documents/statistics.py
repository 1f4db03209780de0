"""What a source holds, counted in one reading."""

import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from tqdm import tqdm

from jax_lm.documents.base import Cursor, DocumentSource
from jax_lm.documents.limited import passed_over
from jax_lm.errors import JaxLMError
from jax_lm.types import Document

LISTED_SUBSETS = 20
UNNAMED = "(none)"


@dataclass
class SubsetCount:
    """Documents and UTF-8 bytes of one subset."""

    documents: int = 0
    num_bytes: int = 0


@dataclass
class CorpusStatistics:
    """Counts over the documents of a source; sizes are UTF-8 bytes unless said otherwise."""

    characters: int = 0
    context_bytes: int = 0
    """Bytes in segments of weight 0."""
    sizes: "array[int]" = field(default_factory=partial(array, "Q"))
    """Bytes of each document."""
    ids: int = 0
    """Ids of text that came in already tokenised, whose bytes are not known here."""
    markup_bytes: int = 0
    """Bytes that a chat template wrote."""
    longest: tuple[int, str] = (-1, "")
    """Bytes and id of the longest document."""
    subsets: dict[str, SubsetCount] = field(default_factory=dict)
    seconds: float = 0.0
    """Wall time of reading and counting."""

    @property
    def num_bytes(self) -> int:
        """UTF-8 bytes of all documents."""
        return sum(self.sizes)

    def add(self, document: Document) -> None:
        """Count one more document."""
        text = document.text
        size = num_bytes(text)
        self.sizes.append(size)
        self.characters += len(text)
        for segment in document.segments:
            if segment.ids is not None:
                self.ids += len(segment.ids)
            elif not segment.weight:
                self.context_bytes += num_bytes(segment.text)
            if segment.markup:
                self.markup_bytes += num_bytes(segment.text)
        if size > self.longest[0]:
            self.longest = (size, document.id)
        subset = self.subsets.setdefault(document.subset, SubsetCount())
        subset.documents += 1
        subset.num_bytes += size


def num_bytes(text: str) -> int:
    """UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def measure(source: DocumentSource) -> CorpusStatistics:
    """Read a whole source and count; shows a progress bar on a terminal.

    Raises:
        JaxLMError: the source holds no document, or none that is kept.
    """
    counted = CorpusStatistics()
    began = time.perf_counter()
    for _, document in tqdm(source.read(Cursor(0, 0)), unit=" documents", disable=None):
        counted.add(document)
    counted.seconds = time.perf_counter() - began
    if not counted.sizes:
        raise JaxLMError(f"{source.name}: {_why_empty(source)}")
    return counted


def _why_empty(source: DocumentSource) -> str:
    lost = [f"{count:,} {reason}" for reason, count in source.dropped.most_common()]
    if source.rejects:
        lost.append(f"{len(source.rejects):,} malformed, such as {source.rejects[0].reason}")
    if lost:
        return f"no document is left of it: {'; '.join(lost)}"
    return "no document in it, only blank lines or nothing at all"


def report(source: DocumentSource) -> Iterator[str]:
    """Measure a source; give the lines of a table for a person."""
    counted = measure(source)
    rate = counted.num_bytes / max(counted.seconds, 1e-9) / 1e6
    size, longest_id = counted.longest
    yield _row("source", source.name)
    yield _row("documents", f"{len(counted.sizes):,}")
    yield _row("characters", f"{counted.characters:,}")
    yield _row("UTF-8 bytes", f"{counted.num_bytes:,}")
    if counted.context_bytes:
        yield _row("of weight 0", f"{counted.context_bytes:,} bytes, context only")
    if counted.markup_bytes:
        yield _row("of a template", f"{counted.markup_bytes:,} bytes around what was said")
    if counted.ids:
        yield _row("ready-made ids", f"{counted.ids:,}")
    yield _row("median document", f"{np.median(counted.sizes):,.0f} bytes")
    yield _row("longest document", f"{size:,} bytes: {longest_id}")
    if empty := counted.sizes.count(0):
        yield _row("empty documents", f"{empty:,}")
    yield from _subset_rows(counted)
    yield from _lost_rows(source)
    if others := passed_over(source):
        files = "1 file" if len(others) == 1 else f"{len(others):,} files"
        yield _row("not read", f"{files} of another kind: {_listed(others)}")
    yield _row("read at", f"{rate:,.1f} MB/s")


def _subset_rows(counted: CorpusStatistics) -> Iterator[str]:
    if set(counted.subsets) == {""}:
        return
    ordered = sorted(counted.subsets.items(), key=lambda item: -item[1].num_bytes)
    width = max(len(name or UNNAMED) for name in counted.subsets)
    total = max(counted.num_bytes, 1)
    for index, (name, subset) in enumerate(ordered[:LISTED_SUBSETS]):
        share = f"{100 * subset.num_bytes / total:5.1f} % of bytes"
        line = f"{name or UNNAMED:<{width}}  {share}, {subset.documents:,} documents"
        yield _row("" if index else "subsets", line)
    if len(ordered) > LISTED_SUBSETS:
        yield _row("", f"and {len(ordered) - LISTED_SUBSETS:,} more")


def _lost_rows(source: DocumentSource) -> Iterator[str]:
    for index, (reason, count) in enumerate(source.dropped.most_common()):
        yield _row("" if index else "left out", f"{_documents(count)}: {reason}")
    if source.rejects:
        place = f"{source.rejects[0].file}:{source.rejects[0].line}"
        yield _row("malformed", f"{_documents(len(source.rejects))} skipped, the first at {place}")


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count:,} documents"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _row(label: str, value: str) -> str:
    return f"{label:<18}{value}"
