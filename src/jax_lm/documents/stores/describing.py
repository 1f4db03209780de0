"""What a store holds, from its own records: nothing is read but those."""

from collections.abc import Iterator

from jax_lm.documents.base import DocumentStore
from jax_lm.documents.stores.counts import Counts
from jax_lm.documents.stores.mongodb import MongoStore
from jax_lm.documents.stores.sqlite import SqliteStore

LISTED_SUBSETS = 20
UNNAMED = "(none)"


def store_lines(store: DocumentStore) -> Iterator[str]:
    """The lines of a table of what a store holds."""
    yield row("source", store.name)
    if isinstance(store, SqliteStore):
        yield from sqlite_store_lines(store)
    elif isinstance(store, MongoStore):
        yield row("documents", f"{len(store):,}")
        for index, part in enumerate(store.parts):
            line = f"{part.name}: {part.length:,} documents"
            yield row("" if index else "collections", line)


def sqlite_store_lines(store: SqliteStore) -> Iterator[str]:
    """What the files of a store say about themselves."""
    counts = Counts()
    for file in store.files:
        counts.merge(file.counts)
    disk = sum(file.header.num_bytes for file in store.files)
    yield from counts_lines(counts)
    files = "1 file" if len(store.files) == 1 else f"{len(store.files):,} files"
    smaller = f", {counts.num_bytes / disk:.2f}x smaller" if counts.num_bytes > disk else ""
    yield row("stored", f"{disk:,} bytes in {files}{smaller}")


def counts_lines(counts: Counts) -> Iterator[str]:
    """What was counted, what was left out and why, and the subsets."""
    yield row("documents", f"{counts.documents:,}")
    yield row("characters", f"{counts.characters:,}")
    yield row("UTF-8 bytes", f"{counts.num_bytes:,}")
    if counts.context_bytes:
        yield row("of weight 0", f"{counts.context_bytes:,} bytes, context only")
    if counts.documents:
        size, longest_id = counts.longest
        yield row("mean document", f"{counts.num_bytes / counts.documents:,.0f} bytes")
        yield row("longest document", f"{size:,} bytes: {longest_id}")
    if counts.empty:
        yield row("empty documents", f"{counts.empty:,}")
    yield from _left_out(counts)
    yield from _subsets(counts)


def ratio(counts: Counts) -> str:
    """How much smaller the documents are as they are stored."""
    return f"{counts.num_bytes / max(counts.stored_bytes, 1):.2f}x smaller"


def row(label: str, value: str) -> str:
    """A line of a table."""
    return f"{label:<18}{value}"


def _left_out(counts: Counts) -> Iterator[str]:
    reasons = [f"{number:,} {reason}" for reason, number in sorted(counts.dropped.items())]
    if counts.rejected:
        reasons.append(f"{counts.rejected:,} malformed")
    if reasons:
        yield row("left out", ", ".join(reasons))


def _subsets(counts: Counts) -> Iterator[str]:
    if set(counts.subsets) <= {""}:
        return
    ordered = sorted(counts.subsets.items(), key=lambda item: -item[1][1])
    width = max(len(name or UNNAMED) for name, _ in ordered[:LISTED_SUBSETS])
    for index, (name, (documents, num_bytes)) in enumerate(ordered[:LISTED_SUBSETS]):
        share = 100 * num_bytes / max(counts.num_bytes, 1)
        line = f"{name or UNNAMED:<{width}}  {share:5.1f} % of bytes, {documents:,} documents"
        yield row("" if index else "subsets", line)
    if len(ordered) > LISTED_SUBSETS:
        yield row("", f"and {len(ordered) - LISTED_SUBSETS:,} more")
