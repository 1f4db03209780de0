"""What a family's table is made of: rules, each with a transform that can be inverted."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Transform:
    """A pair of inverse functions between one tensor of theirs and one or more of ours."""

    to_ours: Callable[[np.ndarray], Arrays]
    to_theirs: Callable[[Arrays], np.ndarray]


IDENTITY = Transform(lambda theirs: (theirs,), lambda ours: ours[0])


def heads_first(num_heads: int) -> Transform:
    """``[heads * head_dim, *rest]`` <-> ``[heads, head_dim, *rest]``."""
    return Transform(
        lambda theirs: (theirs.reshape(num_heads, -1, *theirs.shape[1:]),),
        lambda ours: ours[0].reshape(-1, *ours[0].shape[2:]),
    )


def fused_heads(num_parts: int, num_heads: int) -> Transform:
    """``[*rest, parts * heads * head_dim]`` <-> ``parts`` times ``[*rest, heads, head_dim]``."""

    def to_ours(theirs: np.ndarray) -> Arrays:
        parts = np.split(theirs, num_parts, axis=-1)
        return tuple(part.reshape(*part.shape[:-1], num_heads, -1) for part in parts)

    def to_theirs(ours: Arrays) -> np.ndarray:
        return np.concatenate([part.reshape(*part.shape[:-2], -1) for part in ours], axis=-1)

    return Transform(to_ours, to_theirs)


@dataclass(frozen=True)
class Rule:
    """Where one tensor of theirs lives in our model."""

    hf_name: str
    """With ``{layer}`` where every block has one."""
    our_paths: tuple[str, ...]
    """Fields joined with dots; a block's parameter is a slice of a stacked array."""
    transform: Transform = IDENTITY

    @property
    def layered(self) -> bool:
        """Whether every block has such a tensor."""
        return "{layer}" in self.hf_name

    def places(self, num_layers: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Each tensor's name and the index of its values in our array."""
        if not self.layered:
            yield self.hf_name, ()
            return
        for layer in range(num_layers):
            yield self.hf_name.format(layer=layer), (layer,)


@dataclass(frozen=True)
class Table:
    """All of a family's weights."""

    rules: tuple[Rule, ...]
    prefix: str = ""
    """Before every name in the files transformers writes; files without it are read too."""
    tied: Mapping[str, str] = field(default_factory=dict)
    """Copies that a file may hold, each with the name of what it must equal."""
    ignored: re.Pattern[str] = re.compile(r"(?!)")
    """Names that hold no weights (buffers of older versions)."""
