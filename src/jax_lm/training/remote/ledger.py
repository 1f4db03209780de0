"""What of a run directory here is known to be on its object store."""

import json
from collections.abc import Iterable
from pathlib import Path

from jax_lm.checkpoints import step_directory
from jax_lm.checkpoints.layout import CHECKSUMS
from jax_lm.files.atomic import write_text

LEDGER = "_uploaded.json"
CHECKPOINTS = "checkpoints"


def sent_steps(run: Path) -> set[int]:
    """Steps whose checkpoints were uploaded, by this process or one before it."""
    try:
        return {int(step) for step in json.loads((run / LEDGER).read_text())}
    except (OSError, ValueError, TypeError):
        return set()


def note_sent(run: Path, steps: set[int]) -> None:
    """Keep what ``sent_steps`` gives."""
    write_text(run / LEDGER, json.dumps(sorted(steps)) + "\n")


def name_of(step: int) -> str:
    """The folder of a checkpoint in its run."""
    return step_directory(Path(CHECKPOINTS), step).as_posix()


def checksums_of(step: int) -> str:
    """The file that makes a checkpoint on an object store complete."""
    return f"{name_of(step)}/{CHECKSUMS}"


def files_of(step: int, names: Iterable[str]) -> list[str]:
    """Of files in a run, those of a checkpoint, in the order in which they are removed.

    The checksums go first, so that what is left of it is not taken for a complete one.
    """
    found = (name for name in names if name.startswith(f"{name_of(step)}/"))
    return sorted(found, key=lambda name: name != checksums_of(step))
