"""What a program holds at the moment that it holds most, on each device."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from jax_lm.training.memory.fusion import WRITTEN, fuse
from jax_lm.training.memory.program import Operation, Program, Value
from jax_lm.training.memory.splits import Split, Splits, count_parts

Label = Callable[[Value, Operation], str]
"""What an array is for, given the operation that writes it."""
KEPT, WORKING = "kept activations", "working memory"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the walk has to know of where the program runs."""

    mesh: Mapping[str, int]
    """Devices along each axis."""
    wide_bfloat16: bool = False
    """Whether products of bfloat16 are computed on float32 copies, as XLA does on a CPU."""
    draw_copies: int = 0
    """Arrays as large as the random numbers that drawing them takes besides."""
    sums_by_library: bool = False
    """Whether sums read what they sum from memory, as XLA's do on a CPU."""
    flash_length: int | None = None
    """Positions of a row where flash attention never writes the scores of their pairs; None: no
    flash attention."""

    def is_scores(self, shape: tuple[int, ...]) -> bool:
        """Whether ``[batch heads queries keys]``, heads in groups too, is what is never written."""
        length = self.flash_length
        return (
            length is not None and len(shape) == 4 and shape[3] == length and not shape[2] % length
        )


class Peak(NamedTuple):
    """The fullest moment."""

    total: int
    """Bytes beyond the program's inputs."""
    parts: Counter[str]
    """The same, by what it is for."""


@dataclass
class _Held:
    """Arrays in memory now, and the most there was."""

    sizes: dict[Value, tuple[int, str]] = field(default_factory=dict)
    total: int = 0
    peak: Peak = field(default_factory=lambda: Peak(0, Counter()))

    def add(self, value: Value, size: int, label: str) -> None:
        if size and value not in self.sizes:
            self.sizes[value] = size, label
            self.total += size

    def drop(self, value: Value) -> None:
        self.total -= self.sizes.pop(value, (0, ""))[0]

    def look(self, more: Counter[str]) -> None:
        """Note this moment if it is the fullest; ``more`` is held besides."""
        total = self.total + more.total()
        if total > self.peak.total:
            parts = Counter(more)
            for size, label in self.sizes.values():
                parts[label] += size
            self.peak = Peak(total, parts)


@dataclass(frozen=True)
class Scope:
    """What is the same at every level of a program."""

    splits: Splits
    """How every value lies on the mesh."""
    machine: Machine
    label: Label


