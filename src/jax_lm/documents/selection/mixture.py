"""Several sources as one, in shares: which source gives document n is arithmetic on n alone."""

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import NamedTuple

from jax_lm.documents.base import (
    Cursor,
    DocumentRange,
    DocumentSource,
    RejectedRecord,
    checked_target,
)
from jax_lm.documents.left_off import LeftOff
from jax_lm.documents.reading import MixtureStops, check_weights
from jax_lm.documents.statistics import num_bytes
from jax_lm.errors import UsageError
from jax_lm.types import Document, Segment

TURNS = 1 << 64
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, odd: the Weyl sequence whose terms lie the most evenly."""
START, END = Cursor(0, 0), Cursor(1, 0)


def mix(
    sources: Sequence[DocumentSource],
    weights: Sequence[float],
    seed: int,
    stops: MixtureStops = "first-exhausted",
) -> "MixtureSource":
    """One source whose documents come from each of several in proportion to a weight.

    Args:
        sources: read each in its own order; no document is read twice.
        weights: shares of documents, one a source; they need not add up to 1.
        seed: decides the order.
        stops: end with the first source that has no more documents, or go on with the others.

    Raises:
        UsageError: there are not as many weights as sources, or one is not above 0.
    """
    if len(weights) != len(sources):
        raise UsageError(
            f"--weights holds {len(weights)} numbers for {len(sources)} SPECs; expected one each"
        )
    if not sources:
        raise UsageError("a mixture needs a SPEC")
    check_weights(tuple(weights))
    return MixtureSource(tuple(sources), tuple(weights), seed, stops)


class Mark(NamedTuple):
    """Where every source stands before document ``ordinal`` of the mixture."""

    ordinal: int
    positions: tuple[Cursor | None, ...]
    """None: the source has no more."""


class MixtureSource:
    """Documents of several sources in a fixed, even order; a cursor is ``(0, ordinal)``.

    Only ``ranges`` knows where the sources stand inside the mixture, from reading it once; it
    remembers this at each cut, so that a range is read from its start. Any other cursor is reached
    by reading on from the cut before it.
    """

    def __init__(
        self,
        sources: tuple[DocumentSource, ...],
        weights: tuple[float, ...],
        seed: int,
        stops: MixtureStops,
    ):
        self.sources = sources
        self.weights = weights
        self.seed = seed
        self.stops = stops
        self.rejects: list[RejectedRecord] = []
        self.dropped: Counter[str] = Counter()
        self._marks = [Mark(0, (START,) * len(sources))]
        self._cuts: dict[int, list[Cursor]] = {}
        self._left_off: LeftOff[_Drawing] = LeftOff()

    @property
    def name(self) -> str:
        """The sources with their weights."""
        pairs = zip(self.sources, self.weights, strict=True)
        return " ".join(f"{source.name}={weight:g}" for source, weight in pairs)

    def fingerprint(self) -> str:
        """Changes with any source and with what decides the order."""
        parts = [source.fingerprint() for source in self.sources]
        text = f"{parts!r} mixed {self.weights!r} {self.seed} {self.stops}"
        return hashlib.sha256(text.encode()).hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Runs of about ``target_bytes`` UTF-8 bytes of text; reads the mixture once to find them.

        Raises:
            JaxLMError: ``target_bytes`` is below 1, or a document cannot be read.
        """
        checked_target(target_bytes)
        if target_bytes not in self._cuts:
            with self._unheard():
                self._cuts[target_bytes] = self._plan(target_bytes)
        follows = any(cut.follows for s in self.sources for cut in s.ranges(target_bytes))
        return [
            DocumentRange(first, last, follows and first != START)
            for first, last in pairwise([*self._cuts[target_bytes], END])
        ]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a record is malformed, unless its source skips those.
        """
        if start >= END:
            return
        drawing = self._left_off.take(start) or self._drawing_at(start)
        while stop is None or Cursor(0, drawing.ordinal) < stop:
            document = drawing.draw()
            if document is None:
                return
            yield Cursor(0, drawing.ordinal), document
        self._left_off.keep(stop, drawing)

    def _drawing_at(self, start: Cursor) -> "_Drawing":
        place = bisect_right(self._marks, start.offset, key=lambda mark: mark.ordinal) - 1
        drawing = _Drawing(self, self._marks[place])
        with self._unheard():
            while drawing.ordinal < start.offset and drawing.draw() is not None:
                pass
        return drawing

    def _plan(self, target_bytes: int) -> list[Cursor]:
        """The beginnings of the ranges; where the sources stand at each is remembered."""
        drawing, pending = _Drawing(self, self._marks[0]), 0
        marks, before = [self._marks[0]], self._marks[0]
        while (document := drawing.draw()) is not None:
            if pending >= target_bytes:
                marks.append(before)
                pending = 0
            pending += sum(map(_size, document.segments))
            before = drawing.mark()
        self._marks = sorted({*self._marks, *marks}, key=lambda mark: mark.ordinal)
        return [Cursor(0, mark.ordinal) for mark in marks]

    @contextmanager
    def _unheard(self) -> Iterator[None]:
        """Forget what a reading met that only finds a place: another reading meets it again."""
        known, dropped = len(self.rejects), Counter(self.dropped)
        try:
            yield
        finally:
            del self.rejects[known:]
            self.dropped.clear()
            self.dropped.update(dropped)


class _Drawing:
    """The mixture while it is read: a reader of each source, opened when it is first drawn."""

    def __init__(self, mixture: MixtureSource, mark: Mark):
        self.mixture = mixture
        self.ordinal = mark.ordinal
        self._positions = list(mark.positions)
        self._readers: dict[int, Iterator[tuple[Cursor, Document]]] = {}
        self._phase = int.from_bytes(hashlib.sha256(str(mixture.seed).encode()).digest()[:8], "big")
        self._left: list[int] = []
        self._sums: list[float] = []
        self._weigh()

    def mark(self) -> Mark:
        """Where the sources stand now."""
        return Mark(self.ordinal, tuple(self._positions))

    def draw(self) -> Document | None:
        """The next document, None at the end."""
        while self._left:
            index = self._choose()
            item = self._next(index)
            if item is not None:
                self._positions[index], document = item
                self.ordinal += 1
                return document
            self._positions[index] = None
            self._weigh()
            if self.mixture.stops == "first-exhausted":
                self._left = []
        return None

    def _weigh(self) -> None:
        self._left = [i for i, position in enumerate(self._positions) if position is not None]
        self._sums = list(accumulate(self.mixture.weights[i] for i in self._left))

    def _choose(self) -> int:
        turn = (self._phase + self.ordinal * GOLDEN) % TURNS / TURNS
        place = bisect_right(self._sums, turn * self._sums[-1])
        return self._left[min(place, len(self._left) - 1)]

    def _next(self, index: int) -> tuple[Cursor, Document] | None:
        source = self.mixture.sources[index]
        reader = self._readers.get(index)
        if reader is None:
            position = self._positions[index]
            assert position is not None, "a source without more documents is not drawn"
            reader = self._readers[index] = iter(source.read(position))
        try:
            return next(reader, None)
        finally:
            self._collect(source)

    def _collect(self, source: DocumentSource) -> None:
        """What a source skipped or left out is the mixture's to tell."""
        if source.rejects:
            self.mixture.rejects.extend(source.rejects)
            source.rejects.clear()
        if source.dropped:
            self.mixture.dropped.update(source.dropped)
            source.dropped.clear()


def _size(segment: Segment) -> int:
    return num_bytes(segment.text) if segment.ids is None else 2 * len(segment.ids)
