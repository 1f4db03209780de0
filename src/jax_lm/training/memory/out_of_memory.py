"""Out of memory, told in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import jax
from jax.sharding import Mesh

from jax_lm.errors import JaxLMError
from jax_lm.training.config import TrainConfig
from jax_lm.training.memory.abstract_step import batch_shapes, trace_step
from jax_lm.training.memory.estimate import MemoryEstimate, estimate
from jax_lm.training.memory.remedies import Remedy, remedies
from jax_lm.training.memory.sizes import shown

EXHAUSTED = "RESOURCE_EXHAUSTED"
WANTED = re.compile(
    r"(allocat\w+( request for)?|exceeded \w+ capacity by) "
    r"(?P<number>[\d.]+) ?(?P<unit>bytes|[KMGT](i?B)?)\b",
    re.IGNORECASE,
)
"""As in ``Out of memory allocating 320000000000 bytes``, ``trying to allocate 4.50GiB`` and, of a
TPU's compiler, ``Exceeded hbm capacity by 3.98G``."""
UNITS = {"b": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
SHOWN = 3
"""Largest parts that are named."""


class OutOfMemory(JaxLMError):
    """A device, or this process, has less memory than the run asked for."""


class Situation(NamedTuple):
    """What a run was about to do."""

    config: TrainConfig
    """Resolved."""
    mesh: Mesh
    batch_size: int


class MemoryWatch:
    """Is told what a run is, for the sentence."""

    situation: Situation | None = None

    def of(self, config: TrainConfig, mesh: Mesh, batch_size: int) -> None:
        """From here on the run is this one."""
        self.situation = Situation(config, mesh, batch_size)


@contextmanager
def out_of_memory_told() -> Iterator[MemoryWatch]:
    """Turn what JAX raises for want of memory, compiling or computing, into a sentence.

    Raises:
        OutOfMemory: with what was asked for, the largest parts of a step, and what helps.
    """
    watch = MemoryWatch()
    try:
        yield watch
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and EXHAUSTED not in str(error):
            raise
        raise OutOfMemory(_sentence(str(error), watch.situation)) from error


def _sentence(message: str, situation: Situation | None) -> str:
    wanted = bytes_wanted(message)
    first = "out of memory" if wanted is None else f"out of memory: {shown(wanted)} more were asked"
    first += "" if wanted is None else " for"
    found = None if situation is None else _estimated(situation)
    if situation is None or found is None:
        return f"{first}; try a smaller batch, or --accumulation-steps and --remat full"
    largest = sorted(found.parts.items(), key=lambda part: -part[1])[:SHOWN]
    flags = _flags(situation, found)
    return (
        f"{first}; a step takes about {shown(found.total)} a device, most of it "
        f"{', '.join(f'{name} {shown(size)}' for name, size in largest)}: try "
        f"{', or '.join(map(str, flags)) or 'a smaller model, or more devices (--mesh.fsdp)'}"
    )


def _estimated(situation: Situation) -> MemoryEstimate | None:
    """Of a step; None where not even that can be found out now."""
    config, mesh, batch_size = situation
    with suppress(RuntimeError, MemoryError):
        return estimate(trace_step(config, mesh, batch_shapes(config, batch_size)))
    return None


def _flags(situation: Situation, found: MemoryEstimate) -> list[Remedy]:
    config, mesh, batch_size = situation
    with suppress(RuntimeError, MemoryError):
        return remedies(config, mesh, batch_shapes(config, batch_size), found)
    return []


def bytes_wanted(message: str) -> float | None:
    """What an error of XLA's says could not be had."""
    found = WANTED.search(message)
    if found is None:
        return None
    return float(found["number"]) * UNITS[found["unit"][0].lower()]
