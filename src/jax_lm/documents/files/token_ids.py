"""``.bin``: a flat file of token ids, as nanoGPT's ``prepare.py`` writes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jax_lm.documents.files.splitting import Cut, Cuts
from jax_lm.documents.files.stored import DataFile
from jax_lm.errors import JaxLMError
from jax_lm.types import Document, Segment

TokenType = Literal["uint16", "uint32"]
END_OF_TEXT = 50256
"""GPT-2's, which nanoGPT puts behind every document."""
BLOCK_TOKENS = 1 << 20


@dataclass(frozen=True)
class TokenRecord:
    """Ids between two separators, which are not among them."""

    file: DataFile
    start: int
    stop: int
    """The token after the separator that ends the document."""
    ids: np.ndarray


@dataclass(frozen=True)
class TokenFormat:
    """Documents of a flat file of ids; a cursor's offset counts tokens.

    A document ends behind each separator, which is taken away. Where none stands in a whole
    block of 2**20 tokens (a file without separators, say) the document ends with that block, so
    that pieces are bounded and depend on nothing but the file. Empty documents, as between two
    separators, are not read.
    """

    dtype: TokenType = "uint16"
    separator: int = END_OF_TEXT

    def cuts(self, file: DataFile, room: int, target: int) -> Cuts:
        """Cut at the first document that begins ``room`` bytes on, then ``target`` bytes each."""
        width = np.dtype(self.dtype).itemsize
        size = self._num_tokens(file)
        start = 0
        while (size - start) * width > room:
            cut = next(self._ends(file, start + -(-room // width)), size)
            if cut >= size:
                break
            yield Cut(cut, file.sequential)
            start, room = cut, target
        return (size - start) * width

    def records(self, file: DataFile, start: int, stop: int | None) -> Iterator[TokenRecord]:
        """The documents that begin from ``start`` up to ``stop``."""
        width = np.dtype(self.dtype).itemsize
        with file.open(start * width) as stream:
            for end in self._ends(file, start + 1):
                if stop is not None and start >= stop:
                    return
                ids = self._decoded(stream.read((end - start) * width))
                if len(ids) and ids[-1] == self.separator:
                    ids = ids[:-1]
                if len(ids):
                    yield TokenRecord(file, start, end, ids.astype(np.int32))
                start = end

    def document(self, record: TokenRecord) -> Document:
        """The ids as a document without text."""
        identity = f"{record.file.name}@{record.start}"
        return Document((Segment("", ids=record.ids),), identity)

    def _ends(self, file: DataFile, offset: int) -> Iterator[int]:
        """Ends of documents, in tokens, at or after ``offset``, up to the file's end."""
        width = np.dtype(self.dtype).itemsize
        size = self._num_tokens(file)
        block = max(offset - 1, 0) // BLOCK_TOKENS * BLOCK_TOKENS
        with file.open(block * width) as stream:
            while block < size:
                ids = self._decoded(stream.read(BLOCK_TOKENS * width))
                ends = np.flatnonzero(ids == self.separator) + 1 + block
                if not len(ends):
                    ends = np.array([block + len(ids)])
                elif block + len(ids) == size and ends[-1] < size:
                    ends = np.append(ends, size)
                yield from ends[ends >= offset].tolist()
                block += BLOCK_TOKENS

    def _decoded(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, np.dtype(self.dtype).newbyteorder("<"))

    def _num_tokens(self, file: DataFile) -> int:
        width = np.dtype(self.dtype).itemsize
        size = file.stored.size()
        if size % width:
            raise JaxLMError(
                f"{file.shown}: {size:,} bytes are no whole number of {self.dtype} ids; a file "
                "of other ids is read with ?dtype=uint32"
            )
        return size // width
