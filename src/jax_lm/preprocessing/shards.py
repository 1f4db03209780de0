"""A shard: a contiguous range of documents, the unit of work, of retry and of integrity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jax_lm.documents.base import DocumentRange, DocumentSource


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of a source's documents and its place among the source's shards."""

    index: int
    range: DocumentRange


def plan_shards(source: DocumentSource, shard_bytes: int) -> list[Shard]:
    """Cut a source into shards of about ``shard_bytes`` bytes.

    The cut depends only on the source and ``shard_bytes``, never on workers or on the machine.
    """
    return [Shard(index, cut) for index, cut in enumerate(source.ranges(shard_bytes))]


@dataclass(frozen=True, kw_only=True)
class ShardResult:
    """What is known of a shard once its Parquet file is written."""

    index: int
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
    sha256: str = ""
    rejected: tuple[Mapping[str, Any], ...] = field(default=())
    """Records that could not be read and were skipped."""
