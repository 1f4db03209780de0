import numpy as np

from jax_lm.objectives.causal_lm import causal_lm
from jax_lm.types import Rows


def test_targets_are_the_next_ids_and_padding_has_no_weight() -> None:
    rows = Rows(np.array([[5, 6, 0, 7], [8, 9, 0, 0]], np.uint16), np.array([4, 2]))
    batch = causal_lm(rows)
    assert batch.input_ids.tolist() == [[5, 6, 0], [8, 9, 0]]
    assert batch.targets.tolist() == [[6, 0, 7], [9, 0, 0]]
    # Id 0 counts where it is a token and not where it is padding.
    assert batch.loss_mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.segment_ids is None and batch.decoder_input_ids is None


def test_labels_and_weights_decide_where_there_are_any() -> None:
    rows = Rows(
        np.array([[5, 6, 7]], np.uint16),
        np.array([3]),
        labels=np.array([[-100, 7, 0]], np.int32),
        loss_weights=np.array([[9.0, 0.5, 1.0]], np.float32),
    )
    batch = causal_lm(rows)
    assert batch.input_ids.tolist() == [[5, 6, 7]]
    assert batch.targets.tolist() == [[0, 7, 0]]
    assert batch.loss_mask.tolist() == [[0, 0.5, 1]]


def test_documents_stay_apart_where_rows_say_so() -> None:
    rows = Rows(
        np.array([[5, 6, 7, 0]]), np.array([3]), labels=np.array([[6, 7, -100, -100]]),
        segment_ids=np.array([[1, 1, 2, 0]], np.int16),
    )  # fmt: skip
    batch = causal_lm(rows)
    assert batch.segment_ids.tolist() == [[1, 1, 2, 0]] and batch.segment_ids.dtype == np.int32
