"""What a family's table is made of: rules, each with a transform that can be inverted."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Transform:
    """A pair of inverse functions between one tensor of theirs and one or more of ours.

    Both give views where they can: nothing is copied before it reaches its place.
    """

    to_ours: Callable[[np.ndarray], Arrays]
    to_theirs: Callable[[Arrays], np.ndarray]
    same_bytes: bool = False
    """Whether one array stays one array with its values in the same order."""
    rows: int | None = None
    """Rows of our array that have a value in the files; the others are padding, zero when read
    and cut when written. None: all."""


IDENTITY = Transform(lambda theirs: (theirs,), lambda ours: ours[0], same_bytes=True)
TRANSPOSE = Transform(lambda theirs: (theirs.T,), lambda ours: ours[0].T)
"""``[out, in]``, as ``torch.nn.Linear`` stores a matrix, <-> ``[in, out]``."""
SQUEEZE = Transform(lambda theirs: (theirs[0],), lambda ours: ours[0][None], same_bytes=True)
"""``[1, *rest]`` <-> ``[*rest]``."""


def compose(first: Transform, second: Transform) -> Transform:
    """From theirs to ours by ``first``, which gives one array, and then by ``second``."""
    return Transform(
        lambda theirs: second.to_ours(first.to_ours(theirs)[0]),
        lambda ours: first.to_theirs((second.to_theirs(ours),)),
        same_bytes=first.same_bytes and second.same_bytes,
        rows=second.rows,
    )


def vocabulary(vocab_size: int | None) -> Transform:
    """``[vocab_size, *rest]`` <-> ``[padded vocabulary, *rest]``: an embedding, a head's bias."""
    assert vocab_size is not None, "vocab_size comes from the tokenizer"
    return replace(IDENTITY, rows=vocab_size)


def heads_first(num_heads: int) -> Transform:
    """``[heads * head_dim, *rest]`` <-> ``[heads, head_dim, *rest]``: a bias, a Conv1D back."""
    return Transform(
        lambda theirs: (theirs.reshape(num_heads, -1, *theirs.shape[1:]),),
        lambda ours: ours[0].reshape(-1, *ours[0].shape[2:]),
        same_bytes=True,
    )


def linear_to_heads(num_heads: int) -> Transform:
    """``[heads * head_dim, embed]`` <-> ``[embed, heads, head_dim]``: a Linear to the heads.

    Its bias too: ``[heads * head_dim]`` <-> ``[heads, head_dim]``.
    """
    return compose(heads_first(num_heads), _HEADS_LAST)


def linear_from_heads(num_heads: int) -> Transform:
    """``[embed, heads * head_dim]`` <-> ``[heads, head_dim, embed]``: a Linear from the heads."""
    return compose(TRANSPOSE, heads_first(num_heads))


def fused_heads(num_parts: int, num_heads: int) -> Transform:
    """``[*rest, parts * heads * head_dim]`` <-> ``parts`` times ``[*rest, heads, head_dim]``."""

    def to_ours(theirs: np.ndarray) -> Arrays:
        parts = np.split(theirs, num_parts, axis=-1)
        return tuple(part.reshape(*part.shape[:-1], num_heads, -1) for part in parts)

    def to_theirs(ours: Arrays) -> np.ndarray:
        return np.concatenate([part.reshape(*part.shape[:-2], -1) for part in ours], axis=-1)

    return Transform(to_ours, to_theirs)


def interleaved_heads(num_parts: int, num_heads: int) -> Transform:
    """``[heads * parts * head_dim, embed]`` <-> ``parts`` times ``[embed, heads, head_dim]``.

    A Linear whose output holds query, key and value head by head. Its bias too:
    ``[heads * parts * head_dim]`` <-> ``parts`` times ``[heads, head_dim]``.
    """

    def to_ours(theirs: np.ndarray) -> Arrays:
        heads = theirs.reshape(num_heads, num_parts, -1, *theirs.shape[1:])
        return tuple(_HEADS_LAST.to_ours(heads[:, part])[0] for part in range(num_parts))

    def to_theirs(ours: Arrays) -> np.ndarray:
        heads = np.stack([_HEADS_LAST.to_theirs((part,)) for part in ours], axis=1)
        return heads.reshape(-1, *heads.shape[3:])

    return Transform(to_ours, to_theirs)


_HEADS_LAST = Transform(
    lambda theirs: (np.moveaxis(theirs, (0, 1), (-2, -1)),),
    lambda ours: np.moveaxis(ours[0], (-2, -1), (0, 1)),
)
"""``[heads, head_dim, *rest]`` <-> ``[*rest, heads, head_dim]``."""


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


@dataclass(frozen=True, kw_only=True)
class Table:
    """All of a family's weights, named as the files that transformers writes name them."""

    rules: tuple[Rule, ...]
    """Their names come after ``prefix``."""
    prefix: str = ""
    """Such as ``model.``; files without it are read too."""
    heads: tuple[Rule, ...] = ()
    """Tensors that have no prefix, such as an output matrix of its own."""
    tied: Mapping[str, str] = field(default_factory=dict)
    """Copies that a file may hold, each with the name (without prefix) of what it must equal."""
    optional: frozenset[str] = frozenset()
    """Names (without prefix) that a file may lack: they are zero then."""
    older_names: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions of names in older files, each with its replacement."""
    ignored: re.Pattern[str] = re.compile(r"(?!)")
    """Names (without prefix) that hold no weights, such as buffers of older versions."""

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """With and without prefix."""
        return (*self.rules, *self.heads)

    def written_name(self, rule: Rule, name: str) -> str:
        """What a tensor of ``rule`` is called in the files we write."""
        return name if rule in self.heads else self.prefix + name

    def short_name(self, stored: str) -> str:
        """What the rules call a tensor of a file."""
        for pattern, replacement in self.older_names.items():
            stored = re.sub(pattern, replacement, stored)
        return stored.removeprefix(self.prefix)


def pair(ours: str, theirs: str, transform: Transform = IDENTITY) -> Rule:
    """The commonest rule: one tensor, one array."""
    return Rule(theirs, (ours,), transform)


def linear(
    ours: str,
    theirs: str,
    transform: Transform = TRANSPOSE,
    bias: Transform | None = IDENTITY,
) -> tuple[Rule, ...]:
    """The rules of a ``torch.nn.Linear``: ``ours_weight`` and ``ours_bias``.

    Args:
        ours: the path without ``_weight`` and ``_bias``.
        theirs: the name without ``.weight`` and ``.bias``.
        transform: of the matrix.
        bias: of the bias; None: it has none.
    """
    weight = Rule(f"{theirs}.weight", (f"{ours}_weight",), transform)
    return (weight,) if bias is None else (weight, Rule(f"{theirs}.bias", (f"{ours}_bias",), bias))


def norm(ours: str, theirs: str, *, bias: bool = True) -> tuple[Rule, ...]:
    """The rules of a normalisation layer: ``ours.scale`` and ``ours.bias``."""
    scale = Rule(f"{theirs}.weight", (f"{ours}.scale",))
    return (scale, Rule(f"{theirs}.bias", (f"{ours}.bias",))) if bias else (scale,)
