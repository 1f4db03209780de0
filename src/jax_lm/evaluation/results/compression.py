"""What general compressors reach on the same texts: a yardstick for bits per byte."""

import lzma
import zlib
from collections.abc import Callable, Mapping

COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "zlib -9": lambda data: zlib.compress(data, 9),
    "xz -9": lambda data: lzma.compress(data, preset=9),
}
MAX_BYTES = 64_000_000
"""Beyond this the yardstick is not worth its time."""


class CompressionYardstick:
    """Sizes of documents, each compressed on its own; headers count, as they would in a file."""

    def __init__(self) -> None:
        """Nothing compressed yet."""
        self._sizes = dict.fromkeys(COMPRESSORS, 0)
        self._num_bytes = 0

    def add(self, text: str) -> None:
        """Compress one more document, unless there have been too many bytes."""
        data = text.encode()
        self._num_bytes += len(data)
        if self._num_bytes <= MAX_BYTES:
            for name, compress in COMPRESSORS.items():
                self._sizes[name] += len(compress(data))

    def bits_per_byte(self) -> dict[str, float]:
        """Bits per UTF-8 byte by compressor; empty where there was nothing or too much."""
        if not 0 < self._num_bytes <= MAX_BYTES:
            return {}
        return {name: 8 * size / self._num_bytes for name, size in self._sizes.items()}
