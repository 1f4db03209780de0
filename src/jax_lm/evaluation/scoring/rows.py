"""Held-out numbers over feature rows, as they are logged during training."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int

from jax_lm.evaluation.scoring.score_batch import pad_rows, score_batch
from jax_lm.evaluation.scoring.scores import Scores, token_sums
from jax_lm.evaluation.scoring.tally import BYTES, Tally
from jax_lm.loading.rows import RowStore
from jax_lm.models.forward import Model
from jax_lm.objectives.base import Objective, RowDraws
from jax_lm.sharding.placing import batch_sharding, put_batch
from jax_lm.types import Batch


@dataclass(frozen=True, kw_only=True)
class RowScorer:
    """Scores feature rows; the numbers do not depend on the batch size."""

    objective: Objective
    """Turns rows into targets; what it draws depends on the row alone, so numbers compare."""
    byte_lengths: Int[np.ndarray, "vocab"] | None
    """UTF-8 bytes each id spells, 0 for those whose -log p counts in no bits per byte; None: the
    targets are not the rows' text, and there are no bits per byte."""
    whole_rows: bool = True
    """Every target that a row has a byte count for is scored; else the scored ids are counted."""
    mesh: Mesh
    batch_size: int
    """Rows scored at once; a multiple of the parts that the mesh splits them into."""
    dtype: str = "float32"
    """Of the model's computation."""

    def score(
        self,
        model: Model,
        rows: RowStore,
        *,
        max_rows: int | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, Scores]:
        """Scores of every subset.

        Args:
            model: on the mesh, replicated or in shards.
            rows: held-out rows.
            max_rows: score only the first so many.
            should_stop: asked between batches; True ends early.
        """
        return self.tally(model, rows, max_rows=max_rows, should_stop=should_stop).scores()

    def tally(
        self,
        model: Model,
        rows: RowStore,
        *,
        max_rows: int | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        advance: Callable[[int], None] = lambda scored: None,
    ) -> Tally:
        """The sums of every row.

        Args:
            model: as for ``score``.
            rows: as for ``score``.
            max_rows: as for ``score``.
            should_stop: as for ``score``.
            advance: told the number of rows scored after every batch.
        """
        num_rows = min(len(rows), max_rows or len(rows))
        tally = Tally()
        for start in range(0, num_rows, self.batch_size):
            if should_stop():
                break
            indices = np.arange(start, min(start + self.batch_size, num_rows))
            batch = self.objective(rows.take(indices), RowDraws(0, indices))
            losses, correct = self._losses(model, batch)
            sums = token_sums(
                losses, correct, batch.loss_mask, self._spelled(np.asarray(batch.targets))
            )
            if self.byte_lengths is not None and self.whole_rows:
                # Exact also where a normalizer changed the text that the ids no longer spell.
                sums[:, BYTES] = rows.num_bytes(indices)
            names = (rows.subsets[subset] for subset in rows.subset_ids(indices))
            tally.add(np.array([tally.begin(name) for name in names]), sums)
            advance(len(indices))
        return tally

    def _spelled(self, targets: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
        if self.byte_lengths is None:
            return np.zeros_like(targets)
        return np.asarray(self.byte_lengths[targets])

    def _losses(self, model: Model, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        padded = put_batch(pad_rows(batch, self.batch_size), batch_sharding(self.mesh))
        losses, correct = jax.device_get(score_batch(model, padded, dtype=self.dtype))
        rows = len(batch.input_ids)
        return losses[:rows], correct[:rows]
