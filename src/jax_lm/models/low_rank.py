"""Low-rank adaptation of any weight (Hu et al. 2021, arXiv:2106.09685)."""

import difflib
import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from jax_lm.errors import UsageError
from jax_lm.models.axes import AxisNames, parameter_axes
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.low_rank import LowRank, merged

__all__ = ["LoraConfig", "LowRank", "merged", "with_low_rank"]

Model = TypeVar("Model", bound=eqx.Module)
ADAPTABLE = ("_weight", "_embedding")
"""How the paths of matrices and tables end; norms and biases get no factors."""


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Train small factors beside frozen weights; rank 0 trains the weights themselves."""

    rank: int = 0
    """Of the factors; 0: no adaptation."""
    alpha: float = 16.0
    """The factors' product is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ("*attention*weight",)
    """Parameters that get factors, by patterns of their path, as in *.attention.query_weight."""

    def __post_init__(self) -> None:
        """Refuse a rank or a factor that is none."""
        if self.rank < 0:
            raise UsageError(f"--lora.rank is {self.rank}, expected 0 or more")
        if not 0 < self.alpha < math.inf:
            raise UsageError(f"--lora.alpha is {self.alpha}, expected a number above 0")
        if self.rank and not self.targets:
            raise UsageError("--lora.targets is empty: name a parameter, or give --lora.rank 0")


class _Target(NamedTuple):
    path: str
    leaf: Any
    axes: AxisNames


def with_low_rank(key: Key[Array, ""], model: Model, config: LoraConfig) -> Model:
    """``model`` with factors beside the weights that ``config.targets`` names.

    The first factor is random, the second zero: the model computes what it did before. Of rank 0,
    ``model`` itself.

    Raises:
        UsageError: a pattern names no weight.
    """
    if config.rank == 0:
        return model
    leaves, structure = jax.tree_util.tree_flatten_with_path(model)
    axes = jax.tree.leaves(parameter_axes(model), is_leaf=_is_axes)
    targets = [
        _Target(jax.tree_util.keystr(path, simple=True, separator="."), leaf, names)
        for (path, leaf), names in zip(leaves, axes, strict=True)
    ]
    _check_patterns(config.targets, [one.path for one in targets if one.path.endswith(ADAPTABLE)])
    vocab_size = getattr(getattr(model, "config", None), "vocab_size", None)
    adapted = [
        _adapted(jax.random.fold_in(key, index), target, config, vocab_size)
        if _is_chosen(target.path, config.targets)
        else target.leaf
        for index, target in enumerate(targets)
    ]
    model_with_factors: Model = jax.tree.unflatten(structure, adapted)
    return model_with_factors


def _adapted(
    key: Key[Array, ""], target: _Target, config: LoraConfig, vocab_size: int | None
) -> LowRank:
    """A weight is cut into a matrix where its ``embed`` axis ends or begins."""
    shape, names = target.leaf.shape, target.axes
    stacked = int(names[0] == "layers")
    cut = len(shape) - 1 if names[-1] == "embed" else stacked + 1
    # The published code draws uniformly with this variance. A table is looked up, not summed over.
    summed = 1 if target.path.endswith("_embedding") else math.prod(shape[stacked:cut])
    a = normal(key, (*shape[:cut], config.rank), 1 / math.sqrt(3 * summed))
    if names[0] == "vocab" and vocab_size is not None:
        # As in the table, what stands for no id is zero and stays it.
        a = jnp.where((jnp.arange(a.shape[0]) < vocab_size)[:, None], a, 0.0)
    b = jnp.zeros((*shape[:stacked], config.rank, *shape[cut:]))
    return LowRank(target.leaf, a, b, config.alpha / config.rank)


def _is_axes(node: Any) -> bool:
    return isinstance(node, AxisNames)


def _is_chosen(path: str, patterns: tuple[str, ...]) -> bool:
    return path.endswith(ADAPTABLE) and any(fnmatchcase(path, pattern) for pattern in patterns)


def _check_patterns(patterns: tuple[str, ...], paths: list[str]) -> None:
    for pattern in patterns:
        if not any(_is_chosen(path, (pattern,)) for path in paths):
            near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.3) or paths[:3]
            raise UsageError(
                f"--lora.targets {pattern} names no weight or embedding of this model: the nearest "
                f"are {', '.join(near)}"
            )
