"""Held-out numbers over feature rows, as they are logged during training."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int

from jax_lm.evaluation.score_batch import pad_rows, score_batch
from jax_lm.evaluation.scores import Scores, sum_scores
from jax_lm.loading.rows import RowStore
from jax_lm.models.gpt2 import GPT2
from jax_lm.objectives.base import Objective
from jax_lm.sharding import batch_sharding, put_batch
from jax_lm.types import Batch


@dataclass(frozen=True, kw_only=True)
class RowScorer:
    """Scores feature rows; the numbers do not depend on the batch size."""

    objective: Objective
    """Turns rows into targets."""
    byte_lengths: Int[np.ndarray, "vocab"]
    """UTF-8 bytes each id spells, 0 for those whose -log p counts in no bits per byte."""
    mesh: Mesh
    batch_size: int
    """Rows scored at once; a multiple of the devices."""
    dtype: str = "float32"
    """Of the model's computation."""

    def score(
        self,
        model: GPT2,
        rows: RowStore,
        *,
        max_rows: int | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, Scores]:
        """Scores of every subset.

        Args:
            model: replicated over the mesh.
            rows: held-out rows.
            max_rows: score only the first so many.
            should_stop: asked between batches; True ends early.
        """
        num_rows = min(len(rows), max_rows or len(rows))
        scores: dict[str, Scores] = {}
        for start in range(0, num_rows, self.batch_size):
            if should_stop():
                break
            indices = np.arange(start, min(start + self.batch_size, num_rows))
            batch = self.objective(rows.take(indices))
            losses, correct = self._losses(model, batch)
            subset_ids = rows.subset_ids(indices)
            for subset in np.unique(subset_ids):
                here = subset_ids == subset
                name = rows.subsets[subset]
                part = sum_scores(
                    losses[here],
                    correct[here],
                    batch.loss_mask[here],
                    self.byte_lengths[batch.targets[here]],
                )
                # Exact also where a normalizer changed the text that the ids no longer spell.
                num_bytes = int(rows.num_bytes(indices[here]).sum(dtype=np.int64))
                scores[name] = scores.get(name, Scores()) + replace(part, num_bytes=num_bytes)
        return scores

    def _losses(self, model: GPT2, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        padded = [pad_rows(array, self.batch_size) for array in (batch.input_ids, batch.targets)]
        inputs, targets = put_batch(padded, batch_sharding(self.mesh))
        losses, correct = jax.device_get(score_batch(model, inputs, targets, dtype=self.dtype))
        rows = len(batch.input_ids)
        return losses[:rows], correct[:rows]
