"""A file -> the bytes of its records, from any position: whole, or line by line."""

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from jax_lm.documents.files.line_numbers import LineNumbers
from jax_lm.documents.files.stored import DataFile, ForwardReader
from jax_lm.errors import JaxLMError

BLANK = b" \t\r\n\v\f"
LONGEST_LINE = 1 << 30
"""Bytes; a record has to fit into memory, and a file without newlines need not."""


class RawRecord(NamedTuple):
    """A record's bytes and where they stand."""

    file: DataFile
    numbers: LineNumbers
    offset: int
    """Unpacked byte of the file at which the record begins."""
    stop: int | None
    """Unpacked byte of the file after the record; None: the record ends with its file."""
    data: bytes

    @property
    def id(self) -> str:
        """``FILE@OFFSET``."""
        return f"{self.file.name}@{self.offset}"


class Cut(NamedTuple):
    """A position between two records at which a range may begin."""

    offset: int
    follows: bool
    """The position is reached only by reading what comes before it."""


Cuts = Generator[Cut, None, int]
"""Cuts in order; the generator's return value is the number of bytes after the last one."""


def whole_file(file: DataFile, start: int, stop: int | None) -> Iterator[RawRecord]:
    """The file as one record; it has no position but its beginning."""
    if start == 0 and stop != 0:
        with LineNumbers(file) as numbers, file.open() as stream:
            yield RawRecord(file, numbers, 0, None, stream.read())


def no_cuts(file: DataFile, room: int, target: int) -> Cuts:
    """A file that is one record is never cut."""
    yield from ()
    return file.estimated_size()


def lines(file: DataFile, start: int, stop: int | None) -> Iterator[RawRecord]:
    """The lines that begin from ``start`` up to ``stop`` and are not blank, with their newline.

    Raises:
        JaxLMError: a line is longer than a gibibyte.
    """
    with LineNumbers(file) as numbers, file.open(start) as stream:
        offset = start
        while (stop is None or offset < stop) and (line := stream.readline(LONGEST_LINE)):
            after = offset + len(line)
            if len(line) == LONGEST_LINE:
                raise JaxLMError(
                    f"{file.shown}: the line at byte {offset:,} is longer than {LONGEST_LINE:,} "
                    "bytes; is it a file of lines?"
                )
            if line.strip(BLANK):
                yield RawRecord(file, numbers, offset, after, line)
            offset = after


def line_cuts(file: DataFile, room: int, target: int) -> Cuts:
    """Cut before the first line that begins ``room`` bytes on, then ``target`` bytes each.

    A file that can be read from anywhere is not read through.
    """
    if not file.sequential and file.stored.size() <= room:
        return file.stored.size()
    start = 0
    with ForwardReader(file) as reader:
        while True:
            reader.skip_to(start + room - 1)
            reader.skip_line()
            if reader.at_end():
                return reader.skip_to_end() - start
            yield Cut(reader.position, file.sequential)
            start, room = reader.position, target


def cuts_between(stops: Iterable[int], file: DataFile, room: int, target: int) -> Cuts:
    """Cut after records, told where each of them stops."""
    start = position = 0
    for stop in stops:
        if position - start >= room:
            yield Cut(position, file.sequential)
            start, room = position, target
        position = stop
    return position - start
