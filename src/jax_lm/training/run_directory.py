"""What lies where in a run directory, and whether a run may start or go on there."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jax_lm.checkpoints import Progress, list_steps, newest_valid, read_config, read_progress
from jax_lm.errors import JaxLMError
from jax_lm.trackers.jsonl import read_metrics

FIXED_ON_RESUME = (
    "model",
    "objective",
    "data",
    "seed",
    "dtype",
    "remat",
    "loss_reduction",
    "label_smoothing",
    "z_loss",
)
"""Parts of the configuration that a resumed run must share with its checkpoint."""


class RunDirectory:
    """Paths of one run."""

    def __init__(self, path: str | Path) -> None:
        """Name the paths; nothing is made."""
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.final = self.path / "final"
        self.tokenizer = self.path / "tokenizer"
        self.report = self.path / "report.html"

    @property
    def is_finished(self) -> bool:
        """Whether the final model has been written."""
        return (self.final / "config.json").is_file()

    def evaluated_steps(self, *, up_to: int) -> tuple[int, ...]:
        """Steps whose held-out metrics are logged, no later than ``up_to``."""
        if not self.metrics.is_file():
            return ()
        rows = read_metrics(self.metrics)
        held_out = (row["step"] for row in rows if any(key.startswith("val/") for key in row))
        return tuple(step for step in held_out if step <= up_to)

    def write_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a small file whole or not at all."""
        temporary = self.path / f"_{name}.tmp"
        temporary.write_text(json.dumps(values, indent=1) + "\n")
        temporary.replace(self.path / name)


def find_checkpoint(run: RunDirectory, *, resume: str, say: Callable[[str], None]) -> Path | None:
    """The checkpoint to go on from, or None to start.

    Raises:
        JaxLMError: the directory holds a run and ``resume`` is ``never``, or no checkpoint of it
            verifies.
    """
    if resume == "auto":
        return newest_valid(run.checkpoints, say)
    if run.is_finished or list_steps(run.checkpoints):
        raise JaxLMError(
            f"{run.path} already holds a run: continue it with --resume auto, or choose another "
            "--run-dir"
        )
    return None


def check_same_run(checkpoint: Path, config: Mapping[str, Any], data: str) -> None:
    """Refuse to go on with another model, other data or another seed.

    Args:
        checkpoint: where the run goes on from.
        config: the resolved configuration, as JSON values.
        data: fingerprint of the training rows.

    Raises:
        JaxLMError: naming every key that differs, with both values.
    """
    before = _flat(read_config(checkpoint))
    after = _flat(json.loads(json.dumps(config)))
    changed = [
        f"{key} was {before.get(key)!r}, now {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if key.split(".")[0] in FIXED_ON_RESUME and before.get(key) != after.get(key)
    ]
    if not changed and read_progress(checkpoint).data != data:
        changed = ["the training rows are not those the run started with"]
    if changed:
        raise JaxLMError(
            f"{checkpoint}: cannot go on with another configuration ({'; '.join(changed)}): "
            "undo the change or choose another --run-dir"
        )


def check_same_batch(progress: Progress, batch_size: int) -> None:
    """Refuse to go on with another global batch, whichever flag or device count it comes from.

    Raises:
        JaxLMError: the rows consumed are not so many batches.
    """
    if progress.position != progress.step * batch_size:
        raise JaxLMError(
            f"cannot go on with batches of {batch_size} rows: the run had taken "
            f"{progress.step} of {progress.position // max(1, progress.step)}; set --batch-size"
        )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
