"""How each array of a program is split over a mesh, found as XLA finds it: from what is known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax_lm.training.memory.program import Operation, Program, Value

Split = tuple[tuple[str, ...], ...]
"""The mesh axes that split each axis of an array."""
Splits = dict[Value, Split]


COMPUTED = ("dot_general", "gather", "reduce_", "scan", "scatter", "sharding_constraint")
"""Primitives whose results are split as their rule says and not as their users would like."""


def whole(value: Value) -> Split:
    """Split nowhere."""
    return ((),) * len(value.shape)


def split_of(spec: Sequence[Any], rank: int) -> Split:
    """A ``jax.sharding.PartitionSpec`` as axes' names."""
    given = [
        () if axes is None else (axes,) if isinstance(axes, str) else tuple(axes) for axes in spec
    ]
    return tuple(given + [()] * (rank - len(given)))


def find_splits(program: Program, known: Splits, mesh: Mapping[str, int]) -> None:
    """Add the split of every value of ``program`` to ``known``, which has that of its inputs."""
    for operation in program.operations:
        if operation.name == "scan":
            _of_scan(operation, known, mesh)
            continue
        given = [known.setdefault(value, whole(value)) for value in operation.inputs]
        rule = RULES.get(operation.name, _same_axes)
        if operation.name.startswith(("reduce_", "arg")) and "axes" in operation.params:
            rule = _reduced
        for value in operation.outputs:
            known[value] = _fitting(rule(operation, value, given), value, mesh)
    computed = set(program.inputs)
    for operation in program.operations:
        if operation.name.startswith(COMPUTED):
            computed.update(operation.outputs)
    for operation in reversed(program.operations):
        _go_back(operation, known, computed)


def _of_scan(operation: Operation, known: Splits, mesh: Mapping[str, int]) -> None:
    body = operation.body
    assert body is not None
    num_consts, num_carry = operation.params["num_consts"], operation.params["num_carry"]
    given = [known.setdefault(value, whole(value)) for value in operation.inputs]
    fixed = num_consts + num_carry
    inside = given[:fixed] + [split[1:] for split in given[fixed:]]
    for _ in range(2):  # what a carry comes to may split what it starts as
        known.update(zip(body.inputs, inside, strict=True))
        find_splits(body, known, mesh)
        for place, value in enumerate(body.outputs[:num_carry], start=num_consts):
            if not any(inside[place]):
                inside[place] = known.get(value, whole(value))
    carried = inside[num_consts:fixed]
    known.update(zip(operation.outputs[:num_carry], carried, strict=True))
    for place, value in enumerate(operation.inputs[num_consts:fixed]):
        if not any(known[value]):
            known[value] = carried[place]
    for stacked, value in zip(operation.outputs[num_carry:], body.outputs[num_carry:], strict=True):
        known[stacked] = ((), *known.get(value, whole(value)))


def _go_back(operation: Operation, known: Splits, computed: set[Value]) -> None:
    """Constants, and random numbers, are split as what they are joined with."""
    for value in operation.inputs:
        for result in operation.outputs:
            if value.shape == result.shape and value not in computed:
                known[value] = _joined(known[value], known[result])


def _joined(split: Split, other: Split) -> Split:
    """The first, with axes that only the other splits."""
    used = {axis for axes in split for axis in axes}
    return tuple(
        axes or tuple(axis for axis in also if axis not in used)
        for axes, also in zip(split, other, strict=True)
    )


def _fitting(split: Split, value: Value, mesh: Mapping[str, int]) -> Split:
    """Each mesh axis once, and only where it divides."""
    used: set[str] = set()
    fitted: list[tuple[str, ...]] = []
    for axes, size in zip(split, value.shape, strict=True):
        parts = count_parts(axes, mesh)
        free = parts > 1 and size % parts == 0 and not used.intersection(axes)
        fitted.append(axes if free else ())
        used.update(fitted[-1])
    return tuple(fitted)


def count_parts(axes: Sequence[str], mesh: Mapping[str, int]) -> int:
    """Parts that mesh axes split an axis into."""
    parts = 1
    for axis in axes:
        parts *= mesh.get(axis, 1)
    return parts


