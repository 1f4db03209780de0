"""Which arrays of a program are written to memory, and which exist only inside other operations.

XLA fuses arithmetic into what reads it, unless several operations read it and it is costly to
repeat. Products, reductions, gathers and loops write their results, and read theirs from memory.
"""

from collections import Counter
from typing import NamedTuple

from jax_lm.training.memory.program import LOOPS, Operation, Program, Value
from jax_lm.training.memory.splits import Splits

VIEWS = ("reshape", "squeeze", "expand_dims", "transpose", "copy", "optimization_barrier")
"""The same numbers, read otherwise."""
ATTENTION = ("dot_product_attention_fwd_wrapper", "dot_product_attention_bwd_wrapper")
"""cuDNN's."""
PRODUCTS = ("conv_general_dilated", "custom_call", "dot_general", *ATTENTION)
MOVED = ("dynamic_update_slice", "gather", "scatter", "scatter-add", "sort", "top_k")
WRITTEN = frozenset((*LOOPS, *PRODUCTS, *MOVED, "cumsum", "random_bits"))
"""What is never fused into its users and reads its inputs from memory."""
REDUCTIONS = (
    "argmax",
    "argmin",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_sum",
)
"""What writes a small result and has its inputs fused into it."""
COSTLY = ("exp", "log", "tanh", "logistic", "erf", "div", "rsqrt", "sqrt", "pow", "sin", "cos")
"""Arithmetic that is not repeated for every user."""


class Fusion(NamedTuple):
    """What a program writes and reads."""

    needed: set[Value]
    """What some operation reads from memory."""
    written: set[Value]
    """What is written there, inputs not among it."""
    roots: dict[Value, frozenset[Value]]
    """What lies in memory of what a value is computed from when it is read."""


def fuse(
    program: Program, splits: Splits, kept: tuple[Value, ...], *, sums_by_library: bool = False
) -> Fusion:
    """Decide for every value of a program.

    Args:
        program: one level of it; a loop is one operation.
        splits: how values lie on the mesh; one that comes to lie otherwise is written.
        kept: outputs that must lie in memory in the end.
        sums_by_library: what is summed, or squared and summed, is read from memory.
    """
    needed, users = set(kept), Counter(kept)
    squared = {one.outputs[0]: one.inputs[0] for one in program.operations if _is_square(one)}
    for operation in reversed(program.operations):
        if is_view(operation, splits):
            source, result = operation.inputs[0], operation.outputs[0]
            users[source] += users[result]
            needed.update([source] if result in needed else [])
            continue
        users.update(set(operation.inputs))
        if operation.name in WRITTEN:
            needed.update(operation.inputs)
        if operation.name == "reduce_sum" and sums_by_library:
            needed.update(squared.get(value, value) for value in operation.inputs)
    roots = {value: frozenset([value]) for value in program.inputs}
    written: set[Value] = set()
    for operation in program.operations:
        sources = frozenset[Value]().union(*(roots.get(one, ()) for one in operation.inputs))
        for value in operation.outputs:
            if _is_written(operation, value, needed, users, splits):
                written.add(value)
                roots[value] = frozenset([value])
            else:
                roots[value] = sources
    return Fusion(needed, written, roots)


def is_view(operation: Operation, splits: Splits) -> bool:
    """Whether the result is the input, read otherwise."""
    if operation.name == "sharding_constraint":
        return splits[operation.inputs[0]] == splits[operation.outputs[0]]
    return operation.name in VIEWS and bool(operation.inputs)


def _is_square(operation: Operation) -> bool:
    if operation.name == "integer_pow":
        return bool(operation.params["y"] == 2)
    return operation.name in ("mul", "square") and len(set(operation.inputs)) == 1


def _is_written(
    operation: Operation,
    value: Value,
    needed: set[Value],
    users: Counter[Value],
    splits: Splits,
) -> bool:
    if is_view(operation, splits):
        return False
    if operation.name in WRITTEN or operation.name in REDUCTIONS:
        return True
    if operation.name == "sharding_constraint":
        return True
    return value in needed or (operation.name in COSTLY and users[value] > 1)
