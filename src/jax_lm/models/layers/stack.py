"""A stack of equal blocks: parameters stacked on a leading ``layers`` axis, applied by scan."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from jax_lm.models.layers.dot_product import attention_wrapped
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.placement import placed, placed_parameters

Block = TypeVar("Block")
Caches = TypeVar("Caches")
Stream = Float[Array, "batch seq embed"]
RematPolicy = Literal["none", "attention", "dots", "full"]
"""What the backward pass recomputes: nothing; the scores and weights of attention; all of a block
but its products with weights; all of a block."""


def stack(init: Callable[[Key[Array, ""]], Block], key: Key[Array, ""], num_layers: int) -> Block:
    """Initialise ``num_layers`` blocks, each from its own key, with stacked parameters."""
    return jax.vmap(init)(jax.random.split(key, num_layers))


def apply_blocks(
    apply: Callable[[Block, Stream, Caches, DropoutKey | None], tuple[Stream, Caches]],
    blocks: Block,
    x: Float[Array, "batch seq embed"],
    caches: Caches,
    *,
    key: DropoutKey | None = None,
    remat: RematPolicy = "none",
    unroll: bool = False,
) -> tuple[Float[Array, "batch seq embed"], Caches]:
    """Run the blocks in order; one compiled body whatever the depth.

    Args:
        apply: ``(block, x, its cache, its key) -> (x, its cache)``.
        blocks: a stacked block, as ``stack`` makes; as many are run as it holds.
        x: what flows from block to block: the hidden states.
        caches: a pytree with a leading ``layers`` axis, or None.
        key: for dropout, split over the blocks; None: inference.
        remat: what the backward pass recomputes of a block's activations instead of keeping it.
        unroll: trace every block on its own; compiles slower, for comparison and debugging.
    """
    num_layers = jax.tree.leaves(blocks)[0].shape[0]
    keys = None if key is None else jax.random.split(key.key, num_layers)
    # The scan itself keeps XLA from undoing the recomputation, so the costly barrier is not needed.
    recomputed = partial(jax.checkpoint, prevent_cse=unroll)

    def body(
        x: Stream, layer: tuple[Block, Caches, Key[Array, ""] | None]
    ) -> tuple[Stream, Caches]:
        block, cache, block_key = layer
        block = jax.tree.map(_placed, block, is_leaf=_is_module)
        drawn = None if key is None or block_key is None else DropoutKey(block_key, key.rows)
        with attention_wrapped(recomputed if remat == "attention" else None):
            x, cache = apply(block, x, cache, drawn)
        return placed(x, "batch seq embed"), cache

    x = placed(x, "batch seq embed")
    if remat == "full":
        body = recomputed(body)
    elif remat == "dots":
        body = recomputed(body, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
    return jax.lax.scan(body, x, (blocks, caches, keys), unroll=unroll)


def _is_module(node: Any) -> bool:
    return isinstance(node, eqx.Module)


def _placed(node: Any) -> Any:
    """Of what goes in beside the parameters nothing is said."""
    return placed_parameters(node) if _is_module(node) else node
