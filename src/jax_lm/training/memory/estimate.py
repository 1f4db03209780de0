"""Memory and operations of a training step, estimated from its trace in about a second."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import jax

from jax_lm.sharding.mesh import SEQUENCE
from jax_lm.training.memory.abstract_step import AbstractStep
from jax_lm.training.memory.liveness import KEPT, WORKING, Machine, Scope, Walk, size_of
from jax_lm.training.memory.program import Operation, Program, Value, read_program
from jax_lm.training.memory.splits import Splits, find_splits, split_of

GRADIENTS, COPY, LOGITS = "gradients", "weights in the compute dtype", "logits of a block"
MOVED = "moments being updated"
STATE = ("parameters", "optimizer moments", "averaged weights", "batch")
STEP = (GRADIENTS, COPY, KEPT, LOGITS, WORKING, MOVED)
"""In the order they are shown in."""
CPU_DRAWS = 5
"""What XLA's loop of threefry rounds carries on a CPU; elsewhere it is fused."""


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Bytes on each device at the fullest moment of a step."""

    parts: Mapping[str, int]
    """By what they are for: `STATE`, then `STEP`."""
    products: float
    """Floating point operations of matrix products in a step on all devices, with what is computed
    twice."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.parts.values())


def estimate(step: AbstractStep) -> MemoryEstimate:
    """What a step will take, within 15 % of what XLA reports for it once compiled for a CPU.

    The state's part is exact. The rest is the most that the traced step holds at once, under
    XLA's rules of what is fused, split over the mesh as the trace says. An accelerator gets flash
    attention where cuDNN's would compute what the model asks for, even if it was traced on a CPU.
    """
    on_cpu = step.kind == "cpu"
    mesh = dict(step.mesh.shape)
    program = read_program(step.traced.jaxpr)
    leaves = jax.tree.leaves((step.state, step.batch))
    splits: Splits = {
        value: split_of(leaf.sharding.spec, len(leaf.shape))
        for value, leaf in zip(program.inputs, leaves, strict=True)
    }
    find_splits(program, splits, mesh)
    sizes = [size_of(value, splits[value], mesh) for value in program.inputs]
    parts = Counter(_state_parts(step, sizes))
    machine = Machine(
        mesh=mesh,
        wide_bfloat16=on_cpu,
        draw_copies=CPU_DRAWS if on_cpu else 0,
        sums_by_library=on_cpu,
        flash_length=None if on_cpu else _flash_length(step),
    )
    peak = Walk(program, Scope(splits, machine, _Labels(step, splits))).peak()
    parts.update(peak.parts)
    if on_cpu:
        parts[MOVED] = _moments_copied(parts)
    ordered = {name: parts[name] for name in (*STATE, *STEP) if parts[name]}
    return MemoryEstimate(parts=ordered, products=_products(program))


def _flash_length(step: AbstractStep) -> int | None:
    """Positions of a row, where flash attention computes the model's."""
    config = step.config
    takes_it = config.model.kind == "decoder" and config.dtype != "float32"
    split = step.mesh.shape[SEQUENCE] > 1
    return config.sequence_length if takes_it and not split and not config.model.drops else None


def _state_parts(step: AbstractStep, sizes: list[int]) -> dict[str, int]:
    """Bytes of what the step is given, which it writes its results over."""
    state = step.state
    counts = [len(jax.tree.leaves(part)) for part in (state.model, state.optimizer, state.average)]
    ends = [sum(counts[: place + 1]) for place in range(len(counts))] + [len(sizes)]
    starts = [0, *ends[:-1]]
    totals = [sum(sizes[start:end]) for start, end in zip(starts, ends, strict=True)]
    return dict(zip(STATE, totals, strict=True))


def _moments_copied(parts: Mapping[str, int]) -> int:
    """Copies of moments, and of averages, that XLA makes on a CPU before it writes over them.

    Gradients then take the moments' own place. About half of the rest is there at the fullest
    moment.
    """
    changed = parts["optimizer moments"] + parts["averaged weights"]
    return max(0, changed - parts[GRADIENTS]) // 2


class _Labels:
    """What an array is for, by its shape and by what writes it."""

    def __init__(self, step: AbstractStep, splits: Splits) -> None:
        model: Any = step.state.model
        self._parameters = {tuple(leaf.shape) for leaf in jax.tree.leaves(model)}
        weight = jax.eval_shape(lambda model: model.unembedding.weight, model)
        self._vocab = weight.shape[0]
        self._splits = splits

    def __call__(self, value: Value, operation: Operation) -> str:
        is_weight = bool(self._parameters.intersection((value.shape, value.shape[1:])))
        if operation.name == "convert_element_type" and is_weight:
            return COPY
        if operation.name == "sharding_constraint" and not any(self._splits[value]):
            return WORKING  # gathered
        if is_weight:
            return GRADIENTS
        if operation.name == "scan":
            return KEPT
        is_block = len(value.shape) > 2 and value.shape[-1] == self._vocab
        return LOGITS if is_block else WORKING


def _products(program: Program) -> float:
    """Multiplications and additions of products, those in loops as often as they run."""
    total = 0.0
    for operation in program.operations:
        if operation.body is not None:
            total += operation.params["length"] * _products(operation.body)
        elif operation.name == "dot_general":
            (summed, _), _ = operation.params["dimension_numbers"]
            inner = prod(operation.inputs[0].shape[axis] for axis in summed)
            total += 2.0 * inner * prod(operation.outputs[0].shape)
    return total
