"""The sums of every document, from which those of subsets and all intervals come."""

import numpy as np
from jaxtyping import Float, Int

from jax_lm.evaluation.scoring.scores import SUMS, Scores

FIRST_SIZE = 256
WORDS = SUMS.index("num_words")
BYTES = SUMS.index("num_bytes")


class Tally:
    """Documents (or rows) by number, each with its subset and its sums: 60 bytes a document.

    A document's windows may be scored in any order and in any batches; they add up here.
    """

    def __init__(self) -> None:
        """No documents."""
        self._sums = np.zeros((FIRST_SIZE, len(SUMS)))
        self._subset_ids = np.zeros(FIRST_SIZE, np.int32)
        self._names: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        """Number of documents."""
        return self._count

    def begin(self, subset: str, num_words: int = 0) -> int:
        """The number of one more document.

        Args:
            subset: that it belongs to.
            num_words: of its scored text.
        """
        number = self._count
        if number == len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
            self._subset_ids = np.concatenate([self._subset_ids, np.zeros_like(self._subset_ids)])
        self._subset_ids[number] = self._names.setdefault(subset, len(self._names))
        self._sums[number, WORDS] = num_words
        self._count += 1
        return number

    def add(self, documents: Int[np.ndarray, "rows"], sums: Float[np.ndarray, "rows sums"]) -> None:
        """Add the sums of rows, each to those of its document; one may own several."""
        np.add.at(self._sums, documents, sums)

    @property
    def sums(self) -> Float[np.ndarray, "documents sums"]:
        """Of every document, in the order of ``SUMS``."""
        return self._sums[: self._count]

    def scored(self, subset: str | None = None) -> Float[np.ndarray, "documents sums"]:
        """The sums of the documents with a scored token, of a subset or of all."""
        sums = self.sums
        kept = sums[:, SUMS.index("num_tokens")] > 0
        if subset is not None:
            kept &= self._subset_ids[: self._count] == self._names[subset]
        return sums[kept]

    def scores(self) -> dict[str, Scores]:
        """The sums of every subset, in order of appearance."""
        ids, sums = self._subset_ids[: self._count], self.sums
        return {name: Scores.of(sums[ids == index].sum(0)) for name, index in self._names.items()}
