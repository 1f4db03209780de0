"""Several sets as one: exact shares, every row once before any again, any position at once."""

import numpy as np
import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.loading.loader import Loader
from jax_lm.loading.mixture import BLOCK, JoinedRows, MixedOrder
from jax_lm.loading.rows import open_rows
from jax_lm.objectives.causal_lm import causal_lm
from jax_lm.training.data import weighted
from tests.conftest import TinyFeatures

SIZES = (3000, 70, 500)


@pytest.fixture
def order() -> MixedOrder:
    return MixedOrder(SIZES, (0.7, 0.1, 0.2), seed=3)


def sets_of(rows: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.cumsum(SIZES), rows, side="right")


def test_every_block_has_the_shares_exactly(order: MixedOrder) -> None:
    for block in (0, 1, 7):
        rows = order.rows(block * BLOCK, (block + 1) * BLOCK)
        assert np.bincount(sets_of(rows)).tolist() == [7000, 1000, 2000]


def test_shares_hold_nearly_at_any_place(order: MixedOrder) -> None:
    share = np.mean(sets_of(order.rows(123, 1123)) == 0)
    assert 0.65 < share < 0.75


def test_a_set_is_read_whole_before_any_row_is_read_again(order: MixedOrder) -> None:
    rows = order.rows(0, 3 * BLOCK)
    second = rows[sets_of(rows) == 1] - SIZES[0]
    assert len(second) == 3000
    for epoch in range(len(second) // 70):
        assert sorted(second[epoch * 70 : (epoch + 1) * 70]) == list(range(70))


def test_any_position_gives_what_reading_from_the_start_gives(order: MixedOrder) -> None:
    whole = order.rows(0, 3 * BLOCK)
    again = MixedOrder(SIZES, (0.7, 0.1, 0.2), seed=3)
    for start, stop in ((BLOCK - 5, BLOCK + 5), (2 * BLOCK + 1, 2 * BLOCK + 2), (5, 2 * BLOCK)):
        assert np.array_equal(again.rows(start, stop), whole[start:stop])
    assert not np.array_equal(MixedOrder(SIZES, (7, 1, 2), seed=4).rows(0, 99), whole[:99])


@pytest.mark.parametrize("weights", [(1 / 3, 1 / 3, 1 / 3), (1e-9, 1, 1), (5, 5, 1)])
def test_shares_that_do_not_divide_are_rounded_and_add_up(weights: tuple[float, ...]) -> None:
    found = np.bincount(sets_of(MixedOrder(SIZES, weights, 0).rows(0, BLOCK)), minlength=3)
    assert found.sum() == BLOCK
    assert np.abs(found / BLOCK - np.array(weights) / sum(weights)).max() <= 1 / BLOCK


def test_joined_rows_are_the_rows_of_each_set(tiny_features: TinyFeatures) -> None:
    stores = [open_rows(tiny_features.train), open_rows(tiny_features.held_out)]
    joined = JoinedRows(stores)
    split = len(stores[0])
    assert len(joined) == split + len(stores[1])
    indices = np.array([split + 1, 0, split, 5])
    taken = joined.take(indices)
    for place, (store, row) in enumerate([(1, 1), (0, 0), (1, 0), (0, 5)]):
        expected = stores[store].take(np.array([row]))
        assert np.array_equal(taken.input_ids[place], expected.input_ids[0])
        assert taken.lengths[place] == expected.lengths[0]
    assert taken.labels is None
    assert joined.fingerprint not in {store.fingerprint for store in stores}


def test_sets_of_different_rows_are_refused(tiny_features: TinyFeatures, tmp_path) -> None:
    from jax_lm.preprocessing.options import PreprocessOptions
    from jax_lm.preprocessing.pipeline import preprocess

    options = PreprocessOptions(max_sequence_length=8)
    prefix = str(tmp_path / "short")
    preprocess(str(tiny_features.held_out_text), tiny_features.tokenizer, prefix, options, say=len)
    with pytest.raises(JaxLMError, match=r"rows of 9 ids .* preprocess both"):
        JoinedRows([open_rows(tiny_features.train), open_rows(prefix)])


def test_a_loader_goes_on_in_the_middle_of_a_mixture(tiny_features: TinyFeatures) -> None:
    stores = [open_rows(tiny_features.train), open_rows(tiny_features.held_out)]
    joined = JoinedRows(stores)

    def batches(position: int, count: int) -> list[np.ndarray]:
        order = MixedOrder([len(store) for store in stores], (0.5, 0.5), 1)
        given = {"batch_size": 4, "seed": 1, "position": position, "order": order}
        with Loader(joined, causal_lm, **given) as loader:
            return [batch.input_ids for batch, _ in zip(loader, range(count), strict=False)]

    assert np.array_equal(batches(0, 5)[3:], batches(12, 2))


def test_weights_are_read_from_the_flag(tmp_path) -> None:
    assert weighted(("a=0.7", "b?text=x=3")) == (["a", "b?text=x"], [0.7, 3.0])
    assert weighted(("a", "b?text=x")) == (["a", "b?text=x"], None)
    assert weighted(("ids.bin?separator=0",)) == (["ids.bin?separator=0"], None)
    assert weighted(("i.bin?dtype=u2&separator=0=2",)) == (["i.bin?dtype=u2&separator=0"], [2.0])
    (tmp_path / "lr=0.1").touch()
    assert weighted((f"{tmp_path}/lr=0.1",)) == ([f"{tmp_path}/lr=0.1"], None)
    for wrong in (("a=1", "b"), ("a=0", "b=1"), ("a=-1",)):
        with pytest.raises(UsageError, match="every set a weight above 0"):
            weighted(wrong)
