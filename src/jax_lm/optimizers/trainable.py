"""Which parameters a run trains: all, all but frozen ones, or low-rank factors alone.

A parameter frozen in whole is left out of the tree that the optimizer sees: it has no gradient, no
moments and no average, which saves their memory. Single layers of a stack cannot be left out; their
gradients and updates are dropped, which saves nothing.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jax_lm.errors import UsageError
from jax_lm.optimizers.patterns import (
    dotted,
    ends,
    is_stacked,
    matched_layers,
    without_layers,
)

Tree = TypeVar("Tree")
FACTORS = ("a", "b")
"""Names of the arrays that low-rank adaptation trains."""


def trainable_mask(model: Any, freeze: Sequence[str] = (), *, lora: bool = False) -> Any:
    """True for the parameters that are trained, in whole or in some of their layers.

    Args:
        model: arrays or ``jax.ShapeDtypeStruct``.
        freeze: patterns of paths, as in ``*_embedding`` or ``blocks.0-5.*``.
        lora: only low-rank factors are trained, those of them that are not frozen.

    Raises:
        UsageError: a pattern matches nothing, or nothing is left to train.
    """
    shapes = {dotted(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(model)}
    for pattern in freeze:
        _check_matches(pattern, shapes)

    def is_trained(path: tuple[Any, ...], leaf: Any) -> bool:
        name = dotted(path)
        if lora and name.rsplit(".", 1)[-1] not in FACTORS:
            return False
        return not all(matched_layers(freeze, name, leaf.shape))

    mask = jax.tree_util.tree_map_with_path(is_trained, model)
    if not any(jax.tree.leaves(mask)):
        raise UsageError(
            f"--optimizer.freeze {' '.join(freeze)} leaves nothing to train: leave a pattern out"
            if freeze
            else "there are no low-rank factors to train: give --lora.rank"
        )
    return mask


def without_frozen_layers(freeze: Sequence[str]) -> optax.GradientTransformation:
    """Drops gradients or updates of the layers that patterns freeze, in parameters that have more.

    What is dropped becomes -0.0, which added to any number leaves its bits as they are (0.0 would
    turn -0.0 into 0.0).
    """
    return optax.stateless(lambda updates, _params: drop_frozen_layers(updates, freeze))


def drop_frozen_layers(gradients: Tree, freeze: Sequence[str]) -> Tree:
    """Gradients or updates without those of the layers that patterns freeze."""
    dropped: Tree = jax.tree_util.tree_map_with_path(
        lambda path, leaf: _without_layers(freeze, dotted(path), leaf), gradients
    )
    return dropped


def _without_layers(
    freeze: Sequence[str], name: str, leaf: Float[Array, "..."]
) -> Float[Array, "..."]:
    frozen = matched_layers(freeze, name, leaf.shape)
    if not any(frozen):
        return leaf
    rest = tuple(range(1, leaf.ndim)) if is_stacked(name) else tuple(range(leaf.ndim))
    layers = jnp.asarray(frozen if is_stacked(name) else frozen[0])
    return jnp.where(jnp.expand_dims(layers, rest), jnp.asarray(-0.0, leaf.dtype), leaf)


def _check_matches(pattern: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a pattern that matches no parameter, or a range that ends beyond the last layer."""
    for alternative in (*ends(pattern), pattern):
        if not any(any(matched_layers([alternative], *item)) for item in shapes.items()):
            raise UsageError(
                f"--optimizer.freeze {pattern}: no parameter has the path {alternative}"
                f"{_hint(pattern, shapes)}"
            )


def _hint(pattern: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    modules = {
        ".".join([*parts[:depth], "*"])
        for parts in (name.split(".") for name in shapes)
        for depth in range(1, len(parts))
    }
    known = [*sorted(modules), *shapes]
    close = difflib.get_close_matches(without_layers(pattern), known, n=3, cutoff=0.3) or known[:3]
    stacks = {
        name[: name.index("blocks.") + len("blocks")]: shape[0]
        for name, shape in shapes.items()
        if is_stacked(name)
    }
    layers = ", ".join(f"{stack}.0-{number - 1}" for stack, number in stacks.items())
    return f"; the nearest are {', '.join(close)}" + (f"; layers are {layers}" if layers else "")
