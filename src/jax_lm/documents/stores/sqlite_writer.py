"""Builds the files of an SQLite store under a temporary name, and goes on after a kill.

One SQLite transaction holds a step's documents and the cursor after it; SQLite rolls back the one
that a kill cut short. The pages of a file follow from its transactions alone, so the finished file
is the same, byte for byte, wherever the build was interrupted.
"""

import errno
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from jax_lm.documents.stores.building import Plan, Say, Step, plan_differences
from jax_lm.documents.stores.counts import Counts, Progress, beginning
from jax_lm.documents.stores.partial_files import PartialFiles
from jax_lm.documents.stores.payload import encode_document
from jax_lm.documents.stores.sqlite_file import (
    FORMAT_VERSION,
    check_zstandard,
    connect_to_build,
    create_tables,
    prepare_pages,
    read_meta,
    seal,
    write_meta,
)
from jax_lm.errors import JaxLMError

MARK_BYTES = 256 << 10
"""Bytes of text between two marks."""
UNLIMITED = 1 << 62
ALL_CORES = -1
NO_ROOM = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
NO_ROOM_SAID = ("disk is full", "disk I/O error")


class SqliteWriter:
    """Writes one file, or a directory of files with a given number of documents each."""

    def __init__(
        self,
        output: Path,
        plan: Plan,
        train: Callable[[], bytes],
        *,
        level: int,
        documents_a_file: int | None,
        say: Say,
    ):
        """Nothing is read or written yet.

        Args:
            output: the file, or with ``documents_a_file`` the directory, to make.
            plan: what decides the bytes; unfinished files of another plan are discarded.
            train: gives the dictionary, where none is there yet.
            level: of zstd's compression.
            documents_a_file: None for one file.
            say: is told what is continued or discarded.
        """
        self.plan = plan
        self._partial = PartialFiles(output)
        self._train = train
        self._level = level
        self._documents_a_file = documents_a_file
        self._say = say
        self._dictionary = b""
        self._progress = beginning()
        self._connection: sqlite3.Connection | None = None

    def begin(self) -> Progress:
        """What an earlier run left in the temporary folder, or the beginning.

        Raises:
            JaxLMError: another process writes the same output, or the disk is full.
        """
        check_zstandard()
        with self._full_disk_named():
            self._partial.take()
            if not self._resume():
                self._partial.clear()
                self._dictionary = self._train()
                self._open_file(0)
        return self._progress

    def room(self) -> int:
        """How many documents the next step may hold."""
        if self._documents_a_file is None:
            return UNLIMITED
        return self._documents_a_file - self._counts.documents or self._documents_a_file

    def encode(self, step: Step) -> Sequence[bytes]:
        """The documents, each compressed on its own, in parallel; counts their bytes."""
        import zstandard

        if not step.documents:
            return []
        data = zstandard.ZstdCompressionDict(self._dictionary) if self._dictionary else None
        compressor = zstandard.ZstdCompressor(
            level=self._level, dict_data=data, write_checksum=True, write_dict_id=False
        )
        compressed = compressor.multi_compress_to_buffer(
            [encode_document(document) for document in step.documents], threads=ALL_CORES
        )
        bodies = [compressed[index].tobytes() for index in range(len(compressed))]
        step.counts.stored_bytes = sum(map(len, bodies))
        return bodies

    def write(self, step: Step, encoded: Sequence[bytes], progress: Progress) -> None:
        """Add a step and the progress after it in one transaction.

        Raises:
            JaxLMError: the disk is full; the same command goes on later.
        """
        with self._full_disk_named():
            if step.documents and self._counts.documents == self._documents_a_file:
                self._close_file()
                self._open_file(self._index + 1)
            with self._transaction():
                self._insert(step, encoded)
                self._counts.merge(step.counts)
                write_meta(self._database, "unfinished", self._counts.as_json())
                write_meta(self._database, "progress", progress.as_json())
        self._progress = progress

    def finish(self, progress: Progress) -> None:
        """Seal the last file and give the store its name."""
        with self._full_disk_named():
            self._close_file()
            self._partial.publish(
                as_directory=self._documents_a_file is not None,
                has_rejected=progress.counts.rejected > 0,
            )

    def close(self) -> None:
        """Let go of the files, finished or not."""
        if self._connection is not None:
            self._connection.close()
        self._partial.release()

    @property
    def _database(self) -> sqlite3.Connection:
        assert self._connection is not None, "begin comes first"
        return self._connection

    def _resume(self) -> bool:
        """Open the newest file of an earlier run of the same plan, if there is one."""
        for path in reversed(self._partial.files()):
            connection = connect_to_build(path)
            try:
                plan = read_meta(connection, "plan")
            except (sqlite3.DatabaseError, ValueError) as error:
                connection.close()
                if "no such table" in str(error):  # killed before its first transaction
                    self._partial.remove(path)
                    continue
                self._say(f"discarding a damaged unfinished store in {path.parent}: {error}")
                return False
            if differ := plan_differences(plan, self.plan):
                connection.close()
                self._say(f"discarding an unfinished store in {path.parent}: {'; '.join(differ)}")
                return False
            self._continue(path, connection)
            return True
        return False

    def _continue(self, path: Path, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._index = self._partial.files().index(path)
        self._dictionary = read_meta(connection, "dictionary")
        self._counts = Counts.from_json(read_meta(connection, "unfinished"))
        self._progress = Progress.from_json(read_meta(connection, "progress"))
        done = self._progress.counts.documents
        self._say(f"going on after {done:,} documents that an interrupted build left")

    def _open_file(self, index: int) -> None:
        self._index = index
        self._counts = Counts()
        self._connection = connect_to_build(self._partial.path(index))
        prepare_pages(self._database)
        with self._transaction():
            create_tables(self._database)
            write_meta(self._database, "format_version", FORMAT_VERSION)
            write_meta(self._database, "plan", dict(self.plan))
            write_meta(self._database, "dictionary", self._dictionary)
            write_meta(self._database, "unfinished", self._counts.as_json())
            write_meta(self._database, "progress", self._progress.as_json())

    def _close_file(self) -> None:
        if read_meta(self._database, "counts") is None:
            with self._transaction():
                write_meta(self._database, "counts", self._counts.as_json())
        self._database.close()
        seal(self._partial.path(self._index))

    def _insert(self, step: Step, encoded: Sequence[bytes]) -> None:
        first, start = self._counts.documents, self._counts.num_bytes
        rows = zip(range(first, first + len(encoded)), step.sizes, encoded, strict=True)
        self._database.executemany("INSERT INTO documents VALUES (?, ?, ?)", rows)
        marks = _marks(first, start, step.sizes)
        self._database.executemany("INSERT INTO marks VALUES (?, ?)", marks)
        self._database.executemany(
            "INSERT INTO rejected (file, line, reason, raw) VALUES (?, ?, ?, ?)",
            [tuple(map(_storable, record)) for record in step.rejected],
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # what cannot be rolled back now is when next opened
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _full_disk_named(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            number = getattr(error, "errno", None)
            if number not in NO_ROOM and not str(error).endswith(NO_ROOM_SAID):
                if isinstance(error, OSError):
                    raise
                raise JaxLMError(f"{self._partial.folder}: cannot be written ({error})") from error
            done = self._progress.counts.documents
            raise JaxLMError(
                f"{self._partial.folder}: no room left on the disk ({error}); free some and give "
                f"the same command again: it goes on after {done:,} documents"
            ) from error


def _marks(first: int, start: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Documents before which another ``MARK_BYTES`` of text are complete, and the text before."""
    for number, size in enumerate(sizes, first):
        if (start + size) // MARK_BYTES > start // MARK_BYTES:
            yield number + 1, start + size
        start += size


def _storable(value: object) -> object:
    """SQLite takes no lone surrogates; they become escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value