Rule = Callable[[Operation, Value, list[Split]], Split]


def _same_axes(operation: Operation, result: Value, given: list[Split]) -> Split:
    """Each axis as that of an input that has it too."""
    split = list(whole(result))
    for value, known in zip(operation.inputs, given, strict=True):
        if len(value.shape) == len(split):
            for axis, size in enumerate(result.shape):
                if value.shape[axis] == size and not split[axis]:
                    split[axis] = known[axis]
    return tuple(split)


def _leading(operation: Operation, result: Value, given: list[Split]) -> Split:
    """The axes of the first input, then others, as random numbers of many keys have."""
    rank = min(len(given[0]), len(result.shape))
    return (*given[0][:rank], *((),) * (len(result.shape) - rank))


def _broadcast(operation: Operation, result: Value, given: list[Split]) -> Split:
    split = list(whole(result))
    for value, known in zip(operation.inputs[:1], given[:1], strict=True):
        for axis, to in enumerate(operation.params["broadcast_dimensions"]):
            if value.shape[axis] == result.shape[to]:
                split[to] = known[axis]
    return tuple(split)


def _transposed(operation: Operation, result: Value, given: list[Split]) -> Split:
    return tuple(given[0][axis] for axis in operation.params["permutation"])


def _reduced(operation: Operation, result: Value, given: list[Split]) -> Split:
    gone = operation.params["axes"]
    return tuple(axes for place, axes in enumerate(given[0]) if place not in gone)


def _reshaped(operation: Operation, result: Value, given: list[Split]) -> Split:
    """An axis that is cut up, or joined with what follows it, is split in its leading part."""
    split = list(whole(result))
    starts: dict[int, int] = {}
    before = 1
    for axis, size in enumerate(result.shape):
        if size > 1:
            starts.setdefault(before, axis)
        before *= size
    before = 1
    for axis, size in enumerate(operation.inputs[0].shape):
        if size > 1 and before in starts:
            split[starts[before]] = given[0][axis]
        before *= size
    return tuple(split)


def _gathered(operation: Operation, result: Value, given: list[Split]) -> Split:
    """Rows of a table: the ids' axes, then those of the table that are taken whole."""
    numbers = operation.params["dimension_numbers"]
    sizes = operation.params["slice_sizes"]
    table = operation.inputs[0]
    left = [
        axes if size == table.shape[axis] else ()
        for axis, (axes, size) in enumerate(zip(given[0], sizes, strict=True))
        if axis not in numbers.collapsed_slice_dims and axis not in numbers.operand_batching_dims
    ]
    ids = iter(given[1][:-1])
    kept = iter(left)
    places = range(len(result.shape))
    return tuple(next(kept if place in numbers.offset_dims else ids, ()) for place in places)


def _product(operation: Operation, result: Value, given: list[Split]) -> Split:
    """Batch axes, then those of the left and of the right that are not summed over."""
    (summed_left, summed_right), (batch_left, batch_right) = operation.params["dimension_numbers"]
    left, right = given
    batch = [left[one] or right[other] for one, other in zip(batch_left, batch_right, strict=True)]
    rows = [axes for place, axes in enumerate(left) if place not in (*summed_left, *batch_left)]
    columns = [
        axes for place, axes in enumerate(right) if place not in (*summed_right, *batch_right)
    ]
    return (*batch, *rows, *columns)


def _constrained(operation: Operation, result: Value, given: list[Split]) -> Split:
    sharding = operation.params["sharding"]
    spec = getattr(sharding, "spec", None)
    return given[0] if spec is None else split_of(spec, len(result.shape))


RULES: Mapping[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "dot_general": _product,
    "gather": _gathered,
    "random_bits": _leading,
    "random_unwrap": _leading,
    "random_wrap": _leading,
    "reshape": _reshaped,
    "sharding_constraint": _constrained,
    "squeeze": _reshaped,
    "expand_dims": _reshaped,
    "transpose": _transposed,
}
"""By primitive; of all others the axes that are as long as an input's are split as that's."""
