"""A tokenizer whose ids are bytes, and a source that counts what is read."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from jax_lm.documents.base import Cursor, DocumentRange, RejectedRecord
from jax_lm.tokenizers.base import Encoded
from jax_lm.types import Document, Segment

EOS = 256
READS: list[int] = []
"""Places of the documents that were read; emptied by the fixture ``made``."""


@dataclass(frozen=True)
class ByteTokenizer:
    """Ids 0 to 255 are bytes; 256 is EOS unless ``eos`` is False, 257 spells nothing."""

    eos: bool = True
    bos_id: int | None = None
    pad_id: int | None = None
    vocab_size: int = 258
    engine: str = "tokenizers"

    def use(self, engine: str) -> "ByteTokenizer":
        return self

    @property
    def eos_id(self) -> int | None:
        return EOS if self.eos else None

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset({256, 257})

    def encode_batch(self, texts: Sequence[str], *, parse_special: bool = False) -> Encoded:
        data = [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in texts]
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in data], dtype=np.int64)])
        ids = np.concatenate([*data, np.array([], np.int32)])
        return Encoded(ids, offsets, self.token_byte_lengths()[ids])

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")

    def token_byte_lengths(self) -> np.ndarray:
        return np.array([1] * 256 + [0, 0], np.int32)

    def token_text(self, token_id: int) -> str:
        return {256: "<eos>", 257: "<other>"}.get(token_id, chr(token_id))

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "bytes.txt").write_text(repr(self))


def load_bytes(directory: Path, engine: str = "tokenizers") -> ByteTokenizer:
    """Stands in for ``load_tokenizer``."""
    kinds = {repr(kind): kind for kind in (ByteTokenizer(), ByteTokenizer(eos=False))}
    return kinds[(directory / "bytes.txt").read_text()]


@dataclass
class ListSource:
    """Documents in memory; one shard holds ``target_bytes`` bytes of them."""

    documents: list[Document]
    name: str = "list"
    error_at: tuple[int, Exception] | None = None
    rejects: list[RejectedRecord] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self.documents).encode()).hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        cuts, size = [0], 0
        for place, document in enumerate(self.documents, start=1):
            size += len(document.text.encode())
            if size >= target_bytes or place == len(self.documents):
                cuts, size = [*cuts, place], 0
        pairs = pairwise(cuts)
        return [DocumentRange(Cursor(0, a), Cursor(0, b)) for a, b in pairs]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        end = len(self.documents) if stop is None else stop.offset
        for place in range(start.offset, end):
            READS.append(place)
            if self.error_at is not None and place == self.error_at[0]:
                raise self.error_at[1]
            record = self.documents[place]
            if record.id.startswith("bad"):
                self.rejects.append(RejectedRecord("list", place + 1, "bad record", record.text))
            else:
                yield Cursor(0, place + 1), record


def document(*pieces: str | tuple[str, float], subset: str = "", name: str = "here:1") -> Document:
    segments = tuple(Segment(p) if isinstance(p, str) else Segment(*p) for p in pieces)
    return Document(segments, name, subset)
