"""One JSON object a line: the run's numbers in the form that outlives every tool."""

import json
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError
from jax_lm.trackers.base import Histogram

NONFINITE = "_nonfinite"
"""The key that lists the metrics JSON has no number for: NaN and the infinities, written null."""


class JsonlTracker:
    """Appends ``{"step": 10, "time": 1.7e9, "train/loss": 3.2}`` lines to a file.

    Each line is flushed as it is written. On resume, rows past the checkpoint are removed first:
    a killed run may have logged steps that the resumed run takes again.
    """

    def __init__(self, path: Path, *, resume_step: int | None = None) -> None:
        """Open ``path``, keeping its rows up to ``resume_step``.

        Args:
            path: the file; its folder is made if needed.
            resume_step: the checkpoint's step, or None for a new run. The file that a new run
                finds is kept as ``metrics.previous.jsonl`` (for a ``metrics.jsonl``).

        Raises:
            JaxLMError: on resume, a line that is not the last one is not a JSON object.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and resume_step is None:
            path.replace(path.with_name(f"{path.stem}.previous{path.suffix}"))
        elif path.exists():
            rows = read_metrics(path)
            _rewrite(path, (row for row in rows if row["step"] <= (resume_step or 0)))
        self._file = path.open("a", encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write one line."""
        values = {name: float(value) for name, value in metrics.items()}
        row: dict[str, Any] = {"step": step, "time": round(time.time(), 3)}
        row |= {name: value if math.isfinite(value) else None for name, value in values.items()}
        nonfinite = [name for name, value in values.items() if not math.isfinite(value)]
        if nonfinite:
            row[NONFINITE] = nonfinite
        self._file.write(_line(row))
        self._file.flush()

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Samples have files of their own."""

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        """Distributions are no metrics: they are left to others."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a ``metrics.jsonl``; a last line cut short by a kill is left out.

    Raises:
        JaxLMError: another line is not a JSON object with a ``step``.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise JaxLMError(
                f"{path}:{number}: expected a JSON object with a step, such as "
                f'{{"step": 10, "train/loss": 3.2}}; remove the line to go on'
            )
        rows.append(row)
    return rows


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def _rewrite(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    temporary = path.with_name(f"_{path.name}.tmp")
    temporary.write_text("".join(map(_line, rows)), encoding="utf-8")
    temporary.replace(path)
