"""Packed bytes -> bytes: gzip, xz and zstd, read in bounded memory and checked to their end."""

import io
import lzma
import zlib
from typing import Any, Literal, Protocol, get_args

from jax_lm.errors import JaxLMError, missing_extra

Compression = Literal[".gz", ".xz", ".zst"]
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)
PACKED_RATIO = 3
"""Text is usually packed to about a third."""
PACKED_BLOCK = 1 << 16
UNPACKED_BLOCK = 1 << 20
GZIP_FORMAT = 16 + zlib.MAX_WBITS
LARGEST_WINDOW = 1 << 31
"""What ``zstd --long=31`` needs, the largest that its command line makes."""


class _Member(Protocol):
    """One packed stream; a file may hold several, one after another."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def unpacked(raw: io.BufferedReader, kind: Compression, shown: str) -> io.BufferedReader:
    """The unpacked bytes of a file of any number of members.

    Raises:
        JaxLMError: on reading, where the file ends early or is corrupt; it names ``shown``.
    """
    return io.BufferedReader(_Unpacking(raw, kind, shown), UNPACKED_BLOCK)


class _Unpacking(io.RawIOBase):
    """Unpacks as it is read; the file is at an end only where a member has ended."""

    def __init__(self, raw: io.BufferedReader, kind: Compression, shown: str):
        self._raw, self._kind, self._shown = raw, kind, shown
        self._member = _new_member(kind)
        self._ready = memoryview(b"")
        self._num_bytes = 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readinto(self, target: Any, /) -> int:
        while not self._ready:
            data = self._raw.read(PACKED_BLOCK)
            if not data:
                return self._finished()
            self._unpack(data)
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        self._num_bytes += count
        return count

    def _unpack(self, data: bytes) -> None:
        parts = []
        while data:
            if self._member.eof:
                data = data.lstrip(b"\0")  # padding between members
                if not data:
                    break
                self._member = _new_member(self._kind)
            try:
                parts.append(self._member.decompress(data))
            except Exception as error:  # each library has its own
                raise self._corrupt(error) from error
            data = self._member.unused_data if self._member.eof else b""
        self._ready = memoryview(b"".join(parts))

    def _finished(self) -> int:
        if self._member.eof:
            return 0
        raise JaxLMError(
            f"{self._shown}: the compressed file ends early, after {self._num_bytes:,} bytes of "
            "content; it was cut short, so copy or make it again"
        )

    def _corrupt(self, error: Exception) -> JaxLMError:
        return JaxLMError(
            f"{self._shown}: the compressed file is corrupt after {self._num_bytes:,} bytes of "
            f"content, or no {self._kind} file ({error}); copy or make it again"
        )


def _new_member(kind: Compression) -> _Member:
    if kind == ".gz":
        return zlib.decompressobj(GZIP_FORMAT)
    if kind == ".xz":
        return lzma.LZMADecompressor()
    try:
        import zstandard
    except ImportError as error:
        raise missing_extra("zstandard", "zstd", "reading .zst files") from error
    return zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).decompressobj()
