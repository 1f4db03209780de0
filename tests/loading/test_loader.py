import itertools

import numpy as np
import pytest

from jax_lm.loading.loader import Loader
from jax_lm.loading.rows import RowStore, open_rows
from jax_lm.objectives.base import RowDraws
from jax_lm.objectives.causal_lm import causal_lm
from jax_lm.types import Batch, Rows
from tests.conftest import TinyFeatures


@pytest.fixture
def rows(tiny_features: TinyFeatures) -> RowStore:
    return open_rows(tiny_features.train, say=lambda line: None)


def take(loader: Loader, count: int) -> list[Batch]:
    with loader:
        return list(itertools.islice(loader, count))


def test_any_position_is_reached_at_once(rows: RowStore) -> None:
    whole = take(Loader(rows, causal_lm, batch_size=7, seed=1), 12)
    tail = take(Loader(rows, causal_lm, batch_size=7, seed=1, position=9 * 7), 3)
    for expected, batch in zip(whole[9:], tail, strict=True):
        np.testing.assert_array_equal(batch.input_ids, expected.input_ids)


def test_hosts_share_the_batches_of_one(rows: RowStore) -> None:
    one = take(Loader(rows, causal_lm, batch_size=8, seed=1), 3)
    for own in (np.array([0, 1, 6]), np.array([5])):
        host = take(Loader(rows, causal_lm, batch_size=8, seed=1, own_rows=own), 3)
        for whole, part in zip(one, host, strict=True):
            np.testing.assert_array_equal(part.input_ids, whole.input_ids[own])


def test_position_counts_what_was_handed_out(rows: RowStore) -> None:
    with Loader(rows, causal_lm, batch_size=5, seed=0, position=10) as loader:
        batches = iter(loader)
        next(batches)
        next(batches)
        assert loader.position == 20


def test_rows_at_names_the_rows_of_a_batch(rows: RowStore) -> None:
    with Loader(rows, causal_lm, batch_size=4, seed=3) as loader:
        batch = next(iter(loader))
        named = rows.take(np.array(loader.rows_at(0)))
    np.testing.assert_array_equal(causal_lm(named).input_ids, batch.input_ids)


def test_objectives_draw_by_the_place_in_the_run(rows: RowStore) -> None:
    def places(rows: Rows, draws: RowDraws) -> Batch:
        assert draws.seed == 3
        numbers = np.tile(draws.positions[:, None], (1, 2))
        return causal_lm(rows)._replace(positions=numbers)

    epochs = 3 * len(rows) // 8
    for index in range(2):
        host = {"own_rows": np.arange(4) + 4 * index, "position": 8 * epochs}
        batches = take(Loader(rows, places, batch_size=8, seed=3, **host), 2)
        found = [batch.positions[:, 0].tolist() for batch in batches]
        first = 8 * epochs + 4 * index
        assert found == [[*range(first, first + 4)], [*range(first + 8, first + 12)]]


def test_an_error_on_the_thread_reaches_the_caller(rows: RowStore) -> None:
    def broken(rows: Rows, draws: RowDraws) -> Batch:
        raise OSError("disk gone")

    with Loader(rows, broken, batch_size=4, seed=0) as loader, pytest.raises(OSError, match="gone"):
        next(iter(loader))


def test_closing_ends_the_thread(rows: RowStore) -> None:
    loader = Loader(rows, causal_lm, batch_size=4, seed=0)
    loader.close()
    loader.close()
    assert not loader._thread.is_alive()
