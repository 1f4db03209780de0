"""A shard: a contiguous range of documents, the unit of work, of retry and of integrity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jax_lm.documents.base import DocumentRange, DocumentSource


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of a source's documents and its place among the source's shards."""

    index: int
    range: DocumentRange

    @property
    def place(self) -> tuple[int, ...]:
        """The numbers of the cursors at which it begins and ends."""
        return (*self.range.start, *self.range.stop)


Run = tuple[Shard, ...]
"""Shards that one worker reads in one pass, since each begins where the one before it ends."""


def plan_runs(shards: Sequence[Shard]) -> list[Run]:
    """Group shards that can only be reached by reading the ones before them."""
    runs: list[list[Shard]] = []
    for shard in shards:
        if shard.range.follows and runs:
            runs[-1].append(shard)
        else:
            runs.append([shard])
    return [tuple(run) for run in runs]


def plan_shards(source: DocumentSource, shard_bytes: int) -> list[Shard]:
    """Cut a source into shards of about ``shard_bytes`` bytes.

    The cut depends only on the source and ``shard_bytes``, never on workers or on the machine.
    """
    return [Shard(index, cut) for index, cut in enumerate(source.ranges(shard_bytes))]


@dataclass(frozen=True, kw_only=True)
class ShardResult:
    """What is known of a shard once its Parquet file is written."""

    index: int
    place: tuple[int, ...]
    """Where the shard began and ended when it was made: the numbers of two cursors."""
    columns: tuple[str, ...]
    """Of the file; empty where there is none."""
    row_length: int
    """Width of ``input_ids``."""
    kind: str
    """Kind of targets the file was written with."""
    rows: int
    """Feature rows; 0: the shard has no file."""
    tokens: int
    """Ids of the shard's streams, each counted once, separators included."""
    targets: int
    """Targets with a weight above 0."""
    padding: int
    """Positions that hold no token."""
    num_bytes: int
    """UTF-8 bytes the scored targets spell."""
    text_bytes: int
    """UTF-8 bytes of the documents."""
    spelled_bytes: int
    """UTF-8 bytes that the documents' tokens spell; equal to ``text_bytes`` if nothing is lost."""
    documents: int
    cut_off: int
    """Tokens of the documents that no row holds."""
    subsets: Mapping[str, Mapping[str, int]]
    """``SubsetTotals`` by name."""
    dropped: Mapping[str, int]
    """Documents or windows that gave no row, by reason."""
    sha256: str = ""
    rejected: tuple[Mapping[str, Any], ...] = field(default=())
    """Records that could not be read and were skipped."""
