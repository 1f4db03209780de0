"""A file -> the bytes of its records, from any position: whole, or line by line."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLANK = b" \t\r\n\v\f"


class RawRecord(NamedTuple):
    """A record's bytes and where they stand."""

    path: Path
    name: str
    """The file's name within its source."""
    offset: int
    """Byte of the file at which the record begins."""
    stop: int | None
    """Byte of the file after the record; None: the record ends with its file."""
    data: bytes


def whole_file(path: Path, name: str, start: int, stop: int | None) -> Iterator[RawRecord]:
    """The file as one record; it has no position but its beginning."""
    if start == 0 and stop != 0:
        yield RawRecord(path, name, 0, None, path.read_bytes())


def no_boundary(path: Path, offset: int) -> int | None:
    """A file that is one record is never cut."""
    return None


def lines(path: Path, name: str, start: int, stop: int | None) -> Iterator[RawRecord]:
    """The lines that begin from ``start`` up to ``stop`` and are not blank, with their newline."""
    with path.open("rb") as file:
        file.seek(start)
        offset = start
        while (stop is None or offset < stop) and (line := file.readline()):
            after = offset + len(line)
            if line.strip(BLANK):
                yield RawRecord(path, name, offset, after, line)
            offset = after


def next_line(path: Path, offset: int) -> int | None:
    """The first beginning of a line at or after ``offset`` (above 0), None at the file's end."""
    with path.open("rb") as file:
        file.seek(offset - 1)
        file.readline()
        boundary = file.tell()
        return boundary if file.read(1) else None
