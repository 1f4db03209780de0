"""What the rows of a shard add up to, counted as they pass."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from jax_lm.preprocessing.cutting.base import FeatureRows


@dataclass
class Tally:
    """Sums over the parts of a shard's rows; ``counts`` are fields of ``ShardResult``."""

    kind: str
    """Of the targets; what is asked for until there are any."""
    counts: Counter[str] = field(default_factory=Counter)
    row_length: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    subset_rows: Counter[int] = field(default_factory=Counter)
    """Rows of each subset, by its index."""

    def __post_init__(self) -> None:
        """Every count is there, also where nothing passes."""
        for name in ("rows", "tokens", "targets", "padding", "num_bytes", "cut_off"):
            self.counts[name] = 0

    def counting(self, parts: Iterable[FeatureRows]) -> Iterator[FeatureRows]:
        """The parts that have any row, with all of them counted."""
        for part in parts:
            self._add(part)
            if len(part.num_bytes):
                yield part

    def _add(self, part: FeatureRows) -> None:
        ids, lengths = part.rows.input_ids, part.rows.lengths
        self.kind, self.row_length = part.kind, ids.shape[1]
        self.dropped.update(part.dropped)
        self.subset_rows.update(dict(enumerate(np.bincount(part.subset_ids).tolist())))
        self.counts.update(
            rows=len(ids),
            tokens=part.tokens,
            targets=part.targets,
            padding=ids.size - int(lengths.sum()),
            num_bytes=int(part.num_bytes.sum()),
            cut_off=part.cut_off,
        )
