"""Which parameters are matrices, told by the names of their axes.

``blocks.attention.query_weight``, ``[layers, embed, heads, head_dim]``, is a matrix from embed to
heads times head_dim in every layer. Tables that ids or positions look up, and the output matrix,
have a row for each of them and are not meant here.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from jax_lm.models.axes import AxisNames, parameter_axes
from jax_lm.optimizers.patterns import dotted

TABLES = frozenset({"vocab", "context", "buckets", "types"})
"""Axes with a row for each id, position or distance."""


class Matrix(NamedTuple):
    """Which axes of an array are a matrix's inputs and which its outputs; the others are layers."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def find_matrices(params: Any) -> Mapping[str, Matrix]:
    """The matrices among the parameters, by path."""
    named = jax.tree_util.tree_leaves_with_path(
        parameter_axes(params), is_leaf=lambda leaf: isinstance(leaf, AxisNames)
    )
    found = {dotted(path): _as_matrix(names) for path, names in named}
    return {name: matrix for name, matrix in found.items() if matrix is not None}


def sides(shape: tuple[int, ...], matrix: Matrix) -> tuple[int, int]:
    """Numbers of inputs and of outputs."""
    inputs, outputs = (math.prod(shape[axis] for axis in axes) for axes in matrix)
    return inputs, outputs


def _as_matrix(names: tuple[str, ...]) -> Matrix | None:
    if TABLES.intersection(names):
        return None
    groups: list[list[int]] = []
    for axis, name in enumerate(names):
        if name == "layers":
            continue
        if name == "head_dim" and groups:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return Matrix(tuple(groups[0]), tuple(groups[1])) if len(groups) == 2 else None
