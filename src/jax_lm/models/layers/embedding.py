"""Rows of a table by id."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jax_lm.models.layers.low_rank import LowRank
from jax_lm.models.layers.placement import placed


def lookup(
    table: Float[Array, "vocab embed"] | LowRank, ids: Int[Array, "batch seq"]
) -> Float[Array, "batch seq embed"]:
    """The row of each id.

    Devices that split the vocabulary look up what they hold and add up, so only rows travel; those
    that split the width gather the table, once.
    """
    if isinstance(table, LowRank):
        low = jnp.einsum("btr,re->bte", lookup(table.a, ids), table.b)
        return lookup(table.weight, ids) + table.scale * low
    return placed(placed(table, "vocab whole")[ids], "batch seq whole")
