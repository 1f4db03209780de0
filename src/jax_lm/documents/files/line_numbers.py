"""Line numbers of a file's bytes, counted only when an error needs one."""

from jax_lm.documents.files.stored import BLOCK, DataFile, ForwardReader


class LineNumbers:
    """Counts newlines onward from the last question, so many errors cost one reading in all."""

    def __init__(self, file: DataFile):
        self._file = file
        self._reader: ForwardReader | None = None
        self._newlines = 0

    def __enter__(self) -> "LineNumbers":
        return self

    def __exit__(self, *error: object) -> None:
        if self._reader is not None:
            self._reader.__exit__()

    def at(self, offset: int) -> int:
        """The line, counted from 1, that holds the unpacked byte ``offset``."""
        if self._reader is None or self._reader.position > offset:
            self.__exit__()
            self._reader = ForwardReader(self._file)
            self._newlines = 0
        while block := self._reader.read(min(BLOCK, offset - self._reader.position)):
            self._newlines += block.count(b"\n")
        return 1 + self._newlines
