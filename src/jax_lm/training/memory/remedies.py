"""Which flags make a run smaller, tried out one by one on the shapes of its step."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from jax.sharding import Mesh

from jax_lm.errors import UsageError
from jax_lm.sharding.mesh import DATA, FSDP, make_mesh, row_shards
from jax_lm.training.config import TrainConfig
from jax_lm.training.memory.abstract_step import trace_step
from jax_lm.training.memory.available import device_memory
from jax_lm.training.memory.estimate import STATE, MemoryEstimate, estimate
from jax_lm.training.memory.sizes import shown
from jax_lm.types import Batch

LEAST = 0.85
"""What a flag must make of the memory to be named."""
NAMED = 3
Change = tuple[str, TrainConfig]
"""A flag with its value, and the run with it."""


class Remedy(NamedTuple):
    """A flag that helps."""

    flag: str
    total: int
    """Bytes on each device with it."""

    def __str__(self) -> str:
        """As named in a sentence."""
        return f"{self.flag} ({shown(self.total)})"


def remedies(config: TrainConfig, mesh: Mesh, batch: Batch, found: MemoryEstimate) -> list[Remedy]:
    """Flags with what each alone comes to, at most three, those that cost least speed first.

    Args:
        config: of the run.
        mesh: of the run.
        batch: shapes of a whole batch.
        found: what the run takes.
    """
    helpful: list[Remedy] = []
    for flag, changed in _changes(config, mesh, batch.input_ids.shape[0], found):
        step = trace_step(changed, make_mesh(changed.mesh), batch)
        total = estimate(step).total
        if total < LEAST * found.total:
            helpful.append(Remedy(flag, total))
        if len(helpful) == NAMED:
            break
    return helpful


def _changes(
    config: TrainConfig, mesh: Mesh, batch_size: int, found: MemoryEstimate
) -> Iterator[Change]:
    """What may help, against the larger of state and activations first."""
    state = sum(size for name, size in found.parts.items() if name in STATE)
    rest = found.total - state
    available = device_memory(mesh) or 0.0
    times = rest / (available - state) if available > state else 2.0
    of_batch = _of_batch(config, batch_size // row_shards(mesh), times)
    of_state = _of_state(config, mesh)
    first, second = (of_state, of_batch) if state > rest else (of_batch, of_state)
    yield from first
    yield from second


def _of_batch(config: TrainConfig, rows: int, times: float) -> Iterator[Change]:
    """Against the activations of a device's rows, which should take so many times less."""
    now = config.accumulation_steps
    parts = [one for one in range(2 * now, rows + 1, now) if rows % one == 0]
    if parts:
        enough = next((one for one in parts if one >= now * times), parts[-1])
        yield f"--accumulation-steps {enough}", replace(config, accumulation_steps=enough)
    if config.dtype == "float32":
        yield "--dtype bfloat16", replace(config, dtype="bfloat16")
    if config.remat != "full":
        yield "--remat full", replace(config, remat="full")


def _of_state(config: TrainConfig, mesh: Mesh) -> Iterator[Change]:
    """Against parameters, gradients and moments."""
    if mesh.shape[DATA] > 1:
        fsdp = mesh.shape[DATA] * mesh.shape[FSDP]
        split = replace(config.mesh, data=1, fsdp=fsdp)
        yield f"--mesh.data 1 --mesh.fsdp {fsdp}", replace(config, mesh=split)
    if config.lora.rank == 0:
        yield from _of_moments(config)
    if config.lora.rank == 0 and config.init_from is not None:
        yield "--lora.rank 16", replace(config, lora=replace(config.lora, rank=16))


def _of_moments(config: TrainConfig) -> Iterator[Change]:
    for flag, change in (
        ("--optimizer.moment-dtype bfloat16", {"moment_dtype": "bfloat16"}),
        ("--optimizer.name adafactor", {"name": "adafactor", "moment_dtype": "float32"}),
    ):
        with suppress(UsageError):  # not every optimizer has them
            optimizer: Any = replace(config.optimizer, **change)  # type: ignore[arg-type]
            yield flag, replace(config, optimizer=optimizer)
