"""Open files of a store: one connection for each process and thread, so that none is shared."""

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jax_lm.documents.stores.payload import decode_document
from jax_lm.documents.stores.sqlite_file import (
    Header,
    check_zstandard,
    connect_to_read,
    read_header,
    read_meta,
)
from jax_lm.errors import JaxLMError
from jax_lm.types import Document

OPEN_FILES = 64
"""Of one thread; beyond it the file used longest ago is closed."""
REMEDY = "`jax-lm documents verify` names what is damaged; build the file again or take a copy"


class OpenFile:
    """One connection to one file, and what turns its rows into documents."""

    def __init__(self, path: Path, header: Header):
        check_zstandard()
        import zstandard

        if read_header(path) != header:
            raise JaxLMError(f"{path}: another file than the one that was opened; open it anew")
        self.path = path
        with damage_named(path):
            self._connection = connect_to_read(path)
            dictionary = read_meta(self._connection, "dictionary") or b""
        data = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._decompressor = zstandard.ZstdDecompressor(dict_data=data)
        self._error = zstandard.ZstdError

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a query finds.

        Raises:
            JaxLMError: the file is damaged; it is named.
        """
        with damage_named(self.path):
            return self._connection.execute(query, values).fetchall()

    def each_row(self, query: str) -> Iterator[Any]:
        """What a query finds, one row at a time."""
        with damage_named(self.path):
            yield from self._connection.execute(query)

    def document(self, number: int, body: bytes) -> Document:
        """A row's body as the document it holds.

        Args:
            number: of the document within the file, for the error.
            body: what the row holds.

        Raises:
            JaxLMError: the body is damaged.
        """
        try:
            return decode_document(self._decompressor.decompress(body))
        except (self._error, ValueError, LookupError, TypeError) as error:
            raise JaxLMError(
                f"{self.path}: document {number} of this file is damaged ({error}); {REMEDY}"
            ) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Connections:
    """Files that each thread of each process opens for itself."""

    def __init__(self, files: Sequence[tuple[Path, Header]]):
        self._files = tuple(files)
        # Kept by number and not in thread-local storage: after a fork, connections of threads
        # that are gone must not be closed by the child, for their locks may be held for ever.
        self._open: dict[tuple[int, int], OrderedDict[int, OpenFile]] = {}

    def __getstate__(self) -> tuple[tuple[Path, Header], ...]:
        """What travels to another process: no connection."""
        return self._files

    def __setstate__(self, files: tuple[tuple[Path, Header], ...]) -> None:
        """Begin without a connection."""
        self._files = files
        self._open = {}

    def file(self, index: int) -> OpenFile:
        """The open file ``index`` of this thread."""
        mine = self._open.setdefault((os.getpid(), threading.get_ident()), OrderedDict())
        if index not in mine:
            mine[index] = OpenFile(*self._files[index])
            if len(mine) > OPEN_FILES:
                mine.popitem(last=False)[1].close()
        mine.move_to_end(index)
        return mine[index]


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn SQLite's complaint about a damaged file into a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise JaxLMError(f"{path}: damaged or unreadable ({error}); {REMEDY}") from error
