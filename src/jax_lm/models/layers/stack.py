"""A stack of equal blocks: parameters stacked on a leading ``layers`` axis, applied by scan."""

from collections.abc import Callable
from typing import TypeVar

import jax
from jaxtyping import Array, Key

Block = TypeVar("Block")
Carry = TypeVar("Carry")
PerLayer = TypeVar("PerLayer")
Output = TypeVar("Output")


def stack(init: Callable[[Key[Array, ""]], Block], key: Key[Array, ""], num_layers: int) -> Block:
    """Initialise ``num_layers`` blocks, each from its own key, with stacked parameters."""
    return jax.vmap(init)(jax.random.split(key, num_layers))


def apply_stack(
    apply: Callable[[Block, Carry, PerLayer], tuple[Carry, Output]],
    blocks: Block,
    carry: Carry,
    per_layer: PerLayer,
    *,
    remat: bool = False,
    unroll: bool = False,
) -> tuple[Carry, Output]:
    """Run the blocks in order; one compiled body whatever the depth.

    Args:
        apply: ``(block, carry, this layer's slice of per_layer) -> (carry, output)``.
        blocks: a stacked block, as ``stack`` makes.
        carry: what flows from block to block: the hidden states.
        per_layer: a pytree with a leading ``layers`` axis (keys, caches) or of None.
        remat: recompute a block's activations in the backward pass instead of keeping them.
        unroll: trace every block on its own; compiles slower, for comparison and debugging.
    """

    def body(carry: Carry, layer: tuple[Block, PerLayer]) -> tuple[Carry, Output]:
        return apply(layer[0], carry, layer[1])

    # The scan itself keeps XLA from undoing the recomputation, so the costly barrier is not needed.
    scanned = jax.checkpoint(body, prevent_cse=unroll) if remat else body
    return jax.lax.scan(scanned, carry, (blocks, per_layer), unroll=unroll)
