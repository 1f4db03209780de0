"""What lies where among checkpoints, and the JSON beside the arrays."""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHECKSUMS = "checksums.json"
CONFIG = "config.json"
EVALUATION = "evaluation.json"
PROGRESS = "progress.json"
DAMAGED, DAMAGED_BEFORE = ".damaged", ".damaged-before"
"""Ends of the names of checkpoints that this start, or the one before, has set aside."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come."""

    step: int
    """Optimizer steps taken."""
    position: int
    """Rows consumed: the whole state of the loader."""
    tokens: int
    """Real tokens trained on."""
    data: str
    """Fingerprint of the training rows and their tokenizer."""
    batch_size: int = 0
    """Rows of the last step over all devices; 0: as many as ``position`` and ``step`` say."""


def step_directory(checkpoints: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return checkpoints / f"step-{step:08d}"


def list_steps(checkpoints: Path) -> list[int]:
    """Steps with a complete checkpoint, oldest first."""
    found = checkpoints.glob("step-*") if checkpoints.is_dir() else ()
    return sorted(int(path.name[5:]) for path in found if path.name[5:].isdigit())


def temporary_directory(checkpoints: Path, step: int) -> Path:
    """Where a checkpoint is written before it gets its name."""
    return checkpoints / f"_step-{step:08d}.tmp"


def remove_checkpoint(directory: Path) -> None:
    """Remove a checkpoint so that no part of it is ever seen under its name."""
    if directory.is_dir():
        aside = directory.with_name(f"_{directory.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def set_aside(directory: Path) -> Path:
    """Take a checkpoint out of the row without losing it; gives where it lies now."""
    aside = directory.with_name(f"_{directory.name}{DAMAGED}")
    directory.rename(aside)
    return aside


def forget_set_aside(checkpoints: Path) -> None:
    """Remove what was set aside two starts ago, and let what was at the last one grow older."""
    for path in checkpoints.glob(f"_step-*{DAMAGED_BEFORE}"):
        remove_tree(path)
    for path in checkpoints.glob(f"_step-*{DAMAGED}"):
        path.rename(path.with_suffix(DAMAGED_BEFORE))


def remove_leftovers(checkpoints: Path) -> None:
    """Remove what a killed process was writing or removing, or a failed save has left."""
    for pattern in ("_step-*.tmp", "_step-*.old"):
        for path in checkpoints.glob(pattern):
            remove_tree(path)


def remove_tree(directory: Path, *, seconds: float = 5.0) -> None:
    """Remove a directory; writes that are still under way in it have so long to end."""
    deadline = time.monotonic() + seconds
    shutil.rmtree(directory, ignore_errors=True)
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
        shutil.rmtree(directory, ignore_errors=True)


def write_json(
    directory: Path,
    progress: Progress,
    config: Mapping[str, Any],
    metrics: Mapping[str, float] | None,
) -> None:
    """Write the files beside the arrays, but for the checksums."""
    (directory / PROGRESS).write_text(json.dumps(asdict(progress)))
    (directory / CONFIG).write_text(json.dumps(config, indent=1))
    if metrics:
        (directory / EVALUATION).write_text(json.dumps(dict(metrics), indent=1))


def read_progress(directory: Path) -> Progress:
    """Progress at a checkpoint."""
    return Progress(**json.loads((directory / PROGRESS).read_text()))


def read_config(directory: Path) -> dict[str, Any]:
    """The run's resolved configuration, as saved with a checkpoint."""
    config: dict[str, Any] = json.loads((directory / CONFIG).read_text())
    return config


def read_evaluation(directory: Path) -> dict[str, float]:
    """Held-out metrics of a checkpoint; none where it was not evaluated or cannot be read."""
    try:
        metrics: dict[str, float] = json.loads((directory / EVALUATION).read_text())
    except (OSError, ValueError):
        return {}
    return metrics
