"""The names of every parameter's axes, read from its annotation.

A parameter declared ``weight: Float[Array, "embed mlp"]`` has the axes ``("embed", "mlp")``, with
``layers`` before them in a stack of blocks.
"""

import dataclasses
from typing import Any, get_args, get_type_hints

import equinox as eqx
import jax

from jax_lm.errors import JaxLMError
from jax_lm.models.layers.low_rank import LowRank


def parameter_axes(module: eqx.Module, prefix: tuple[str, ...] = ()) -> Any:
    """The axis names of every parameter, as a tree shaped like ``module`` with tuples as leaves.

    Raises:
        JaxLMError: an array field whose annotation names no axes.
    """
    hints = get_type_hints(type(module))
    axes: dict[str, Any] = {}
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if field.metadata.get("static", False) or value is None:
            continue
        path = f"{type(module).__name__}.{field.name}"
        if isinstance(value, LowRank):
            names = (*prefix, *_annotated(hints[field.name], path))
            axes[field.name] = _low_rank_axes(value, names)
        elif isinstance(value, eqx.Module):
            stacked = (*prefix, "layers") if field.name == "blocks" else prefix
            axes[field.name] = parameter_axes(value, stacked)
        else:
            axes[field.name] = AxisNames((*prefix, *_annotated(hints[field.name], path)))
    return eqx.tree_at(
        lambda m: [getattr(m, name) for name in axes],
        module,
        list(axes.values()),
    )


def _low_rank_axes(value: LowRank, names: tuple[str, ...]) -> LowRank:
    """Of a weight and its factors, which share its axes between them."""
    stacked = names[:1] if names[0] == "layers" else ()
    arrays: list[Any] = [value.weight, value.a, value.b]  # None: not in this tree
    cut = len(names)
    if arrays[1] is not None:
        cut = arrays[1].ndim - 1
    elif arrays[2] is not None:
        cut += len(stacked) + 1 - arrays[2].ndim
    axes = names, (*names[:cut], "low_rank"), (*stacked, "low_rank", *names[cut:])
    kept = [AxisNames(one) for one, array in zip(axes, arrays, strict=True) if array is not None]
    named: LowRank = jax.tree.unflatten(jax.tree.structure(value), kept)
    return named


class AxisNames(tuple[str, ...]):
    """Axis names as one leaf of a tree (a plain tuple would be a subtree)."""


def _annotated(annotation: Any, path: str) -> tuple[str, ...]:
    for option in (annotation, *get_args(annotation)):
        names = getattr(option, "dim_str", None)
        if names is not None:
            return tuple(names.split())
    raise JaxLMError(f"{path} has no axis names: annotate it like Float[Array, 'embed mlp']")
