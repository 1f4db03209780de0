"""A training step made of shapes: traced, and compiled where asked for, without weights or data."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jax_lm.losses import blocks_for
from jax_lm.objectives.span_corruption import SpanCorruptionConfig, lengths_for_input
from jax_lm.optimizers.build import make_optimizer
from jax_lm.sharding.placing import batch_sharding
from jax_lm.sharding.rules import on_mesh
from jax_lm.training.beginning.state import abstract_state, keys_of, shardings_of
from jax_lm.training.config import TrainConfig
from jax_lm.training.state import TrainState
from jax_lm.training.step import make_train_step
from jax_lm.types import Batch

Kind = Literal["cpu", "accelerator"]
"""What a step runs on."""


class AbstractStep(NamedTuple):
    """What a step reads, and the step itself."""

    config: TrainConfig
    state: TrainState
    """Shapes and shardings."""
    batch: Batch
    """The same of a batch."""
    traced: Any
    """The step as JAX traced it (`jax.stages.Traced`)."""
    mesh: Mesh
    kind: Kind


class CompiledSize(NamedTuple):
    """What XLA says that a compiled step takes, in bytes on each device."""

    arguments: int
    """State and batch; what the step returns takes their place."""
    results: int
    """What it returns elsewhere."""
    temporary: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.arguments + self.results + self.temporary


def trace_step(
    config: TrainConfig, mesh: Mesh, batch: Batch, on: Kind | None = None
) -> AbstractStep:
    """Trace a run's training step; nothing is computed.

    Args:
        config: of the run, with the vocabulary known.
        mesh: where it runs.
        batch: any arrays, or shapes, like those of a whole batch.
        on: what it is to run on; None: what JAX has here. A step for something else can be
            estimated, not compiled.

    Raises:
        UsageError: the mesh does not divide an axis of a parameter.
    """
    sharding = batch_sharding(mesh)
    placed = jax.tree.map(
        lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding), batch
    )
    kind: Kind = on or ("cpu" if jax.default_backend() == "cpu" else "accelerator")
    with on_mesh(mesh, config.mesh), blocks_for(on):
        optimizer = make_optimizer(config.optimizer, total_steps=1)
        state = abstract_state(config, optimizer, mesh)
        step: Any = make_train_step(optimizer, keys_of(config).dropout, config, shardings_of(state))
        return AbstractStep(config, state, placed, step.trace(state, placed), mesh, kind)


def compiled_size(step: AbstractStep) -> CompiledSize:
    """Compile the step ahead of time and ask XLA what it takes."""
    found = step.traced.lower().compile().memory_analysis()
    returned_elsewhere = found.output_size_in_bytes - found.alias_size_in_bytes
    return CompiledSize(found.argument_size_in_bytes, returned_elsewhere, found.temp_size_in_bytes)


def batch_shapes(config: TrainConfig, batch_size: int) -> Batch:
    """Shapes of a batch of the usual rows of a model, where no data is at hand.

    Outputs of an encoder-decoder are as long as ``data.target_length`` says, else as span
    corruption makes them, else as its inputs.
    """
    length = config.sequence_length
    kind = config.model.kind
    outputs = _output_length(config) if kind == "encoder-decoder" else length

    def ids(width: int) -> Any:
        return jax.ShapeDtypeStruct((batch_size, width), jnp.int32)

    return Batch(
        input_ids=ids(length),
        targets=ids(outputs),
        loss_mask=jax.ShapeDtypeStruct((batch_size, outputs), np.float32),  # type: ignore[arg-type]
        segment_ids=None if kind == "decoder" else ids(length),
        decoder_input_ids=ids(outputs) if kind == "encoder-decoder" else None,
    )


def _output_length(config: TrainConfig) -> int:
    if config.data.target_length is not None:
        return config.data.target_length
    objective = config.objective
    if not isinstance(objective, SpanCorruptionConfig):
        return config.sequence_length
    lengths = lengths_for_input(
        config.sequence_length, objective.noise_density, objective.mean_noise_span_length
    )
    return lengths.target
