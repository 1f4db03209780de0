"""Every number of a run resolved before it starts: length, batch, epochs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jax_lm.errors import UsageError
from jax_lm.training.config import TrainConfig

LENGTHS = ("steps", "epochs", "tokens")
BATCHES = ("batch_size", "batch_size_per_device")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What ``steps``, ``epochs`` or ``tokens`` and the batch come to."""

    steps: int
    batch_size: int
    """Rows a step over all devices."""
    rows: int
    """Rows of the training set."""
    sequence_length: int
    """Targets of a row."""

    @property
    def tokens_per_step(self) -> int:
        """Target positions of a step, padding included."""
        return self.batch_size * self.sequence_length

    @property
    def epochs(self) -> float:
        """Passes over the training rows."""
        return self.steps * self.batch_size / self.rows


def make_plan(config: TrainConfig, *, rows: int, row_shards: int = 1) -> Plan:
    """Resolve a configuration.

    Args:
        config: of the run.
        rows: of the training set.
        row_shards: parts that the mesh splits the rows of a batch into.

    Raises:
        UsageError: not exactly one length or batch is given, it comes to nothing, or it does not
            divide by the parts it is computed in.
    """
    batch_size = _batch_size(config, row_shards)
    length = config.sequence_length
    unit = _only(config, LENGTHS)
    steps_per_unit = {
        "steps": 1.0,
        "epochs": rows / batch_size,
        "tokens": 1.0 / (batch_size * length),
    }
    steps = math.ceil(getattr(config, unit) * steps_per_unit[unit])
    plan = Plan(steps=steps, batch_size=batch_size, rows=rows, sequence_length=length)
    if plan.steps < 1:
        raise UsageError("the run has no steps: --steps, --epochs or --tokens must be positive")
    return plan


def exactly_one(values: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The one name of ``names`` whose value is not None.

    Raises:
        UsageError: there is none, or more than one.
    """
    given = [name for name in names if values[name] is not None]
    if len(given) != 1:
        flags = " or ".join(f"--{name.replace('_', '-')}" for name in names)
        found = " and ".join(f"--{name.replace('_', '-')}" for name in given) or "none of them"
        raise UsageError(f"give exactly one of {flags} (given: {found})")
    return given[0]


def _only(config: TrainConfig, names: tuple[str, ...]) -> str:
    return exactly_one({name: getattr(config, name) for name in names}, names)


def _batch_size(config: TrainConfig, row_shards: int) -> int:
    if _only(config, BATCHES) == "batch_size_per_device":
        batch_size = (config.batch_size_per_device or 0) * row_shards
    else:
        batch_size = config.batch_size or 0
    parts = row_shards * config.accumulation_steps
    if batch_size < 1 or batch_size % parts:
        raise UsageError(
            f"batch size {batch_size} must be a positive multiple of {parts}: --mesh.data x "
            f"--mesh.fsdp devices ({row_shards}) x --accumulation-steps "
            f"({config.accumulation_steps})"
        )
    return batch_size
