"""A stack of equal blocks: parameters stacked on a leading ``layers`` axis, applied by scan."""

from collections.abc import Callable
from typing import Literal, TypeVar

import jax
from jaxtyping import Array, Float, Key

Block = TypeVar("Block")
Caches = TypeVar("Caches")
Stream = Float[Array, "batch seq embed"]
RematPolicy = Literal["none", "attention", "dots", "full"]


def stack(init: Callable[[Key[Array, ""]], Block], key: Key[Array, ""], num_layers: int) -> Block:
    """Initialise ``num_layers`` blocks, each from its own key, with stacked parameters."""
    return jax.vmap(init)(jax.random.split(key, num_layers))


def apply_blocks(
    apply: Callable[[Block, Stream, Caches, Key[Array, ""] | None], tuple[Stream, Caches]],
    blocks: Block,
    x: Float[Array, "batch seq embed"],
    caches: Caches,
    *,
    key: Key[Array, ""] | None = None,
    remat: bool = False,
    unroll: bool = False,
) -> tuple[Float[Array, "batch seq embed"], Caches]:
    """Run the blocks in order; one compiled body whatever the depth.

    Args:
        apply: ``(block, x, its cache, its key) -> (x, its cache)``.
        blocks: a stacked block, as ``stack`` makes; as many are run as it holds.
        x: what flows from block to block: the hidden states.
        caches: a pytree with a leading ``layers`` axis, or None.
        key: for dropout, split over the blocks; None: inference.
        remat: recompute a block's activations in the backward pass instead of keeping them.
        unroll: trace every block on its own; compiles slower, for comparison and debugging.
    """
    num_layers = jax.tree.leaves(blocks)[0].shape[0]
    keys = None if key is None else jax.random.split(key, num_layers)

    def body(
        x: Stream, layer: tuple[Block, Caches, Key[Array, ""] | None]
    ) -> tuple[Stream, Caches]:
        return apply(layer[0], x, layer[1], layer[2])

    # The scan itself keeps XLA from undoing the recomputation, so the costly barrier is not needed.
    scanned = jax.checkpoint(body, prevent_cse=unroll) if remat else body
    return jax.lax.scan(scanned, x, (blocks, caches, keys), unroll=unroll)
