"""Which checkpoints are kept: the newest, every so many steps, and the best."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from jax_lm.checkpoints.layout import (
    list_steps,
    read_evaluation,
    remove_checkpoint,
    step_directory,
)
from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import write_text

BEST = "best.json"


class Retention(Protocol):
    """What is kept."""

    @property
    def keep(self) -> int:
        """Newest checkpoints."""

    @property
    def keep_every(self) -> int | None:
        """Those of every so many steps, for good."""

    @property
    def best(self) -> str | None:
        """The metric whose best checkpoint is kept too."""


@dataclass(frozen=True)
class Best:
    """The best checkpoint so far."""

    step: int
    metric: str
    value: float

    def is_better_than(self, other: "Best | None") -> bool:
        """Whether it takes the place of ``other``; accuracies count upwards, all else downwards."""
        if not math.isfinite(self.value):
            return False
        if other is None or other.metric != self.metric:
            return True
        upwards = "accuracy" in self.metric.rsplit("/", 1)[-1]
        return self.value > other.value if upwards else self.value < other.value


def read_best(checkpoints: Path) -> Best | None:
    """What ``best.json`` names, where that checkpoint exists.

    Raises:
        JaxLMError: the file is damaged.
    """
    best = named_best(checkpoints)
    return best if best and step_directory(checkpoints, best.step).is_dir() else None


def named_best(checkpoints: Path) -> Best | None:
    """What ``best.json`` names, wherever that checkpoint is.

    Raises:
        JaxLMError: the file is damaged.
    """
    path = checkpoints / BEST
    try:
        return Best(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise JaxLMError(
            f"{path}: expected step, metric and value ({error}); remove it, or name a checkpoint "
            "as RUN@STEP"
        ) from error


def write_best(checkpoints: Path, best: Best) -> None:
    """Name the best checkpoint in ``best.json``, atomically."""
    write_text(checkpoints / BEST, json.dumps(asdict(best)) + "\n")


def find_best(checkpoints: Path, metric: str) -> Best | None:
    """The best checkpoint there is, by what the checkpoints and ``best.json`` say.

    A process may have been killed between renaming a checkpoint and calling it the best.
    """
    try:
        best = read_best(checkpoints)
    except JaxLMError:
        best = None
    if best is not None and best.metric != metric:
        best = None
    for step in list_steps(checkpoints):
        metrics = read_evaluation(step_directory(checkpoints, step))
        candidate = best_of(step, metric, metrics)
        if candidate is not None and candidate.is_better_than(best):
            best = candidate
    return best


def best_of(step: int, metric: str | None, metrics: Mapping[str, float] | None) -> Best | None:
    """A step as a candidate, where it has a finite value of the metric."""
    value = None if metric is None or not metrics else metrics.get(metric)
    if metric is None or value is None or not math.isfinite(value):
        return None
    return Best(step, metric, float(value))


def remove_older(
    checkpoints: Path, *, keep: int, keep_every: int | None = None, best: Collection[int] = ()
) -> None:
    """Remove all checkpoints but the newest ``keep``, those of ``keep_every`` and the best."""
    for step in superfluous(list_steps(checkpoints), keep, keep_every, None):
        if step not in best:
            remove_checkpoint(step_directory(checkpoints, step))


def superfluous(
    steps: Sequence[int], keep: int, keep_every: int | None, best: int | None
) -> list[int]:
    """Of the steps of checkpoints, oldest first, those that need not be kept."""
    return [
        step
        for step in steps[:-keep]
        if step != best and not (keep_every and step and step % keep_every == 0)
    ]
