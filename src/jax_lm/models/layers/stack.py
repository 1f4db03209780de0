"""A stack of equal blocks: parameters stacked on a leading ``layers`` axis, applied by scan.

Where a token at a time is decoded, a list of blocks with a list of caches is faster: a scan copies
every block's weights and cache out of its stack at every step.
"""

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
Result = TypeVar("Result")
Stream = Float[Array, "batch seq embed"]
Apply = Callable[[Block, Stream, Any, DropoutKey | None], tuple[Stream, Any]]
RematPolicy = Literal["none", "attention", "dots", "full"]
"""What the backward pass recomputes: nothing; the scores and weights of attention; all of a block
but its products with weights; all of a block."""


def stack(init: Callable[[Key[Array, ""]], Block], key: Key[Array, ""], num_layers: int) -> Block:
    """Initialise ``num_layers`` blocks, each from its own key, with stacked parameters."""
    return jax.vmap(init)(jax.random.split(key, num_layers))


def unstack(blocks: Block) -> list[Block]:
    """The blocks of a stack, one by one."""
    num_layers = jax.tree.leaves(blocks)[0].shape[0]
    return [jax.tree.map(lambda leaf, i=i: leaf[i], blocks) for i in range(num_layers)]


def map_blocks(function: Callable[[Block], Result], blocks: Block | list[Block]) -> Any:
    """What ``function`` makes of each block: stacked for a stack, a list for a list."""
    if isinstance(blocks, list):
        return [function(block) for block in blocks]
    return jax.vmap(function)(blocks)


def apply_blocks(
    apply: Apply[Block],
    blocks: Block | list[Block],
    x: Float[Array, "batch seq embed"],
    caches: Any,
    *,
    key: DropoutKey | None = None,
    remat: RematPolicy = "none",
    unroll: bool = False,
) -> tuple[Float[Array, "batch seq embed"], Any]:
    """Run the blocks in order; one compiled body whatever the depth, unless they are a list.

    Args:
        apply: ``(block, x, its cache, its key) -> (x, its cache)``.
        blocks: a stacked block, as ``stack`` makes, or a list; as many are run as it holds.
        x: what flows from block to block: the hidden states.
        caches: a pytree with a leading ``layers`` axis, or None; for a list, a list.
        key: for dropout, split over the blocks; None: inference.
        remat: what the backward pass recomputes of a block's activations instead of keeping it.
        unroll: trace every block on its own; compiles slower, for comparison and debugging.
    """
    if isinstance(blocks, list):
        assert key is None, "a list of blocks is for inference"
        return _one_by_one(apply, blocks, x, caches)
    num_layers = jax.tree.leaves(blocks)[0].shape[0]
    keys = None if key is None else jax.random.split(key.key, num_layers)
    # The scan itself keeps XLA from undoing the recomputation, so the costly barrier is not needed.
    recomputed = partial(jax.checkpoint, prevent_cse=unroll)

    def body(x: Stream, layer: tuple[Block, Any, Key[Array, ""] | None]) -> tuple[Stream, Any]:
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


def _one_by_one(
    apply: Apply[Block],
    blocks: list[Block],
    x: Stream,
    caches: Any,
) -> tuple[Stream, Any]:
    x = placed(x, "batch seq embed")
    kept = []
    for index, block in enumerate(blocks):
        cache = None if caches is None else caches[index]
        x, cache = apply(jax.tree.map(_placed, block, is_leaf=_is_module), x, cache, None)
        x = placed(x, "batch seq embed")
        kept.append(cache)
    return x, None if caches is None else kept


def _is_module(node: Any) -> bool:
    return isinstance(node, eqx.Module)


def _placed(node: Any) -> Any:
    """Of what goes in beside the parameters nothing is said."""
    return placed_parameters(node) if _is_module(node) else node
