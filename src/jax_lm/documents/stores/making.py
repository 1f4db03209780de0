"""``documents build``: where a store goes, whether it is there already, and what is said of it."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tqdm import tqdm

from jax_lm.documents.base import DocumentSource
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.selection.cleaning import cleaning
from jax_lm.documents.selection.selected import ASKED
from jax_lm.documents.stores.building import Plan, Say, build
from jax_lm.documents.stores.connections import damage_named
from jax_lm.documents.stores.counts import Progress
from jax_lm.documents.stores.describing import counts_lines, ratio, row, sqlite_store_lines
from jax_lm.documents.stores.dictionary import train_dictionary
from jax_lm.documents.stores.mongodb import open_mongodb
from jax_lm.documents.stores.mongodb_address import parse_address
from jax_lm.documents.stores.mongodb_writer import MongoWriter
from jax_lm.documents.stores.originals import KeepingOriginals
from jax_lm.documents.stores.partial_files import rejected_path, remove
from jax_lm.documents.stores.sqlite import open_sqlite, store_paths
from jax_lm.documents.stores.sqlite_file import (
    FORMAT_VERSION,
    connect_to_read,
    read_header,
    read_meta,
)
from jax_lm.documents.stores.sqlite_writer import SqliteWriter
from jax_lm.errors import JaxLMError, UsageError

PLAIN_SECONDS = 10.0
LEVELS = range(1, 20)
URL = "://"
MONGODB = ("mongodb:", "mongodb+srv:", "mongodb-config:")
SQLITE = "sqlite:"


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """How a store is built."""

    overwrite: bool = False
    """Replace what the output holds now."""
    level: int = 3
    """Of zstd's compression, 1 (fast) to 19 (small); SQLite alone."""
    shard_documents: int | None = None
    """Make a directory of SQLite files with so many documents each; default: one file."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if self.level not in LEVELS:
            raise UsageError(f"--level is {self.level}, expected 1 to {LEVELS[-1]}")
        if self.shard_documents is not None and self.shard_documents < 1:
            raise UsageError(f"--shard-documents is {self.shard_documents}, expected 1 or more")


def make_store(
    spec: Sequence[str],
    reading: ReadingOptions,
    output: str,
    options: StoreOptions,
    say: Say,
) -> Iterator[str]:
    """Build a store; give the lines of a summary.

    Args:
        spec: where the documents are.
        reading: how they are read, cleaned and chosen.
        output: ``mongodb://...`` with one collection; else a file to make, or the directory where
            ``shard_documents`` is set.
        options: how it is built.
        say: is told how far it is.

    Raises:
        JaxLMError: something else is there, or there is no room for it.
    """
    if output.startswith(MONGODB):
        return _make_mongodb_store(_with_originals(spec, reading), output, options, say)
    if URL in output:
        raise JaxLMError(f"{output}: a store of SQLite files is written to a local path, not a URL")
    return make_sqlite_store(open_source(spec, reading), output, options, say)


def make_sqlite_store(
    source: DocumentSource, output: str, options: StoreOptions, say: Say
) -> Iterator[str]:
    """Build a store of SQLite files; give the lines of a summary."""
    path = Path(output.removeprefix(SQLITE))
    if path.is_dir() and any(path.iterdir()) and not any(path.glob("*.db")):
        raise JaxLMError(f"{path}: a directory with other files in it; choose another --output")
    plan = _plan(source, options)
    if _is_there(path, plan, options.overwrite):
        say(f"{path} holds these documents already; nothing to do")
    else:
        writer = SqliteWriter(
            path,
            plan,
            lambda: train_dictionary(source),
            level=options.level,
            documents_a_file=options.shard_documents,
            say=say,
        )
        build(source, writer, progress_lines(say))
    yield from sqlite_lines(path)


def _make_mongodb_store(
    source: DocumentSource, output: str, options: StoreOptions, say: Say
) -> Iterator[str]:
    address = parse_address(output)
    if options.shard_documents is not None:
        raise UsageError("--shard-documents cuts SQLite stores into files; a collection is one")
    plan = {"format": FORMAT_VERSION, "source": source.fingerprint()}
    writer = MongoWriter(address, plan, say)
    yield row("store", address.name)
    if writer.is_there(options.overwrite):
        say(f"{address.name} holds these documents already; nothing to do")
        yield row("documents", f"{len(open_mongodb(output)):,}")
    else:
        progress = build(source, writer, progress_lines(say))
        yield from counts_lines(progress.counts)
        if progress.counts.rejected:
            yield row("rejected records", f"collection {writer.rejected}")


def _with_originals(spec: Sequence[str], reading: ReadingOptions) -> DocumentSource:
    """The source; where it is cleaned, each document remembers its text as it came."""
    if not cleaning(reading):
        return open_source(spec, reading)
    chosen_later = {*ASKED, "max_documents"}
    kept = {
        field.name: getattr(reading, field.name)
        for field in fields(ReadingOptions)
        if field.name not in chosen_later
    }
    return open_source(KeepingOriginals(open_source(spec, ReadingOptions(**kept))), reading)


def progress_lines(say: Say) -> Callable[[Progress], None]:
    """Shows a build's progress: one line that changes on a terminal, else a line now and then."""
    bar = tqdm(bar_format="{desc}", leave=False, disable=None)
    began = shown = 0.0
    first: int | None = None

    def watch(progress: Progress) -> None:
        nonlocal began, shown, first
        now = time.perf_counter()
        if first is None:
            began, shown, first = now, now, progress.counts.num_bytes
            return
        speed = (progress.counts.num_bytes - first) / max(now - began, 1e-9) / 1e6
        line = (
            f"{progress.counts.documents:,} documents, {progress.counts.num_bytes / 1e6:,.1f} MB "
            f"of text, {speed:.1f} MB/s, {ratio(progress.counts)}"
        )
        if not bar.disable:
            bar.set_description_str(line)
        elif now - shown >= PLAIN_SECONDS:
            say(line)
            shown = now
        if progress.complete:
            bar.close()

    return watch


def sqlite_lines(path: Path) -> Iterator[str]:
    """The summary of a finished store."""
    store = open_sqlite(str(path))
    yield row("store", str(path))
    yield from sqlite_store_lines(store)
    if rejected_path(path).exists():
        yield row("rejected records", str(rejected_path(path)))


def _plan(source: DocumentSource, options: StoreOptions) -> Plan:
    return {
        "format": FORMAT_VERSION,
        "source": source.fingerprint(),
        "level": options.level,
        "shard_documents": options.shard_documents,
    }


def _is_there(path: Path, plan: Plan, overwrite: bool) -> bool:
    """Whether the output holds what is to be built.

    Raises:
        JaxLMError: it holds something else, which is not to be replaced.
    """
    if not path.exists():
        return False
    first = store_paths(str(path))[0]
    if overwrite:
        read_header(first)  # anything but a store is refused
        return False
    read_header(first)
    with damage_named(first):
        connection = connect_to_read(first)
        try:
            found = read_meta(connection, "plan")
        finally:
            connection.close()
    if found != plan:
        raise JaxLMError(
            f"{path}: holds documents of another source or other settings; --overwrite replaces "
            "them, or choose another --output"
        )
    remove(path.with_name(f"_{path.name}.partial"))
    return True
