"""Trees of arrays as Orbax sees them: by path, without our Python classes."""

import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def by_path(tree: Any) -> dict[str, Any]:
    """Leaves by their path, so that a checkpoint depends on names and not on Python classes."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in flat}


def abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    """Shape, dtype and, where it has one, sharding."""
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None))


def out_of_reach(tree: Any) -> Any:
    """A tree that the next step cannot overwrite while it is being written.

    A step is given the buffers of its state. From an accelerator Orbax copies to the host before
    its ``save`` returns; what lies on a CPU it would only point to, so that is copied here.
    """

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array):
            return np.array(leaf)
        if {device.platform for device in leaf.devices()} == {"cpu"}:
            return jax.device_put(leaf, leaf.sharding, may_alias=False)
        return leaf

    return jax.tree.map(copied, tree)


def silence_orbax() -> None:
    """Let Orbax report by its exceptions alone.

    After a failed write, others that were under way fail too, or end when Orbax's event loop is
    gone already; Python would print a page for each of them.
    """
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_is_news)
    if not isinstance(sys.unraisablehook, _WithoutLateWrites):
        sys.unraisablehook = _WithoutLateWrites(sys.unraisablehook)


def _is_news(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if "exception was never retrieved" not in text:
        return True
    if record.exc_info:
        text += "".join(traceback.format_exception(*record.exc_info))
    return not any(writer in text for writer in ("OCDBT", "orbax"))


class _WithoutLateWrites:
    """A hook for exceptions that nobody can catch, which leaves out those of late writes."""

    def __init__(self, others: Callable[[Any], object]) -> None:
        self._others = others

    def __call__(self, unraisable: Any) -> None:
        error = unraisable.exc_value
        if not (isinstance(error, RuntimeError) and str(error) == "Event loop is closed"):
            self._others(unraisable)
