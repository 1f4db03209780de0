"""Who may see whom: the structure of a mask, from which each kernel makes what it needs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class AttentionMask(eqx.Module):
    """Which keys each query may see, as rules rather than as an array.

    Kernels that know the rules themselves never see an array; others ask for ``dense``.
    """

    causal: bool = eqx.field(static=True)
    """A query sees its own slot and those before it."""
    window: int | None = eqx.field(static=True)
    """A query sees its own slot and the ``window - 1`` before it; None: no limit."""
    query_segments: Int[Array, "batch seq"] | None
    """Only keys of the same segment are seen; padding, segment 0, sees padding, so that no softmax
    is over nothing."""
    key_segments: Int[Array, "batch slots"] | None
    """Without ``query_segments``, as in cross-attention: keys of segment 0 are not seen."""
    query_slots: Int[Array, "batch seq"] | None
    """Slot of each query among the keys; None: query i is slot i."""

    def dense(self, seq: int, slots: int) -> Bool[Array, "#batch seq slots"] | None:
        """True where query and key may meet; None: everywhere."""
        rules = [*self._order(seq, slots), *self._segments()]
        if not rules:
            return None
        allowed = rules[0]
        for rule in rules[1:]:
            allowed = allowed & rule
        return allowed

    def _order(self, seq: int, slots: int) -> list[Bool[Array, "#batch seq slots"]]:
        queries = self.query_slots
        if queries is None:
            queries = jnp.arange(seq)[None, :]
        keys = jnp.arange(slots)[None, None, :]
        rules = []
        if self.causal:
            rules.append(keys <= queries[:, :, None])
        if self.window is not None and self.window < slots:
            rules.append(keys > queries[:, :, None] - self.window)
        return rules

    def _segments(self) -> list[Bool[Array, "batch #seq slots"]]:
        if self.key_segments is None:
            return []
        keys = self.key_segments[:, None, :]
        if self.query_segments is None:
            return [keys > 0]
        return [keys == self.query_segments[:, :, None]]


def causal_mask(
    segment_ids: Int[Array, "batch seq"] | None = None, window: int | None = None
) -> AttentionMask:
    """Each position sees itself and what is before it, within its segment and ``window``."""
    return AttentionMask(True, window, segment_ids, segment_ids, None)


def bidirectional_mask(segment_ids: Int[Array, "batch seq"] | None) -> AttentionMask:
    """Each position sees all of its segment."""
    return AttentionMask(False, None, segment_ids, segment_ids, None)


def cross_mask(segment_ids: Int[Array, "batch slots"] | None) -> AttentionMask:
    """Each output position sees all of the input that is not padding (segment 0)."""
    return AttentionMask(False, None, None, segment_ids, None)


def cached_mask(slots: Int[Array, "batch seq"], window: int | None = None) -> AttentionMask:
    """Queries at ``slots`` of a cache see their own slot and those before it."""
    return AttentionMask(True, window, None, None, slots)


def token_positions(
    input_ids: Int[Array, "batch seq"], segment_ids: Int[Array, "batch seq"] | None
) -> Int[Array, "#batch seq"]:
    """Place of each token, counted from the start of its run of equal segment ids."""
    places = jnp.arange(input_ids.shape[1])[None, :]
    if segment_ids is None:
        return places
    starts = segment_ids != jnp.pad(segment_ids[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    return places - jnp.maximum.accumulate(jnp.where(starts, places, 0), axis=1)
