"""Which flags make a run smaller, those that help most and cost least first."""

from collections.abc import Iterator, Mapping

from jax.sharding import Mesh

from jax_lm.sharding.mesh import DATA, FSDP, row_shards
from jax_lm.training.config import TrainConfig
from jax_lm.training.memory.available import device_memory
from jax_lm.training.memory.estimate import STATE


def remedies(
    config: TrainConfig, mesh: Mesh, batch_size: int, parts: Mapping[str, int]
) -> list[str]:
    """Flags with values, the first to try first.

    Args:
        config: of the run.
        mesh: of the run.
        batch_size: rows a step over all devices.
        parts: of the memory, as ``estimate`` gives them.
    """
    state = sum(size for name, size in parts.items() if name in STATE)
    rest = sum(parts.values()) - state
    available = device_memory(mesh) or 0.0
    times = rest / (available - state) if available > state else 2.0
    of_batch = list(_of_batch(config, mesh, batch_size, times))
    of_state = list(_of_state(config, mesh))
    found = of_state + of_batch if state > rest else of_batch + of_state
    return found or ["a smaller model, or --mesh.fsdp over more devices"]


def _of_batch(config: TrainConfig, mesh: Mesh, batch_size: int, times: float) -> Iterator[str]:
    """Against activations, which should take so many times less."""
    rows = batch_size // (row_shards(mesh) * config.accumulation_steps)
    if rows > 1:
        parts = next(
            parts for parts in range(2, rows + 1) if rows % parts == 0 and parts >= min(times, rows)
        )
        yield f"--accumulation-steps {config.accumulation_steps * parts}"
    if config.dtype == "float32":
        yield "--dtype bfloat16"
    if config.remat != "full":
        yield "--remat full"


def _of_state(config: TrainConfig, mesh: Mesh) -> Iterator[str]:
    """Against parameters, gradients and moments."""
    if mesh.shape[DATA] > 1:
        yield f"--mesh.data 1 --mesh.fsdp {mesh.shape[DATA] * mesh.shape[FSDP]}"
    if config.lora.rank == 0:
        if config.optimizer.name != "adafactor":
            short = config.optimizer.moment_dtype == "bfloat16"
            yield "--optimizer.name adafactor" if short else "--optimizer.moment-dtype bfloat16"
        yield "--lora.rank 16"
