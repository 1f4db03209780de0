"""A file wherever it is stored, and its bytes once unpacked."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jax_lm.documents.files.compression import PACKED_RATIO, Compression, unpacked

BLOCK = 1 << 20
READ_AHEAD = 1 << 18


class StoredFile(Protocol):
    """A file as it is stored; picklable, so that workers can open it."""

    @property
    def shown(self) -> str:
        """Where it is, as errors name it: without secrets."""
        ...

    @property
    def seekable(self) -> bool:
        """Whether reading may begin anywhere."""
        ...

    def open(self) -> io.BufferedReader:
        """Open the stored bytes for reading."""
        ...

    def size(self) -> int:
        """Stored bytes."""
        ...

    def stamp(self) -> str:
        """Changes when the content may have changed: a time, an etag, a checksum."""
        ...


@dataclass(frozen=True)
class LocalFile:
    """A file of this machine."""

    path: Path
    seekable = True

    @property
    def shown(self) -> str:
        """Its path as the user would write it."""
        return str(self.path)

    def open(self) -> io.BufferedReader:
        """Open it for reading."""
        return io.BufferedReader(io.FileIO(self.path), READ_AHEAD)

    def size(self) -> int:
        """Its bytes."""
        return self.path.stat().st_size

    def stamp(self) -> str:
        """Its modification time."""
        return str(self.path.stat().st_mtime_ns)


@dataclass(frozen=True)
class DataFile:
    """A stored file seen through its compression: offsets count unpacked bytes."""

    stored: StoredFile
    name: str
    """Its name within the source, which does not change when the corpus moves."""
    compression: Compression | None = None

    @property
    def shown(self) -> str:
        """Where it is, as errors name it."""
        return self.stored.shown

    @property
    def sequential(self) -> bool:
        """Whether an offset is reached only by reading what comes before it."""
        return self.compression is not None or not self.stored.seekable

    def open(self, offset: int = 0) -> io.BufferedReader:
        """Its unpacked bytes from ``offset`` on.

        Raises:
            JaxLMError: on reading, where the compressed file is cut short or corrupt.
        """
        raw = self.stored.open()
        if not self.sequential:
            raw.seek(offset)
            return raw
        try:
            stream = unpacked(raw, self.compression, self.shown) if self.compression else raw
            skip(stream, offset)
        except BaseException:
            raw.close()
            raise
        return stream

    def estimated_size(self) -> int:
        """Unpacked bytes: exact where nothing is packed, else what text usually comes to."""
        size = self.stored.size()
        return size if self.compression is None else size * PACKED_RATIO


def skip(stream: io.BufferedReader, num_bytes: int) -> int:
    """Read and forget up to so many bytes; gives how many there were."""
    left = num_bytes
    while left > 0 and (block := stream.read(min(BLOCK, left))):
        left -= len(block)
    return num_bytes - left


class ForwardReader:
    """A file read from its beginning onward, which knows where it stands."""

    def __init__(self, file: DataFile):
        self._file = file
        self._stream = file.open()
        self.position = 0

    def __enter__(self) -> "ForwardReader":
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def skip_to(self, offset: int) -> None:
        """Go to ``offset``, or to the end where the file is shorter and sequential."""
        if self._file.sequential:
            self.position += skip(self._stream, offset - self.position)
        else:
            self.position = self._stream.seek(offset)

    def read(self, num_bytes: int) -> bytes:
        """The next bytes, fewer only at the end."""
        data = self._stream.read(num_bytes)
        self.position += len(data)
        return data

    def skip_line(self) -> None:
        """Go to the beginning of the next line."""
        while line := self._stream.readline(BLOCK):
            self.position += len(line)
            if line.endswith(b"\n"):
                return

    def at_end(self) -> bool:
        """Whether nothing is left to read."""
        return not self._stream.peek(1)

    def skip_to_end(self) -> int:
        """Go to the end; gives the file's unpacked size."""
        if not self._file.sequential:
            self.position = max(self.position, self._file.stored.size())
        while self._file.sequential and (done := skip(self._stream, BLOCK)):
            self.position += done
        return self.position
