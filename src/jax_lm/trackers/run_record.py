"""What a run directory holds, read back for a report."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.trackers.samples import Sample, read_samples


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run's numbers, texts, configuration and environment."""

    name: str
    rows: Sequence[dict[str, Any]]
    """Lines of metrics.jsonl, in the order of steps; at least one."""
    samples: Sequence[Sample]
    config: dict[str, Any]
    """Empty where the run has no config.json."""
    environment: dict[str, Any]

    def points(self, metric: str) -> list[tuple[float, float]]:
        """The (step, value) pairs of a metric, without those that are not finite."""
        return [
            (float(row["step"]), float(row[metric])) for row in self.rows if _number(row, metric)
        ]

    def over_tokens(self, metric: str) -> list[tuple[float, float]]:
        """The (tokens seen, value) pairs; tokens are interpolated where a row has none."""
        tokens = self.points("train/tokens")
        known_steps, known_tokens = zip(*[(0.0, 0.0), *tokens], strict=True)
        points = self.points(metric)
        seen = np.interp([step for step, _ in points], known_steps, known_tokens)
        return [(float(x), y) for x, (_, y) in zip(seen, points, strict=True)]

    def last(self, metric: str) -> float | None:
        """The latest finite value of a metric."""
        points = self.points(metric)
        return points[-1][1] if points else None

    def held_out_sets(self) -> list[str]:
        """``val`` and ``val/NAME``: the prefixes of what ends in ``/loss``, in order of first use.

        The whole (``val``) comes first where it is present.
        """
        names = dict.fromkeys(name for row in self.rows for name in row)
        sets = [
            name.removesuffix("/loss")
            for name in names
            if name.startswith("val/") and name.endswith("/loss")
        ]
        return sorted(sets, key=lambda name: name != "val")

    def seconds(self) -> float | None:
        """Time between the first and the last row, in seconds."""
        times = [row["time"] for row in self.rows if _number(row, "time")]
        return times[-1] - times[0] if len(times) > 1 else None

    def nonfinite_rows(self) -> int:
        """How many rows hold a metric that was NaN or infinite."""
        return sum(1 for row in self.rows if row.get("_nonfinite"))


def read_run(directory: Path) -> RunRecord:
    """Read a run directory.

    Raises:
        JaxLMError: there is no metrics.jsonl, it is empty, or a file in it is malformed.
    """
    path = directory / "metrics.jsonl"
    if not path.is_file():
        raise JaxLMError(f"{path} does not exist: give a run directory, as written by jax-lm train")
    rows = sorted(read_metrics(path), key=lambda row: int(row["step"]))
    if not rows:
        raise JaxLMError(f"{path} is empty: the run logged nothing yet, so there is no report")
    return RunRecord(
        name=directory.resolve().name,
        rows=rows,
        samples=read_samples(directory / "samples"),
        config=_read_json(directory / "config.json"),
        environment=_read_json(directory / "environment.json"),
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise JaxLMError(f"{path}: expected JSON, but {error}; repair or remove it") from None
    if not isinstance(value, dict):
        raise JaxLMError(f"{path}: expected a JSON object; repair or remove it")
    return value


def _number(row: dict[str, Any], name: str) -> bool:
    value = row.get(name)
    return isinstance(value, int | float) and not isinstance(value, bool)
