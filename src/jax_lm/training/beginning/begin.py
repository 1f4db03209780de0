"""What a run has before its next step: its data and plan, its state new or from a checkpoint."""

from collections.abc import Callable
from typing import NamedTuple

import optax
from jax.sharding import Mesh

from jax_lm.checkpoints.layout import Progress
from jax_lm.errors import UsageError
from jax_lm.optimizers.build import make_optimizer
from jax_lm.sharding.mesh import row_shards
from jax_lm.sharding.processes import first_decides, in_turn
from jax_lm.training.beginning.recorded import recorded
from jax_lm.training.beginning.resuming import resumed_state, resumption
from jax_lm.training.beginning.state import (
    abstract_state,
    first_state,
    shardings_of,
    starting_weights,
)
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData, open_data
from jax_lm.training.memory.out_of_memory import MemoryWatch
from jax_lm.training.plan import Plan, make_plan
from jax_lm.training.run_directory import RunDirectory, find_checkpoint
from jax_lm.training.state import TrainState

Say = Callable[[str], None]


class Beginning(NamedTuple):
    """A run about to take a step."""

    config: TrainConfig
    """With what the data and the weights to start from say."""
    data: TrainingData
    plan: Plan
    optimizer: optax.GradientTransformation
    shardings: TrainState
    """Where every array of ``state`` lies, throughout the run."""
    state: TrainState
    progress: Progress
    resumed: bool
    """Whether ``state`` is a checkpoint's."""
    changed: tuple[str, ...]
    """Keys of the configuration in which a resumed run is no longer what it was."""
    logged_steps: tuple[int, ...]
    """Steps that an earlier process evaluated and logged."""


def begin(
    run: RunDirectory, config: TrainConfig, mesh: Mesh, memory: MemoryWatch, say: Say
) -> Beginning:
    """Open the data, and make the state or read it from the newest sound checkpoint.

    Raises:
        JaxLMError: the data, the weights or the checkpoint cannot be used as configured.
    """
    checkpoint = find_checkpoint(run, resume=config.resume, say=say)
    shaped, initial = starting_weights(config, checkpoint, mesh, say)
    data, config = in_turn(lambda: open_data(shaped, say))
    _refuse_unknown_set(config, data)
    plan = make_plan(config, rows=len(data.train), row_shards=row_shards(mesh))
    memory.of(config, mesh, plan.batch_size)
    optimizer = make_optimizer(config.optimizer, plan.steps)
    like = abstract_state(config, optimizer, mesh)
    changed: tuple[str, ...] = ()
    if checkpoint is None:
        state = first_state(config, optimizer, like, initial)
        progress = Progress(step=0, position=0, tokens=0, data=data.train.fingerprint)
    else:
        found = resumption(
            checkpoint,
            recorded(config),
            data=data.train.fingerprint,
            batch_size=plan.batch_size,
            allowed=config.allow_change,
        )
        state, progress = resumed_state(found, config, optimizer, like, say), found.progress
        changed = found.changed
    resumed = checkpoint is not None
    return Beginning(
        config=config,
        data=data,
        plan=plan,
        optimizer=optimizer,
        shardings=shardings_of(like),
        state=state,
        progress=progress,
        resumed=resumed,
        changed=changed,
        logged_steps=first_decides(lambda: _logged_steps(run, progress) if resumed else ()),
    )


def _refuse_unknown_set(config: TrainConfig, data: TrainingData) -> None:
    """A misspelt held-out set is known before the first step; a metric, once there is one."""
    best = config.checkpoint.best
    if best is not None and not any(best.startswith(f"{name}/") for name in data.validation):
        known = ", ".join(f"{name}/loss" for name in data.validation)
        raise UsageError(
            f"--checkpoint.best {best} is of no held-out set: "
            + (f"such are {known}" if known else "give --data.validation")
        )


def _logged_steps(run: RunDirectory, progress: Progress) -> tuple[int, ...]:
    return tuple(run.evaluated_steps(up_to=progress.step))
