"""Windows of documents, scored in batches of one or two shapes, and added up by document."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Bool, Int

from jax_lm.evaluation.scoring.score_batch import pad_rows, score_batch
from jax_lm.evaluation.scoring.scores import token_sums
from jax_lm.evaluation.scoring.tally import Tally
from jax_lm.models.forward import Model
from jax_lm.sharding.mesh import row_shards
from jax_lm.sharding.placing import batch_sharding, put_batch
from jax_lm.types import Batch


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How windows are scored; none of it changes the numbers but the dtype."""

    batch_size: int = 16
    """Windows of the whole width scored at once."""
    dtype: str = "float32"
    """Of the model's computation."""
    mesh: Mesh | None = None
    """Whose devices share the windows, and where the model is; None: the default device."""
    advance: Callable[[int], None] = lambda scored: None
    """Told the number of tokens scored after every batch."""


USUAL = Scoring()


class Piece(NamedTuple):
    """One window, ready to be scored."""

    document: int
    """Its number in the tally."""
    row: Batch
    """Arrays without the axis of rows."""
    num_bytes: Int[np.ndarray, "targets"]
    """UTF-8 bytes that each target stands for."""
    is_text: Bool[np.ndarray, "targets"]
    """Targets that are text; a token that only marks a space before the text has no bytes."""
    places: Int[np.ndarray, "targets"] | None = None
    """Position of each target's hidden state; None: the targets are those of all positions."""


class _Waiting(NamedTuple):
    """A batch on its way: the device may still be computing."""

    pieces: Sequence[Piece]
    stacked: Piece
    found: Any


class PieceScorer:
    """Collects windows of each width into batches and adds what they score to a tally.

    The device computes one batch while the next is cut. The numbers do not depend on the batch
    size or on the devices: a row's sums are its own.
    """

    def __init__(
        self,
        model: Model,
        tally: Tally,
        lengths: Sequence[int],
        scoring: Scoring,
    ) -> None:
        """Score with a model.

        Args:
            model: where a mesh is given, on it.
            tally: gets the sums.
            lengths: widths of the windows, the widest last; batches of the others have as many
                more rows as they are narrower.
            scoring: how.
        """
        self._model, self._tally, self._scoring = model, tally, scoring
        mesh, size = scoring.mesh, scoring.batch_size
        self._sharding = None if mesh is None else batch_sharding(mesh)
        parts = 1 if mesh is None else row_shards(mesh)
        self._rows = {
            length: -(-size * (lengths[-1] // length) // parts) * parts for length in lengths
        }
        self._collected: dict[int, list[Piece]] = {length: [] for length in lengths}
        self._waiting: _Waiting | None = None

    def add(self, piece: Piece) -> None:
        """Score a window, once there are enough of its width."""
        length = len(piece.row.input_ids)
        self._collected[length].append(piece)
        if len(self._collected[length]) == self._rows[length]:
            self._send(length)

    def finish(self) -> None:
        """Score all that are left."""
        for length, pieces in self._collected.items():
            if pieces:
                self._send(length)
        self._receive()

    def _send(self, length: int) -> None:
        pieces, self._collected[length] = self._collected[length], []
        stacked: Piece = jax.tree.map(lambda *rows: np.stack(rows), *pieces)
        inputs = pad_rows((stacked.row, stacked.places), self._rows[length])
        if self._sharding is not None:
            inputs = put_batch(inputs, self._sharding)
        batch, places = inputs
        found = score_batch(self._model, batch, places, dtype=self._scoring.dtype)
        self._receive()
        self._waiting = _Waiting(pieces, stacked, found)

    def _receive(self) -> None:
        if self._waiting is None:
            return
        pieces, stacked, found = self._waiting
        self._waiting = None
        losses, correct = (array[: len(pieces)] for array in jax.device_get(found))
        weights = stacked.row.loss_mask
        sums = token_sums(losses, correct, weights, stacked.num_bytes, stacked.is_text)
        self._tally.add(np.array([piece.document for piece in pieces]), sums)
        self._scoring.advance(int((weights > 0).sum()))
