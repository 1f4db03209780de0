"""Numbers to a JSON file, and to Weights & Biases."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from jax_lm.errors import JaxLMError
from jax_lm.evaluation.results.result import Evaluation, finite
from jax_lm.files.atomic import write_text
from jax_lm.trackers.wandb import WandbSettings
from jax_lm.trackers.wandb_rows import WandbRow, log_rows

RESULTS_FILE = "eval_results.json"
TABLE = "Test Metrics"


class Results(Protocol):
    """What an evaluation found."""

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        ...


def write_results(found: Sequence[Results], output: Path, of_checkpoints: bool) -> Path:
    """Write the numbers; gives the file.

    Args:
        found: one evaluation, or one for each checkpoint.
        output: a .json file, or a directory for ``eval_results.json``.
        of_checkpoints: they are of checkpoints, and stand in a list.

    Raises:
        JaxLMError: as for ``check_place``.
    """
    path = results_file(output)
    check_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    all_values = [finite(one.to_json()) for one in found]
    values: Any = {"checkpoints": all_values} if of_checkpoints else all_values[0]
    write_text(path, json.dumps(values, indent=1, allow_nan=False) + "\n")
    return path


def results_file(output: Path) -> Path:
    """The file that results go to."""
    return output if output.suffix == ".json" else output / RESULTS_FILE


def check_place(path: Path) -> None:
    """Refuse a file that could not be written; makes nothing.

    Raises:
        JaxLMError: there is a directory of its name, a file where its directory should be, or no
            permission.
    """
    if path.is_dir():
        raise JaxLMError(f"{path}: there is a directory; name a file, or a directory above")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise JaxLMError(
            f"{path}: there is a file in the way, {above}; name another file or directory"
        )
    if not os.access(above, os.W_OK):
        raise JaxLMError(f"{path}: no permission to write in {above}; name another place")


def directory_of(output: Path) -> Path:
    """The directory that results go to."""
    return output.parent if output.suffix == ".json" else output


def log_to_wandb(
    found: Sequence[Evaluation],
    settings: WandbSettings,
    directory: Path,
    *,
    name: str,
    step: int | None,
) -> None:
    """Log one row for each evaluation: its numbers, and a table of all subsets' bits per byte.

    Args:
        found: one evaluation, or one for each checkpoint, by rising steps.
        settings: the project.
        directory: gets ``wandb/``.
        name: of their run.
        step: of the row; None: the checkpoint's.
    """
    rows = [
        WandbRow(one.step if step is None else step, scalars(one), {TABLE: table_row(one)})
        for one in found
    ]
    first = found[0]
    described = {key: getattr(first, key) for key in ("model", "source", "method")}
    log_rows(rows, settings, directory, name=name, config=described)


def scalars(found: Evaluation) -> dict[str, float]:
    """The numbers of the whole, and under ``eval_bits_per_byte/SUBSET`` those of subsets."""
    values = {f"eval_{name}": value for name, value in found.everything.numbers().items()}
    key = found.main_number
    if found.has_subsets:
        for name, scores in found.scores.items():
            values[f"eval_{key}/{name or 'unnamed'}"] = getattr(scores, key)
        values[f"eval_{key}/mean_over_subsets"] = found.subset_mean[key]
    return values


def table_row(found: Evaluation) -> dict[str, Any]:
    """The main number of the whole and of every subset, by column."""
    key = found.main_number
    subsets = sorted(found.scores) if found.has_subsets else []
    return {
        "model": found.model,
        "all": getattr(found.everything, key),
        **{name or "unnamed": getattr(found.scores[name], key) for name in subsets},
    }
