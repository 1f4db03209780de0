import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jax_lm.loading.dataset import RowOrder
from jax_lm.loading.permutation import Permutation


@given(st.integers(1, 3000), st.integers(0, 2**63), st.integers(0, 100))
def test_is_a_bijection_of_the_range(size: int, seed: int, epoch: int) -> None:
    values = Permutation(size, seed, epoch)(np.arange(size))
    assert sorted(values.tolist()) == list(range(size))


def test_single_values_equal_the_whole() -> None:
    permutation = Permutation(1001, 7)
    whole = permutation(np.arange(1001))
    assert [int(permutation(np.array([i]))[0]) for i in (0, 500, 1000)] == whole[
        [0, 500, 1000]
    ].tolist()


def test_keys_give_other_orders() -> None:
    orders = {tuple(Permutation(50, *key)(np.arange(50))) for key in [(0, 0), (0, 1), (1, 0)]}
    assert len(orders) == 3


def test_looks_random() -> None:
    """Neighbours end up a third of the range apart on average, and every place is reached."""
    size = 20_000
    values = Permutation(size, 3)(np.arange(size)).astype(float)
    assert np.abs(np.diff(values)).mean() == pytest.approx(size / 3, rel=0.03)
    first = [int(Permutation(10, seed)(np.array([0]))[0]) for seed in range(2000)]
    counts = np.bincount(first, minlength=10)
    chi_square = ((counts - 200.0) ** 2 / 200.0).sum()
    assert chi_square < 27.9  # p = 0.001 at 9 degrees of freedom


def test_order_is_fixed_for_good() -> None:
    """A change of this order would break the resume of every run that exists."""
    assert Permutation(10, 0, 0)(np.arange(10)).tolist() == GOLDEN


GOLDEN = [0, 2, 1, 7, 6, 3, 5, 8, 4, 9]


def test_row_order_visits_each_row_once_an_epoch_in_new_orders() -> None:
    order = RowOrder(13, seed=5)
    epochs = [order.rows(13 * e, 13 * (e + 1)).tolist() for e in range(4)]
    assert all(sorted(epoch) == list(range(13)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_row_order_is_a_function_of_position() -> None:
    whole = RowOrder(13, seed=5).rows(0, 60)
    assert RowOrder(13, seed=5).rows(24, 31).tolist() == whole[24:31].tolist()
