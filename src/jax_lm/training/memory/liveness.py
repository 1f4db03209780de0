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
LAYERS = "kept activations"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the walk has to know of where the program runs."""

    mesh: Mapping[str, int]
    """Devices along each axis."""
    widens: bool = False
    """Whether products of 16-bit numbers are computed on float32 copies of them, as on a CPU."""
    draw_copies: int = 0
    """Arrays as large as random numbers that drawing them takes besides."""


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


class Walk:
    """One level of a program, gone through in order."""

    def __init__(
        self,
        program: Program,
        splits: Splits,
        machine: Machine,
        label: Label,
        *,
        kept: tuple[Value, ...] = (),
        slices: frozenset[Value] = frozenset(),
        carried: Mapping[Value, Value] | None = None,
    ) -> None:
        """A walk that has not begun.

        Args:
            program: one level of it.
            splits: how values lie on the mesh.
            machine: where it runs.
            label: what arrays are for.
            kept: outputs that need memory of their own.
            slices: inputs that are parts of arrays in memory.
            carried: outputs and the inputs whose memory they may take over.
        """
        self._program, self._splits, self._machine = program, splits, machine
        self._label, self._kept, self._slices = label, kept, slices
        self._carried = carried or {}
        self._fusion = fuse(program, splits, kept)
        self._last = self._last_uses()
        self._stacks = {
            value
            for operation in program.operations
            if operation.name == "scan"
            for value in operation.outputs[operation.params["num_carry"] :]
        }

    def peak(self) -> Peak:
        """The fullest moment."""
        held = _Held()
        for place, operation in enumerate(self._program.operations):
            sources = self._sources(operation)
            for value in sources & self._slices & self._fusion.needed:
                held.add(value, self._size(value), "working memory")
            more = self._besides(operation, place)
            dying = [value for value in sources if self._last[value] == place]
            for value in dying:
                if self._takes_over(operation, value):
                    held.drop(value)
            for value in operation.outputs:
                if value in self._fusion.written and not self._in_place(value, place):
                    held.add(value, self._size(value), self._label(value, operation))
            held.look(more)
            for value in (*dying, *operation.outputs):
                if self._last.get(value, place) <= place:
                    held.drop(value)
        return held.peak

    def _last_uses(self) -> dict[Value, int]:
        """When each array in memory is read last; never for what must stay."""
        last: dict[Value, int] = {}
        for place, operation in enumerate(self._program.operations):
            if any(value in self._fusion.written for value in operation.outputs):
                for value in self._sources(operation):
                    last[value] = place
        end = len(self._program.operations)
        for value in self._kept:
            last.update(dict.fromkeys(self._fusion.roots.get(value, ()), end))
        for value in self._program.outputs:
            for root in self._fusion.roots.get(value, ()):
                if root in self._program.inputs or value not in self._fusion.written:
                    last.setdefault(root, end)
        return last

    def _sources(self, operation: Operation) -> frozenset[Value]:
        roots = self._fusion.roots
        return frozenset[Value]().union(*(roots.get(value, ()) for value in operation.inputs))

    def _takes_over(self, operation: Operation, value: Value) -> bool:
        """Whether a result may lie where an input lay that nobody reads any more."""
        if operation.name == "scan":
            consts, carry = operation.params["num_consts"], operation.params["num_carry"]
            begun = operation.inputs[consts : consts + carry]
            return any(value in self._fusion.roots.get(one, ()) for one in begun)
        return operation.name not in WRITTEN

    def _in_place(self, value: Value, place: int) -> bool:
        """Whether a value takes the memory of the loop's own array that it follows."""
        before = self._carried.get(value)
        return before is not None and self._last.get(before, place) <= place

    def _size(self, value: Value) -> int:
        size = size_of(value, self._splits[value], self._machine.mesh)
        widened = self._machine.widens and value.is_short and value not in self._stacks
        return size * (2 if widened else 1)

    def _besides(self, operation: Operation, place: int) -> Counter[str]:
        """What an operation needs while it runs."""
        if operation.name == "scan":
            return self._of_scan(operation, place)
        more: Counter[str] = Counter()
        if operation.name == "random_bits":
            size = sum(self._size(value) for value in operation.outputs)
            more["working memory"] += self._machine.draw_copies * size
        if operation.name == "dot_general":
            for value, split in gathered(operation, self._splits):
                size = size_of(value, split, self._machine.mesh)
                widened = self._machine.widens and value.is_short
                more["working memory"] += size * (2 if widened else 1)
        return more

    def _of_scan(self, operation: Operation, place: int) -> Counter[str]:
        body = operation.body
        assert body is not None
        consts, carry = operation.params["num_consts"], operation.params["num_carry"]
        inside = Walk(
            body,
            self._splits,
            self._machine,
            self._label,
            kept=body.outputs[:carry],
            slices=frozenset(body.inputs[consts + carry :]),
            carried=dict(
                zip(body.outputs[:carry], body.inputs[consts : consts + carry], strict=True)
            ),
        )
        more = Counter(inside.peak().parts)
        if self._machine.widens:
            self._widen(operation, place, more)
        return more

    def _widen(self, operation: Operation, place: int, more: Counter[str]) -> None:
        """Stacks of 16-bit numbers that a loop wrote are made float32 before another reads them."""
        stacks = {value for value in self._sources(operation) if value in self._stacks}
        for value in stacks:
            if value.is_short:
                times = 1 if self._last[value] == place else 2
                more["kept activations"] += times * self._size(value)


def size_of(value: Value, split: Split, mesh: Mapping[str, int]) -> int:
    """Bytes of an array on each device."""
    lengths = (
        -(-size // count_parts(axes, mesh)) for size, axes in zip(value.shape, split, strict=True)
    )
    return value.itemsize * prod(lengths)


def gathered(operation: Operation, splits: Splits) -> Iterator[tuple[Value, Split]]:
    """Factors of a product that every device needs more of than it has, and their split then."""
    left, right = operation.inputs
    (summed_left, summed_right), (batch_left, batch_right) = operation.params["dimension_numbers"]
    matched = [dict(zip((*summed_left, *batch_left), (*summed_right, *batch_right), strict=True))]
    matched.append({other: one for one, other in matched[0].items()})
    sizes = [prod(value.shape) for value in (left, right)]
    smaller = 0 if sizes[0] < sizes[1] else 1
    value, other = operation.inputs[smaller], operation.inputs[1 - smaller]
    split, theirs = splits[value], splits[other]
    kept = []
    for place, axes in enumerate(split):
        match = matched[smaller].get(place)
        used = {axis for at, names in enumerate(theirs) if at != match for axis in names}
        kept.append(tuple(axis for axis in axes if axis not in used))
    if tuple(kept) != split:
        yield value, tuple(kept)
