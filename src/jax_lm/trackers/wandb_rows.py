"""Weights & Biases: a run of nothing but a few rows, such as an evaluation's."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jax_lm.trackers.wandb import WandbSettings, private_settings


class WandbRow(NamedTuple):
    """Numbers of one step."""

    step: int | None
    """None: the next one."""
    numbers: Mapping[str, float]
    tables: Mapping[str, Mapping[str, Any]]
    """Tables of one line, by name: values by column."""


def log_rows(
    rows: Sequence[WandbRow],
    settings: WandbSettings,
    directory: Path,
    *,
    name: str,
    config: Mapping[str, Any],
) -> None:
    """Begin a run, log the rows and end it.

    Args:
        rows: by rising steps.
        settings: the project.
        directory: gets ``wandb/`` with what is not uploaded.
        name: of the run.
        config: what the rows are of; without secrets.
    """
    import wandb

    directory.mkdir(parents=True, exist_ok=True)
    run: Any = wandb.init(
        project=settings.project,
        entity=settings.entity,
        mode=settings.mode,
        dir=str(directory),
        name=name,
        job_type="evaluation",
        config=dict(config),
        settings=private_settings(),
    )
    for row in rows:
        tables = {
            title: wandb.Table(columns=list(line), data=[list(line.values())])
            for title, line in row.tables.items()
        }
        run.log({**row.numbers, **tables}, step=row.step)
    where = f"{directory / 'wandb'} (to upload it: wandb sync)"
    sys.stderr.write(
        f"wandb     run {run.id}: {where if settings.mode == 'offline' else run.url}\n"
    )
    run.finish()
