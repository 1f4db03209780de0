"""A traced step as lists: what is left out, how arrays are split, what is held at once."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jax_lm.training.memory.fusion import fuse
from jax_lm.training.memory.liveness import Machine, Scope, Walk
from jax_lm.training.memory.program import Program, Value, read_program
from jax_lm.training.memory.splits import Split, Splits, find_splits, split_of, whole

MESH = {"data": 2, "fsdp": 2, "tensor": 4}
ROWS = (("data", "fsdp"), (), ())


def program_of(function: Any, *shapes: tuple[int, ...]) -> Program:
    inputs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return read_program(jax.jit(function).trace(*inputs).jaxpr)


def splits_of(program: Program, *given: Split) -> Splits:
    known = dict(zip(program.inputs, given, strict=True))
    find_splits(program, known, MESH)
    return known


def peak_of(function: Any, *shapes: tuple[int, ...], **machine: Any) -> int:
    """Bytes beyond the inputs, on one device."""
    program = program_of(function, *shapes)
    known = {value: whole(value) for value in program.inputs}
    find_splits(program, known, {})
    scope = Scope(known, Machine(mesh={}, **machine), lambda value, operation: operation.name)
    found = Walk(program, scope).peak()
    assert found.total == Counter(found.parts).total()
    return found.total


def test_calls_are_written_out_and_what_nobody_reads_is_left_out() -> None:
    def step(x: jax.Array) -> jax.Array:
        jnp.sin(x)  # read by nobody
        return jax.jit(jnp.cos)(jax.jit(jnp.cos)(x))

    assert [one.name for one in program_of(step, (4,)).operations] == ["cos", "cos"]


def test_a_loop_carries_only_what_is_read() -> None:
    def step(x: jax.Array, unread: jax.Array) -> jax.Array:
        def body(carry: Any, row: jax.Array) -> Any:
            kept, also, other = carry
            return (kept + also, also * 2.0, other * row), (row, jnp.sin(row))

        (kept, _, _), (_, sines) = jax.lax.scan(body, (x[0], x[0], unread), x)
        return kept + sines[0]

    program = program_of(step, (5, 4), (4,))
    (scan,) = [one for one in program.operations if one.name == "scan"]
    assert scan.params["num_carry"] == 2 and len(scan.outputs) == 3
    assert scan.body is not None and "mul" in [one.name for one in scan.body.operations]
    assert len(scan.inputs) == 3 and program.inputs[1] not in scan.inputs


@pytest.mark.parametrize(
    ("function", "shapes", "given", "expected"),
    [
        (lambda x: x.reshape(8, 4, 4, 2), [(8, 16, 2)], [ROWS], (*ROWS[:2], (), ())),
        (lambda x: x.reshape(128, 2), [(8, 16, 2)], [ROWS], (("data", "fsdp"), ())),
        (lambda x: x.transpose(1, 0, 2), [(8, 16, 2)], [ROWS], ((), ("data", "fsdp"), ())),
        (lambda x: x.sum(axis=1), [(8, 16, 2)], [ROWS], (("data", "fsdp"), ())),
        (lambda x: x[:, None] + 1.0, [(8, 16, 2)], [ROWS], (("data", "fsdp"), (), (), ())),
        (
            lambda x, w: jnp.einsum("bte,eh->bth", x, w),
            [(8, 16, 2), (2, 8)],
            [ROWS, ((), ("tensor",))],
            (("data", "fsdp"), (), ("tensor",)),
        ),
        # fsdp splits the rows already, and 6 columns do not divide by 4.
        (
            lambda x, w: jnp.einsum("bte,eh->bth", x, w),
            [(8, 16, 2), (2, 6)],
            [ROWS, (("fsdp",), ("tensor",))],
            ROWS,
        ),
        (
            lambda table, x: table[x.astype(jnp.int32)],
            [(64, 4), (8, 16)],
            [((), ("tensor",)), (("data",), ())],
            (("data",), (), ("tensor",)),
        ),
        (
            lambda x: jax.lax.scan(lambda c, row: (c, row * 2.0), 0.0, x)[1],
            [(3, 8, 2)],
            [((), ("data",), ())],
            ((), ("data",), ()),
        ),
    ],
)
def test_results_are_split_as_what_they_come_from(
    function: Any, shapes: list[tuple[int, ...]], given: list[Split], expected: Split
) -> None:
    program = program_of(function, *shapes)
    assert splits_of(program, *given)[program.outputs[0]] == expected


def test_random_numbers_are_split_as_what_they_are_joined_with() -> None:
    def step(x: jax.Array) -> jax.Array:
        return x * jax.random.bernoulli(jax.random.key(0), 0.5, x.shape)

    program = program_of(step, (8, 4))
    known = splits_of(program, (("data",), ("tensor",)))
    (bits,) = [one for one in program.operations if one.name == "random_bits"]
    assert known[bits.outputs[0]] == (("data",), ("tensor",))


def test_a_spec_may_leave_axes_out() -> None:
    spec = jax.sharding.PartitionSpec(("data", "fsdp"), None, "tensor")
    assert split_of(spec, 4) == (("data", "fsdp"), (), ("tensor",), ())


def written(program: Program, **options: bool) -> set[str]:
    splits = {value: whole(value) for value in program.inputs}
    find_splits(program, splits, {})
    values: set[Value] = fuse(program, splits, (), **options).written
    return {one.name for one in program.operations if values.intersection(one.outputs)}


def test_arithmetic_is_written_only_where_it_must_be() -> None:
    def step(x: jax.Array) -> jax.Array:
        return jnp.sin(x + 1.0) @ x

    assert written(program_of(step, (4, 4))) == {"sin", "dot_general"}

    def twice(x: jax.Array) -> jax.Array:
        weights = jnp.exp(x)  # costly, and read twice
        return weights / weights.sum()

    assert written(program_of(twice, (4, 4))) == {"exp", "reduce_sum"}

    def norm(x: jax.Array) -> jax.Array:
        return jnp.square(x * 2.0).sum()

    assert written(program_of(norm, (4, 4))) == {"reduce_sum"}
    assert written(program_of(norm, (4, 4)), sums_by_library=True) == {"reduce_sum", "mul"}


def test_memory_is_that_of_the_fullest_moment() -> None:
    size = 4 * 64 * 64
    shape = (64, 64)
    assert peak_of(lambda x: (x @ x) @ x, shape) == 2 * size
    assert peak_of(lambda x: jnp.sin(x @ x).sum(), shape) == size
    # A loop: the carry is written over itself, and what a round keeps is stacked.
    rounds = peak_of(lambda x: jax.lax.scan(lambda c, _: (c @ x, None), x, None, 10)[0], shape)
    assert rounds == 2 * size
    stacked = peak_of(lambda x: jax.lax.scan(lambda c, _: (c @ x, c), x, None, 10)[1], shape)
    assert stacked >= 10 * size


def test_what_never_reaches_memory_is_not_counted() -> None:
    def step(x: jax.Array) -> jax.Array:
        scores = jnp.einsum("bhtd,bhsd->bhts", x, x)
        return jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(scores), x)

    shape = (2, 2, 64, 16)
    assert peak_of(step, shape) > 2 * 2 * 64 * 64 * 4
    assert peak_of(step, shape, flash_length=64) < 2 * 2 * 64 * 64 * 4


def test_random_numbers_take_copies_on_a_cpu() -> None:
    def step(x: jax.Array) -> jax.Array:
        return (x * jax.random.bernoulli(jax.random.key(0), 0.5, x.shape)) @ x

    drawn = peak_of(step, (64, 64), draw_copies=5)
    assert drawn >= peak_of(step, (64, 64)) + 4 * 4 * 64 * 64
