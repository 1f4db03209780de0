"""``sqlite:PATH``: any number of SQLite files as one list of documents."""

import glob
import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from jax_lm.documents.base import Cursor, DocumentRange, RejectedRecord, checked_target
from jax_lm.documents.stores.connections import Connections, damage_named
from jax_lm.documents.stores.counts import Counts
from jax_lm.documents.stores.sqlite_file import (
    FORMAT_VERSION,
    Header,
    connect_to_read,
    read_header,
    read_meta,
)
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.types import Document

SUFFIX = ".db"
READ_AT_ONCE = 64
VALUES_A_QUERY = 512
FINE_RANGES = 1 << 20
"""Below so many bytes a range is cut between any two documents, above it at marks."""


class StoreFile(NamedTuple):
    """A finished file of a store."""

    path: Path
    header: Header
    counts: Counts


class SqliteStore:
    """Documents of SQLite files under one index, in the order of the files.

    Its cursors are ``Cursor(0, index)``. Each process and each thread opens the files for itself.
    """

    def __init__(self, name: str, files: Sequence[StoreFile]):
        """Opens nothing yet.

        Args:
            name: what the user wrote.
            files: in their order, as ``read_store_file`` gives them.
        """
        self.name = name
        self.files = tuple(files)
        self.rejects: list[RejectedRecord] = []
        self.dropped: Counter[str] = Counter()
        self._firsts = [0, *accumulate(file.counts.documents for file in files)]
        self._connections = Connections([(file.path, file.header) for file in files])

    def __len__(self) -> int:
        """Number of documents."""
        return self._firsts[-1]

    def __getitem__(self, index: int) -> Document:
        """Document ``index``, counting from 0.

        Raises:
            IndexError: the store has fewer documents.
        """
        file, number = self._place(index)
        opened = self._connections.file(file)
        rows = opened.rows("SELECT body FROM documents WHERE id = ?", (number,))
        if not rows:
            raise self._missing(file, number)
        return opened.document(number, rows[0][0])

    def read_batch(self, indices: Sequence[int]) -> list[Document]:
        """The documents at ``indices``, in that order."""
        wanted: dict[int, list[int]] = {}
        for index in dict.fromkeys(indices):
            file, number = self._place(index)
            wanted.setdefault(file, []).append(number)
        found = {
            self._firsts[file] + number: document
            for file, numbers in wanted.items()
            for number, document in self._numbered(file, numbers)
        }
        return [found[index] for index in indices]

    def fingerprint(self) -> str:
        """Hex sha256 over the names, lengths and checksums of the files."""
        digest = hashlib.sha256(b"sqlite\n")
        for path, _, counts in self.files:
            header = read_header(path)
            line = f"{path.name}\0{header.num_bytes}\0{header.seal}\0{counts.documents}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Runs of documents with about ``target_bytes`` bytes of text.

        Raises:
            JaxLMError: ``target_bytes`` is below 1.
        """
        checked_target(target_bytes)
        cuts = [0]
        reached = 0
        for index, start in self._boundaries(target_bytes):
            if start - reached >= target_bytes and index > cuts[-1]:
                cuts.append(index)
                reached = start
        if cuts[-1] != len(self):
            cuts.append(len(self))
        return [DocumentRange(Cursor(0, start), Cursor(0, stop)) for start, stop in pairwise(cuts)]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            JaxLMError: a file is damaged; it and the document are named.
        """
        index = len(self) if start.file else start.offset
        last = len(self) if stop is None or stop.file else min(stop.offset, len(self))
        while index < last:
            after = min(index + READ_AT_ONCE, last)
            for document in self.read_batch(range(index, after)):
                index += 1
                yield Cursor(0, index), document

    def _place(self, index: int) -> tuple[int, int]:
        """The file of a document, and its number there."""
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name}: no document {index}; it holds {len(self):,}")
        file = bisect_right(self._firsts, index) - 1
        return file, index - self._firsts[file]

    def _numbered(self, file: int, numbers: list[int]) -> Iterator[tuple[int, Document]]:
        opened = self._connections.file(file)
        numbers.sort()
        for begin in range(0, len(numbers), VALUES_A_QUERY):
            part = numbers[begin : begin + VALUES_A_QUERY]
            if part[-1] - part[0] + 1 == len(part):
                condition, values = "id BETWEEN ? AND ?", [part[0], part[-1]]
            else:
                condition, values = f"id IN ({','.join('?' * len(part))})", part
            query = f"SELECT id, body FROM documents WHERE {condition}"
            rows = sorted(opened.rows(query, values), key=itemgetter(0))
            if [number for number, _ in rows] != part:
                raise self._missing(file, min({*part} - {number for number, _ in rows}))
            for number, body in rows:
                yield number, opened.document(number, body)

    def _missing(self, file: int, number: int) -> JaxLMError:
        path = self.files[file].path
        return JaxLMError(f"{path}: damaged, document {number} of this file is missing")

    def _boundaries(self, target_bytes: int) -> Iterator[tuple[int, int]]:
        """Indices at which a range may begin, each with the bytes of text before it."""
        before = 0
        for file, (first, counts) in enumerate(
            zip(self._firsts, (file.counts for file in self.files), strict=False)
        ):
            opened = self._connections.file(file)
            yield first, before
            if target_bytes >= FINE_RANGES:
                for number, start in opened.each_row("SELECT id, start FROM marks ORDER BY id"):
                    yield first + number, before + start
            else:
                reached = before
                for number, size in opened.each_row("SELECT id, size FROM documents ORDER BY id"):
                    reached += size
                    yield first + number + 1, reached
            before += counts.num_bytes


