"""What a run would be: its numbers, its memory and its work, without a step or a run directory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jax_lm.checkpoints.layout import Progress
from jax_lm.objectives.base import RowDraws
from jax_lm.sharding.mesh import make_mesh, row_shards
from jax_lm.training.beginning.state import starting_weights
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData, open_data
from jax_lm.training.measuring.throughput import flops_per_token
from jax_lm.training.memory.abstract_step import (
    AbstractStep,
    batch_shapes,
    compiled_size,
    trace_step,
)
from jax_lm.training.memory.available import device_memory
from jax_lm.training.memory.estimate import STATE, STEP, MemoryEstimate, estimate
from jax_lm.training.memory.published import with_published_tokens
from jax_lm.training.memory.remedies import remedies
from jax_lm.training.memory.sizes import shown
from jax_lm.training.plan import LENGTHS, Plan, make_plan
from jax_lm.training.summary import described_model, described_weights, summarise
from jax_lm.types import Batch

Say = Callable[[str], None]
WIDTH = 40
SMALLER = "a smaller model, or --mesh.fsdp over more devices"


class Resolved(NamedTuple):
    """A run whose every number is known."""

    config: TrainConfig
    plan: Plan
    batch: Batch
    """Shapes."""
    lines: tuple[str, ...]
    """What the run would say of itself."""


def dry_run(config: TrainConfig, *, compiling: bool = False, say: Say = print) -> MemoryEstimate:
    """Tell what a run would take, and leave nothing behind.

    Data that is named is opened as the run would open it; without any, the vocabulary is the
    model's own, or that of the most similar preset.

    Args:
        config: of the run.
        compiling: compile the step ahead of time, and tell XLA's figures beside the estimate.
        say: receives lines.

    Raises:
        JaxLMError: what the run itself would raise before its first step.
    """
    mesh = make_mesh(config.mesh)
    resolved = _resolved(config, mesh, say)
    step = trace_step(resolved.config, mesh, resolved.batch)
    columns = {"here": estimate(step)}
    if step.kind == "cpu":
        elsewhere = trace_step(resolved.config, mesh, resolved.batch, on="accelerator")
        columns = {"on a CPU": columns["here"], "GPU or TPU": estimate(elsewhere)}
    found = next(iter(columns.values()))
    for line in (*resolved.lines, described_weights(resolved.config, step.state.model)):
        say(line)
    for line in _memory(mesh, columns):
        say(line)
    if compiling:
        for line in _compiled(step, found):
            say(line)
    for line in (*_fits(resolved, mesh, found), *_work(resolved, mesh, found)):
        say(line)
    return found


def _resolved(config: TrainConfig, mesh: Mesh, say: Say) -> Resolved:
    shards = row_shards(mesh)
    if config.data.train:
        if config.init_from is not None:
            # As where a checkpoint takes their place: the tokenizer comes with them, no weights.
            config, _ = starting_weights(config, Path(config.run_dir), mesh, say)
        data, config = open_data(config, say)
        plan = make_plan(config, rows=len(data.train), row_shards=shards)
        progress = Progress(step=0, position=0, tokens=0, data=data.train.fingerprint)
        lines = tuple(summarise(config, plan, data, mesh, progress))
        return Resolved(config, plan, _like_rows(data, plan.batch_size), lines)
    config = with_published_tokens(config, say)
    if all(getattr(config, name) is None for name in LENGTHS):
        config = replace(config, steps=1)
    plan = make_plan(config, rows=1, row_shards=shards)
    lines = (
        described_model(config.model),
        f"batch     {plan.batch_size} rows of {plan.sequence_length} tokens "
        f"({plan.tokens_per_step:,} a step)"
        + (f", in {config.accumulation_steps} parts" if config.accumulation_steps > 1 else ""),
        f"compute   {mesh.size} x {mesh.devices.flat[0].device_kind}, {config.dtype}",
    )
    return Resolved(config, plan, batch_shapes(config, plan.batch_size), lines)


def _like_rows(data: TrainingData, batch_size: int) -> Batch:
    """Shapes of a batch of a training set."""
    first = np.zeros(1, np.int64)
    batch: Batch = jax.tree.map(
        lambda array: jax.ShapeDtypeStruct((batch_size, *array.shape[1:]), array.dtype),
        data.objective(data.train.take(first), RowDraws(0, first)),
    )
    return batch


def _memory(mesh: Mesh, columns: Mapping[str, MemoryEstimate]) -> Iterator[str]:
    """A table of the parts, with a column for each kind of device."""
    whose = "the device" if mesh.size == 1 else f"each of {mesh.size} devices"
    heads = columns if len(columns) > 1 else [""]
    most = max(found.total for found in columns.values())
    yield _row(f"memory    of {whose}, at most", *heads)
    for name in (*STATE, *STEP):
        sizes = [found.parts.get(name, 0) for found in columns.values()]
        if any(sizes):
            yield _row(f"          {name}", *(shown(size, most) for size in sizes))
    totals = (shown(found.total, most) for found in columns.values())
    yield _row("          total, estimated", *totals)


def _compiled(step: AbstractStep, found: MemoryEstimate) -> Iterator[str]:
    began = perf_counter()
    size = compiled_size(step)
    took, off = perf_counter() - began, found.total / size.total - 1
    yield _row("          total, by XLA once compiled", shown(size.total))
    yield (
        f"compiled  in {took:.0f} s: state and batch {shown(size.arguments)}, temporary "
        f"{shown(size.temporary)}; the estimate is {off:+.1%} off"
    )


def _fits(resolved: Resolved, mesh: Mesh, found: MemoryEstimate) -> Iterator[str]:
    """Whether the memory that there is suffices, and what helps where it does not."""
    available = device_memory(mesh)
    if available is None:
        return
    there = f"{found.total / available:.0%} of the {shown(available)} that there are"
    if found.total <= available:
        yield f"fits      {there}"
        return
    flags = remedies(resolved.config, mesh, resolved.batch, found)
    yield f"too much  {there}"
    yield f"try       {', or '.join(map(str, flags)) or SMALLER}"


def _work(resolved: Resolved, mesh: Mesh, found: MemoryEstimate) -> Iterator[str]:
    config, batch = resolved.config, resolved.batch
    rows, length = batch.input_ids.shape
    outputs = batch.targets.shape[1]
    a_token = flops_per_token(config.model, length, outputs)
    tokens = rows * (length + (outputs if batch.decoder_input_ids is not None else 0))
    yield (
        f"work      {_flops(a_token * tokens)} a step ({_flops(a_token)} for each of {tokens:,} "
        f"tokens, as MFU counts them); products as computed {_flops(found.products)}"
        + (f", {_flops(found.products / mesh.size)} a device" if mesh.size > 1 else "")
    )


def _row(name: str, *values: str) -> str:
    return f"{name:<{WIDTH}}" + "".join(f"{value:>12}" for value in values)


def _flops(count: float) -> str:
    for unit, size in (("PFLOPs", 1e15), ("TFLOPs", 1e12), ("GFLOPs", 1e9)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e6:,.1f} MFLOPs"
