"""``[[text, weight], ...]``: text whose weights are written beside it."""

import math
from collections.abc import Sequence

from jax_lm.documents.malformed import RecordError, kind
from jax_lm.types import Segment


def weighted_pairs(items: Sequence[object], where: str) -> tuple[Segment, ...]:
    """A segment for each pair.

    Args:
        items: pairs of a text and a weight.
        where: what holds them, for a message to a person.

    Raises:
        RecordError: an item is no such pair, or a weight is negative or not finite.
    """
    return tuple(_pair(item, f"item {index} of {where}") for index, item in enumerate(items))


def _pair(item: object, where: str) -> Segment:
    if not isinstance(item, list | tuple) or len(item) != 2 or not isinstance(item[0], str):
        raise RecordError(f"{where} should be a [text, weight] pair, found {kind(item)}")
    text, weight = item
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not math.isfinite(weight) or weight < 0:
        raise RecordError(f"{where} has weight {weight!r}; expected a finite number, 0 or more")
    return Segment(text, float(weight))
