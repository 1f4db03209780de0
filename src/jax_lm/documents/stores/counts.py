"""What a store holds and what a build left out, in numbers that add up over files."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jax_lm.documents.base import Cursor
from jax_lm.types import Document


@dataclass(kw_only=True)
class Counts:
    """Counts over documents; sizes are UTF-8 bytes."""

    documents: int = 0
    num_bytes: int = 0
    """Bytes of all texts."""
    stored_bytes: int = 0
    """Bytes of the documents as they are stored."""
    characters: int = 0
    context_bytes: int = 0
    """Bytes in segments of weight 0."""
    empty: int = 0
    """Documents without a character."""
    longest: tuple[int, str] = (-1, "")
    """Bytes and id of the longest document."""
    rejected: int = 0
    """Malformed records that were skipped."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Documents left out on purpose, by reason."""
    subsets: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Documents and bytes of each subset."""

    def add(self, document: Document) -> int:
        """Count one more document; gives its bytes."""
        sizes = [text_bytes(segment.text) for segment in document.segments]
        size = sum(sizes)
        self.documents += 1
        self.num_bytes += size
        for segment, num_bytes in zip(document.segments, sizes, strict=True):
            self.characters += len(segment.text)
            if not segment.weight:
                self.context_bytes += num_bytes
        self.empty += not size
        if size > self.longest[0]:
            self.longest = (size, document.id)
        documents, num_bytes = self.subsets.get(document.subset, (0, 0))
        self.subsets[document.subset] = (documents + 1, num_bytes + size)
        return size

    def merge(self, other: "Counts") -> None:
        """Add the counts of what comes after."""
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.longest[0] > self.longest[0]:
            self.longest = other.longest
        self.dropped.update(other.dropped)
        for subset, (documents, num_bytes) in other.subsets.items():
            before = self.subsets.get(subset, (0, 0))
            self.subsets[subset] = (before[0] + documents, before[1] + num_bytes)

    def as_json(self) -> dict[str, Any]:
        """The counts as plain values."""
        return {**vars(self), "dropped": dict(sorted(self.dropped.items()))}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Counts":
        """The counts that ``as_json`` gave these values for."""
        subsets = {name: (pair[0], pair[1]) for name, pair in values["subsets"].items()}
        longest = (values["longest"][0], values["longest"][1])
        changed = {"subsets": subsets, "longest": longest, "dropped": Counter(values["dropped"])}
        return cls(**(values | changed))


SUMS = (
    "documents",
    "num_bytes",
    "stored_bytes",
    "characters",
    "context_bytes",
    "empty",
    "rejected",
)


class Progress(NamedTuple):
    """How far a build is; kept in the same transaction as the documents."""

    cursor: Cursor
    """Where the source is read on."""
    counts: Counts
    complete: bool = False
    """The source is at its end."""

    def as_json(self) -> dict[str, Any]:
        """The progress as plain values."""
        return {
            "cursor": list(self.cursor),
            "counts": self.counts.as_json(),
            "complete": self.complete,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Progress":
        """The progress that ``as_json`` gave these values for."""
        counts = Counts.from_json(values["counts"])
        return cls(Cursor(*values["cursor"]), counts, values["complete"])


def beginning() -> Progress:
    """Nothing is done yet."""
    return Progress(Cursor(0, 0), Counts())


def text_bytes(text: str) -> int:
    """UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))
