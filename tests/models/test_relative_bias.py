"""Buckets of distances, and the bias of queries that stand anywhere."""

import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.layers.relative_bias import RelativeBias

OFFSETS = np.arange(-300, 301)


def make(num_buckets: int, max_distance: int, *, bidirectional: bool) -> RelativeBias:
    """Whose two heads' biases tell the bucket."""
    buckets = np.arange(num_buckets, dtype=np.float32)
    table = jnp.asarray(np.stack([buckets, -buckets], axis=1))
    return RelativeBias(table, bidirectional, max_distance)


def buckets(bias: RelativeBias, offsets) -> list[int]:
    """Of keys at these offsets from a query."""
    slots = int(np.max(offsets) - np.min(offsets)) + 1
    query = jnp.full((1, 1), -int(np.min(offsets)))
    found = np.asarray(bias(query, slots))[0, 0, 0].astype(int)
    return found[np.asarray(offsets) - np.min(offsets)].tolist()


def test_near_distances_have_a_bucket_each_and_far_ones_share():
    both = make(8, 6, bidirectional=True)
    offsets = [-9, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 9]
    assert buckets(both, offsets) == [3, 3, 3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7, 7, 7]
    back = make(8, 6, bidirectional=False)
    assert buckets(back, offsets) == [7, 7, 6, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("shape", [(32, 128), (8, 6), (33, 100), (4, 20), (64, 256)])
def test_buckets_are_those_of_transformers(shape, bidirectional):
    """Also where a distance lies on the edge of a bucket and rounding decides."""
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    expected = t5.T5Attention._relative_position_bucket(
        torch.tensor(OFFSETS),
        bidirectional=bidirectional,
        num_buckets=shape[0],
        max_distance=shape[1],
    )
    assert buckets(make(*shape, bidirectional=bidirectional), OFFSETS) == expected.tolist()


def test_queries_in_a_cache_have_the_bias_of_their_slots():
    bias = make(8, 6, bidirectional=False)
    whole = np.asarray(bias(jnp.arange(9)[None], 9))
    assert whole.shape == (1, 2, 9, 9)
    rows = np.asarray(bias(jnp.asarray([[4], [7]]), 9))
    np.testing.assert_array_equal(rows[:, :, 0], whole[0, :, [4, 7]])