def open_sqlite(place: str, options: object = None) -> SqliteStore:
    """Open the store that ``sqlite:PLACE`` names.

    Args:
        place: a file, a directory (its ``.db`` files) or a glob; files count in the order of
            their names. The scheme may stand before it.
        options: what the user wrote after a question mark; a store takes none.

    Raises:
        JaxLMError: nothing is there, or something else than finished files of a store.
        UsageError: an option is given.
    """
    place = place.removeprefix("sqlite:")
    if isinstance(options, Mapping) and options:
        raise UsageError(
            f"sqlite:{place}: unknown option {next(iter(options))!r}; the documents of a store "
            "know their text and subset already, so it takes none"
        )
    return SqliteStore(f"sqlite:{place}", [read_store_file(path) for path in store_paths(place)])


def store_paths(place: str) -> list[Path]:
    """The files that a place names, in their order.

    Raises:
        JaxLMError: there is none.
    """
    path = Path(place)
    if path.is_dir():
        found = sorted(p for p in path.glob(f"*{SUFFIX}") if not p.name.startswith(("_", ".")))
    elif path.exists():
        found = [path]
    else:
        found = [Path(name) for name in sorted(glob.glob(place))]  # noqa: PTH207
    if not found:
        what = f"no {SUFFIX} file in this directory" if path.is_dir() else "no such file"
        raise JaxLMError(
            f"sqlite:{place}: {what}; make one with jax-lm documents build SPEC --output PLACE"
        )
    return found


def read_store_file(path: Path) -> StoreFile:
    """What a finished file says about itself.

    Raises:
        JaxLMError: it is another file, unfinished, damaged or of another version.
    """
    header = read_header(path)
    with damage_named(path):
        connection = connect_to_read(path)
        try:
            version, counts = (read_meta(connection, key) for key in ("format_version", "counts"))
        except ValueError as error:
            raise JaxLMError(f"{path}: damaged, its `meta` table is not JSON") from error
        finally:
            connection.close()
    if version != FORMAT_VERSION:
        raise JaxLMError(
            f"{path}: format version {version}; this jax-lm reads version {FORMAT_VERSION}"
        )
    if counts is None:
        raise JaxLMError(
            f"{path}: not finished; give the command that began it again, and it goes on"
        )
    return StoreFile(path, header, Counts.from_json(counts))
