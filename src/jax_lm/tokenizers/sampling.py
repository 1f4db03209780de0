"""A sample of a corpus too large to learn from whole, in bounded memory."""

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """How much of the texts to learn from."""

    sample_documents: int | None = None
    """Learn from so many texts, chosen at random among all; default: from every text."""
    sample_bytes: int | None = None
    """Learn from about so many UTF-8 bytes of texts chosen at random; they are held in memory."""
    sample_seed: int = 0
    """Decides which texts a sample takes."""


class Sample:
    """Texts to iterate over once; afterwards ``describe`` says what was taken.

    Each text draws a number, and those with the lowest are kept while they fit: every text has
    the same chance, what is kept never outgrows the limits by more than a text, and the texts of a
    smaller sample are among those of a larger one.
    """

    def __init__(self, texts: Iterable[str], settings: SampleSettings):
        self._texts = texts
        self._documents = settings.sample_documents
        self._bytes = settings.sample_bytes
        self._random = random.Random(settings.sample_seed)
        self.read = self.taken = 0

    def __iter__(self) -> Iterator[str]:
        """The texts taken, in the order of the source."""
        if self._documents is None and self._bytes is None:
            yield from self._texts
            return
        kept: list[tuple[float, int, str]] = []
        size = 0
        for text in self._texts:
            heapq.heappush(kept, (-self._random.random(), self.read, text))
            self.read += 1
            size += _num_bytes(text)
            while len(kept) > 1 and self._is_too_much(len(kept), size):
                size -= _num_bytes(heapq.heappop(kept)[2])
        self.taken = len(kept)
        yield from (text for _, _, text in sorted(kept, key=lambda entry: entry[1]))

    def describe(self) -> str | None:
        """A line about a sample that left something out."""
        if self.taken == self.read:
            return None
        return f"a sample: {self.taken:,} of {self.read:,} texts, chosen at random"

    def _is_too_much(self, documents: int, size: int) -> bool:
        too_many = self._documents is not None and documents > self._documents
        return too_many or (self._bytes is not None and size > self._bytes)


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
