"""T5's relative positions: a learnt bias on attention scores for each range of distances."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.layers.init import normal


class RelativeBias(eqx.Module):
    """A bias for each head and bucket of distances (Raffel et al. 2020, arXiv:1910.10683).

    Half of the buckets hold one short distance each; the others grow with the distance, up to
    ``max_distance``; the last holds all that is farther.
    """

    bucket_bias: Float[Array, "buckets heads"]
    bidirectional: bool = eqx.field(static=True)
    """Later keys have half of the buckets; else they are never seen, and count as distance 0."""
    max_distance: int = eqx.field(static=True)

    @staticmethod
    def init(
        key: Key[Array, ""],
        shape: tuple[int, int],
        *,
        bidirectional: bool,
        max_distance: int,
        init_std: float,
    ) -> "RelativeBias":
        """Normal biases; ``shape`` is the number of buckets and of heads."""
        return RelativeBias(normal(key, shape, init_std), bidirectional, max_distance)

    def __call__(
        self, query_slots: Int[Array, "batch seq"], slots: int
    ) -> Float[Array, "batch heads seq {slots}"]:
        """What to add to the score of each query with each of ``slots`` keys.

        Args:
            query_slots: the slot of each query among the keys; equal in all rows, one row will do.
            slots: number of keys.
        """
        offsets = jnp.arange(slots)[None, None, :] - query_slots[:, :, None]
        return jnp.moveaxis(self.bucket_bias[self._buckets(offsets)], -1, 1)

    def _buckets(self, offsets: Int[Array, "batch seq slots"]) -> Int[Array, "batch seq slots"]:
        buckets = self.bucket_bias.shape[0]
        of_one_side = buckets // 2 if self.bidirectional else buckets
        table = jnp.asarray(distance_buckets(of_one_side, self.max_distance))
        distances = jnp.abs(offsets) if self.bidirectional else jnp.maximum(-offsets, 0)
        found = table[jnp.minimum(distances, self.max_distance)]
        return jnp.where(offsets > 0, found + of_one_side, found) if self.bidirectional else found


def distance_buckets(num_buckets: int, max_distance: int) -> Int[np.ndarray, "distances"]:
    """The bucket of every distance from 0 to ``max_distance``; farther ones share the last.

    A table made once, in float32 and in the published order of operations: distances on the edge
    of a bucket then fall on the side where the published models have them, on every backend.
    """
    distances = np.arange(max_distance + 1)
    exact = num_buckets // 2
    far = np.log(np.maximum(distances, 1).astype(np.float32) / np.float32(exact))
    far = far / np.float32(math.log(max_distance / exact)) * np.float32(num_buckets - exact)
    grown = np.minimum(exact + far.astype(np.int32), num_buckets - 1)
    return np.where(distances < exact, distances, grown).astype(np.int32)
