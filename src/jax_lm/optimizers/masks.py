"""Which parameters weight decay applies to."""

from typing import Any

import jax

from jax_lm.optimizers.patterns import dotted


def decay_mask(params: Any, *, embeddings: bool) -> Any:
    """True for the leaves that weight decay applies to, decided by their path.

    Biases and norm scales are not decayed; embeddings where ``embeddings`` says so.
    """

    def decays(path: tuple[Any, ...], _leaf: object) -> bool:
        name = dotted(path).rsplit(".", 1)[-1]
        if name.endswith("_embedding"):
            return embeddings
        return not name.endswith(("bias", "scale"))

    return jax.tree_util.tree_map_with_path(decays, params)
