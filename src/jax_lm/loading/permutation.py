"""A seeded permutation of 0..n-1 that is computed where it is needed, never stored."""

import hashlib

import numpy as np
from jaxtyping import Int

ROUNDS = 6
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Permutation:
    """A pseudo-random bijection of ``range(size)``, O(1) in memory and per index.

    A Feistel network (Luby and Rackoff 1988) over the smallest domain of an even number of bits
    that holds ``size``, walked until the value falls below ``size`` (cycle walking, Black and
    Rogaway 2002); the round function is SplitMix64's finaliser (Steele et al. 2014).
    """

    def __init__(self, size: int, *key: int) -> None:
        """Args: size, at least 1; key: any integers, such as seed and epoch."""
        self.size = size
        half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
        self._half_bits = np.uint64(half_bits)
        self._half_mask = np.uint64((1 << half_bits) - 1)
        digest = hashlib.sha256(repr((size, *key)).encode()).digest()
        seed = np.frombuffer(digest, "<u8")[0]
        self._round_keys = _mix(seed + _GOLDEN * np.arange(1, ROUNDS + 1, dtype=np.uint64))

    def __call__(self, indices: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The permuted values of ``indices`` (each in ``range(size)``), int64."""
        values = self._encrypt(np.asarray(indices, np.uint64))
        while (outside := values >= np.uint64(self.size)).any():
            values[outside] = self._encrypt(values[outside])
        return values.astype(np.int64)

    def _encrypt(self, values: np.ndarray) -> np.ndarray:
        left, right = values >> self._half_bits, values & self._half_mask
        for round_key in self._round_keys:
            left, right = right, left ^ (_mix(right + round_key) & self._half_mask)
        return (left << self._half_bits) | right


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return np.asarray(x ^ (x >> np.uint64(31)))
