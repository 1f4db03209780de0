"""Patterns of parameters' paths, down to single layers of a stack."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import jax

_RANGE = re.compile(r"(?<=\.)(\d+)-(\d+)(?=\.|$)")
_STACK = re.compile(r"(?:^|\.)blocks(?=\.)")


def dotted(path: tuple[Any, ...]) -> str:
    """The path of a leaf as patterns see it, such as ``blocks.attention.query_weight``."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def is_stacked(name: str) -> bool:
    """Whether the parameter of this path has a first axis of layers."""
    return _STACK.search(name) is not None


def matched_layers(patterns: Sequence[str], name: str, shape: tuple[int, ...]) -> tuple[bool, ...]:
    """Which layers of a parameter one of the patterns matches.

    A pattern is matched with the path itself, which means every layer, and with the path of each
    layer, as in ``blocks.3.attention.query_weight``; ``0-5`` in the place of a number is any layer
    from 0 to 5.

    Args:
        patterns: shell patterns, where ``*`` also matches dots.
        name: the parameter's path.
        shape: its shape; the first axis of a stacked one is its layers.

    Returns:
        One answer a layer, or a single one where the parameter is not stacked.
    """
    if not is_stacked(name):
        return (any(fnmatchcase(name, pattern) for pattern in patterns),)
    return tuple(
        any(_matches_layer(pattern, name, layer) for pattern in patterns)
        for layer in range(shape[0])
    )


def ends(pattern: str) -> list[str]:
    """The pattern with each range as its first and as its last layer."""
    return [_RANGE.sub(r"\1", pattern), _RANGE.sub(r"\2", pattern)]


def without_layers(pattern: str) -> str:
    """The pattern as it would read for a whole stack."""
    return re.sub(r"\.\d+(-\d+)?(?=\.|$)", "", pattern)


def _matches_layer(pattern: str, name: str, layer: int) -> bool:
    if fnmatchcase(name, pattern):
        return True

    def chosen(match: re.Match[str]) -> str:
        first, last = int(match[1]), int(match[2])
        return str(layer) if first <= layer <= last else match[0]

    of_layer = _STACK.sub(rf"\g<0>.{layer}", name, count=1)
    return fnmatchcase(of_layer, _RANGE.sub(chosen, pattern))
