"""Which documents of a source to leave out, since they came before: two passes over all shards."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jax_lm.documents.base import DocumentSource
from jax_lm.files.atomic import replacing
from jax_lm.preprocessing.deduplication.finding import find_duplicates
from jax_lm.preprocessing.deduplication.signatures import compared_text, signatures
from jax_lm.preprocessing.partial import Say
from jax_lm.preprocessing.shard_work import write_each
from jax_lm.preprocessing.shards import Run, Shard
from jax_lm.types import Document


@dataclass(frozen=True, kw_only=True)
class SignatureWriting:
    """First pass, on Beam's workers: what copies are recognised by; picklable."""

    source: DocumentSource
    folder: Path
    near: bool

    def write(self, run: Run) -> int:
        """Write each shard's signatures, unless they are there; returns how many shards.

        Raises:
            OSError: not even a failure can be recorded.
        """
        return write_each(run, self.folder, self.source, self._write)

    def _write(self, shard: Shard, source: DocumentSource) -> None:
        path = _signatures_path(self.folder, shard.index)
        if path.exists():
            return
        documents = source.read(shard.range.start, shard.range.stop)
        found = signatures((compared_text(document) for _, document in documents), near=self.near)
        _save(path, found)


def mark_copies(folder: Path, shards: Sequence[Shard], *, near: bool, say: Say) -> None:
    """Second pass, in one process: note which documents of each shard are copies."""
    paths = [_signatures_path(folder, shard.index) for shard in shards]
    duplicates = find_duplicates([np.load(path, mmap_mode="r") for path in paths], near=near)
    for shard, found in zip(shards, duplicates, strict=True):
        marks = np.zeros(len(found.ordinals), [("ordinal", "<i8"), ("exact", "?")])
        marks["ordinal"], marks["exact"] = found.ordinals, found.exact
        _save(_marks_path(folder, shard.index), marks)
    exact = sum(int(found.exact.sum()) for found in duplicates)
    total = sum(len(found.ordinals) for found in duplicates)
    copies = f"{exact:,} exact" + (f" and {total - exact:,} near" if near else "")
    say(f"leaving out {copies} copies of documents that came before")


def without_copies(
    documents: Iterator[Document], folder: Path, shard: Shard, dropped: Counter[str]
) -> Iterator[Document]:
    """A shard's documents but the ones marked, which are counted in ``dropped``."""
    marks = np.load(_marks_path(folder, shard.index))
    reasons = np.where(marks["exact"], "exact copy", "near copy").tolist()
    left_out = dict(zip(marks["ordinal"].tolist(), reasons, strict=True))
    for ordinal, document in enumerate(documents):
        if ordinal in left_out:
            dropped[left_out[ordinal]] += 1
        else:
            yield document


def _save(path: Path, array: np.ndarray) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)


def _signatures_path(folder: Path, index: int) -> Path:
    return folder / f"shard-{index:05d}.signatures.npy"


def _marks_path(folder: Path, index: int) -> Path:
    return folder / f"shard-{index:05d}.copies.npy"