class Walk:
    """One level of a program, gone through in order."""

    def __init__(
        self,
        program: Program,
        scope: Scope,
        *,
        slices: frozenset[Value] = frozenset(),
        carried: Mapping[Value, Value] | None = None,
    ) -> None:
        """A walk that has not begun.

        Args:
            program: one level; a loop is one operation. Results of arithmetic that it returns are
                written over something else.
            scope: of the whole program.
            slices: inputs that are parts of arrays in memory.
            carried: of a loop: what it carries on, which lies in memory, and the input before it.
        """
        self._program, self._scope, self._slices = program, scope, slices
        self._carried = carried or {}
        kept = tuple(self._carried)
        by_library = scope.machine.sums_by_library
        self._fusion = fuse(program, scope.splits, kept, sums_by_library=by_library)
        self._stacks = set(_stacks(program))
        self._last = self._last_uses(kept)

    def peak(self) -> Peak:
        """The fullest moment."""
        held = _Held()
        for place, operation in enumerate(self._program.operations):
            sources = self._sources(operation)
            for value in sources & self._slices & self._fusion.needed:
                held.add(value, self._size(value), WORKING)
            dying = [value for value in sources if self._last[value] == place]
            for value in dying:
                if self._may_be_overwritten(operation, value):
                    held.drop(value)
            for value in operation.outputs:
                if value in self._fusion.written and not self._in_place(operation, value, place):
                    label = self._scope.label(value, operation)
                    held.add(value, self._size(value), label)
            held.look(self._besides(operation, place))
            for value in (*dying, *operation.outputs):
                if self._last.get(value, place) <= place:
                    held.drop(value)
        return held.peak

    def _last_uses(self, kept: tuple[Value, ...]) -> dict[Value, int]:
        """When each array in memory is read last."""
        last: dict[Value, int] = {}
        for place, operation in enumerate(self._program.operations):
            if any(value in self._fusion.written for value in operation.outputs):
                last.update(dict.fromkeys(self._sources(operation), place))
        roots, end = self._fusion.roots, len(self._program.operations)
        for value in kept:
            last.update(dict.fromkeys(roots.get(value, ()), end))
        for value in self._program.outputs:
            if value not in self._fusion.written:
                last.update({root: last.get(root, end) for root in roots.get(value, ())})
        return last

    def _sources(self, operation: Operation) -> frozenset[Value]:
        roots = self._fusion.roots
        return frozenset[Value]().union(*(roots.get(value, ()) for value in operation.inputs))

    def _may_be_overwritten(self, operation: Operation, value: Value) -> bool:
        """Whether a result may lie where an input lay that nobody reads any more."""
        if operation.name == "scan":
            consts, carry = operation.params["num_consts"], operation.params["num_carry"]
            begun = operation.inputs[consts : consts + carry]
            return any(value in self._fusion.roots.get(one, ()) for one in begun)
        return operation.name not in WRITTEN

    def _in_place(self, operation: Operation, value: Value, place: int) -> bool:
        """Whether a value takes the memory of the loop's own array that it follows."""
        before = self._carried.get(value)
        if before is None:
            return False
        last = self._last.get(before, place)
        return last < place or (last == place and operation.name not in WRITTEN)

    def _size(self, value: Value) -> int:
        in_a_layer = value.shape[1:] if value in self._stacks else value.shape
        if self._scope.machine.is_scores(in_a_layer):
            return 0
        size = size_of(value, self._scope.splits[value], self._scope.machine.mesh)
        return size * (2 if self._is_widened(value) and value not in self._stacks else 1)

    def _is_widened(self, value: Value) -> bool:
        return self._scope.machine.wide_bfloat16 and str(value.dtype) == "bfloat16"

    def _besides(self, operation: Operation, place: int) -> Counter[str]:
        """What an operation needs while it runs."""
        if operation.name == "scan":
            return self._in_loop(operation) + self._widened_stacks(operation, place)
        more: Counter[str] = Counter()
        if operation.name == "random_bits":
            size = sum(self._size(value) for value in operation.outputs)
            more[WORKING] += self._scope.machine.draw_copies * size
        if operation.name == "dot_general":
            for value, split in gathered(operation, self._scope.splits):
                size = size_of(value, split, self._scope.machine.mesh)
                more[WORKING] += size * (2 if self._is_widened(value) else 1)
        return more

    def _in_loop(self, operation: Operation) -> Counter[str]:
        """What one round of a loop holds besides what it carries."""
        body = operation.body
        assert body is not None
        consts, carry = operation.params["num_consts"], operation.params["num_carry"]
        before = body.inputs[consts : consts + carry]
        inside = Walk(
            body,
            self._scope,
            slices=frozenset(body.inputs[consts + carry :]),
            carried=dict(zip(body.outputs[:carry], before, strict=True)),
        )
        return inside.peak().parts

    def _widened_stacks(self, operation: Operation, place: int) -> Counter[str]:
        """Float32 copies of stacks of bfloat16 that one loop wrote and another reads.

        XLA moves the conversion out of the loop; about a quarter of what nobody else reads is not
        freed by then.
        """
        size = sum(
            self._size(value) * (1.25 if self._last[value] == place else 2)
            for value in self._sources(operation) & self._stacks
            if self._is_widened(value)
        )
        return Counter({KEPT: int(size)})


def _stacks(program: Program) -> Iterator[Value]:
    """What the loops of a program write, a slice in every round."""
    for operation in program.operations:
        if operation.name == "scan":
            yield from operation.outputs[operation.params["num_carry"] :]


def size_of(value: Value, split: Split, mesh: Mapping[str, int]) -> int:
    """Bytes of an array on each device."""
    lengths = (
        -(-size // count_parts(axes, mesh)) for size, axes in zip(value.shape, split, strict=True)
    )
    return value.itemsize * prod(lengths)


def gathered(operation: Operation, splits: Splits) -> Iterator[tuple[Value, Split]]:
    """The factor of a product that every device needs more of than it has, and its split then.

    It is the smaller one: a mesh axis that also splits another axis of the larger one cannot split
    it.
    """
    numbers = operation.params["dimension_numbers"]
    (summed, also_summed), (batch, also_batch) = numbers
    matched = dict(zip((*summed, *batch), (*also_summed, *also_batch), strict=True))
    value, other = operation.inputs
    if prod(value.shape) >= prod(other.shape):
        value, other = other, value
        matched = {theirs: ours for ours, theirs in matched.items()}
    kept = []
    for place, axes in enumerate(splits[value]):
        taken = {
            name
            for at, names in enumerate(splits[other])
            if at != matched.get(place)
            for name in names
        }
        kept.append(tuple(axis for axis in axes if axis not in taken))
    if tuple(kept) != splits[value]:
        yield value, tuple(kept)
