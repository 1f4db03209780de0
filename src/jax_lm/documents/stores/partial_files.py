"""The temporary folder of a store that is being built, and how its files get their names."""

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from jax_lm.documents.base import RejectedRecord
from jax_lm.errors import JaxLMError

FILE_NAMES = "documents-{:05d}.db"
LOCK = "lock"
REJECTED = "rejected.jsonl"


class PartialFiles:
    """``_NAME.partial`` beside the output; one process at a time holds it."""

    def __init__(self, output: Path):
        """Nothing is read or written yet."""
        self.output = output
        self.folder = output.with_name(f"_{output.name}.partial")
        self._lock: IO[bytes] | None = None

    def take(self) -> None:
        """Make the folder if it is not there, and hold it.

        Raises:
            JaxLMError: another process holds it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / LOCK).open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise JaxLMError(
                f"{self.folder}: another process is building {self.output}; wait for it, or "
                "choose another --output"
            ) from error

    def release(self) -> None:
        """Let others hold the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def files(self) -> list[Path]:
        """The files begun so far, in their order."""
        return sorted(self.folder.glob(FILE_NAMES.replace("{:05d}", "*")))

    def path(self, index: int) -> Path:
        """Where file ``index`` lies while it is built."""
        return self.folder / FILE_NAMES.format(index)

    def remove(self, path: Path) -> None:
        """Take away a file that was never begun in earnest, and its journal."""
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)

    def clear(self) -> None:
        """Take away everything but the lock."""
        for path in self.folder.iterdir():
            if path.name != LOCK:
                path.unlink()

    def publish(self, as_directory: bool, has_rejected: bool) -> None:
        """Move what is here to its final name, whole.

        Args:
            as_directory: the output is a directory of files, not one file.
            has_rejected: records were skipped; they go to ``_NAME.rejected.jsonl``.
        """
        self._publish_rejected(has_rejected)
        old = self.output.with_name(f"_{self.output.name}.old")
        remove(old)
        if self.output.is_dir() or (as_directory and self.output.exists()):
            self.output.replace(old)
        if as_directory:
            (self.folder / LOCK).unlink()
            self.folder.replace(self.output)
        else:
            self.path(0).replace(self.output)
            shutil.rmtree(self.folder, ignore_errors=True)
        _sync_directory(self.output.absolute().parent)
        remove(old)
        self.release()

    def _publish_rejected(self, has_rejected: bool) -> None:
        final = rejected_path(self.output)
        if not has_rejected:
            final.unlink(missing_ok=True)
            return
        write_rejected(final, _rejected(self.files()), self.folder / REJECTED)


def write_rejected(
    path: Path, records: Iterable[RejectedRecord], temporary: Path | None = None
) -> None:
    """Write malformed records as lines of JSON, into a file that appears whole or not at all."""
    temporary = temporary or path.with_name(f".tmp-{path.name}")
    with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for record in records:
            file.write(json.dumps(record._asdict(), ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def rejected_path(output: Path) -> Path:
    """Where the malformed records that a build skipped are kept."""
    return output.with_name(f"_{output.name}.rejected.jsonl")


def remove(path: Path) -> None:
    """Take away a file or a whole directory, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _rejected(files: Iterable[Path]) -> Iterable[RejectedRecord]:
    for path in files:
        connection = sqlite3.connect(path)
        for row in connection.execute("SELECT file, line, reason, raw FROM rejected ORDER BY id"):
            yield RejectedRecord(*row)
        connection.close()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
