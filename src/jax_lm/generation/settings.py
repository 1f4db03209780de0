"""Requests as arrays: one compiled step serves whatever its rows ask for."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jax_lm.generation.requests import Request

NO_ID = -1
"""Fills up lists of ids."""


class Settings(NamedTuple):
    """What each row of a batch asks for."""

    temperature: Float[Array, "batch"]
    top_k: Int[Array, "batch"]
    top_p: Float[Array, "batch"]
    min_p: Float[Array, "batch"]
    repetition_penalty: Float[Array, "batch"]
    min_new_tokens: Int[Array, "batch"]
    max_new_tokens: Int[Array, "batch"]
    stop_ids: Int[Array, "batch ids"]
    """The end-of-sequence token and others; filled up with -1."""

    def of_busy(self, busy: Bool[Array, "batch"]) -> "Settings":
        """The same, where free rows ask for what costs nothing."""
        return self._replace(
            temperature=jnp.where(busy, self.temperature, 0.0),
            repetition_penalty=jnp.where(busy, self.repetition_penalty, 1.0),
            top_k=jnp.where(busy, self.top_k, 0),
            top_p=jnp.where(busy, self.top_p, 1.0),
            min_p=jnp.where(busy, self.min_p, 0.0),
            min_new_tokens=jnp.where(busy, self.min_new_tokens, 0),
        )


def stop_ids_of(request: Request, eos_id: int | None) -> tuple[int, ...]:
    """All tokens that end a request's text."""
    end = () if eos_id is None else (eos_id,)
    return tuple(dict.fromkeys((*end, *request.sampling.stop_ids)))


def settings_of(
    requests: Sequence[Request], rows: int, num_stop_ids: int, eos_id: int | None
) -> Settings:
    """The settings of some requests, as NumPy arrays.

    Args:
        requests: at least one.
        rows: length of the arrays; the last request fills them up.
        num_stop_ids: room for that many ids a row.
        eos_id: the end-of-sequence token.
    """
    filled = [*requests, *[requests[-1]] * (rows - len(requests))]
    asked = [request.sampling for request in filled]
    stop_ids = np.full((rows, num_stop_ids), NO_ID, np.int32)
    for row, request in enumerate(filled):
        ids = stop_ids_of(request, eos_id)
        stop_ids[row, : len(ids)] = ids

    def array(name: str, dtype: type) -> np.ndarray:
        return np.array([getattr(one, name) for one in asked], dtype)

    arrays: dict[str, Any] = {"stop_ids": stop_ids}
    for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
        arrays[name] = array(name, np.float32)
    for name in ("top_k", "min_new_tokens", "max_new_tokens"):
        arrays[name] = array(name, np.int32)
    return Settings(**arrays)
