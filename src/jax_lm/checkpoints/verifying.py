"""Checksums of a checkpoint, and the newest one that they confirm."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from jax_lm.checkpoints.layout import CHECKSUMS, list_steps, step_directory
from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import file_sha256

COMPLETE = re.compile(rf"checkpoints/step-(\d+)/{re.escape(CHECKSUMS)}")


def write_checksums(directory: Path) -> None:
    """Write the sha256 of every file that is there by now."""
    (directory / CHECKSUMS).write_text(json.dumps(_checksums(directory), indent=1))


def verify_checkpoint(directory: Path) -> None:
    """Check every file against its checksum.

    Raises:
        JaxLMError: a file is missing, damaged or was added; all are named.
    """
    try:
        expected = json.loads((directory / CHECKSUMS).read_text())
        found = _checksums(directory)
    except (OSError, ValueError) as error:
        raise JaxLMError(f"{directory}: no readable {CHECKSUMS} and files: {error}") from error
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if wrong:
        raise JaxLMError(f"{directory}: damaged checkpoint: {', '.join(wrong)}")


def complete_steps(names: Iterable[str]) -> list[int]:
    """Steps with a complete checkpoint among the files of a run on an object store, oldest first.

    Nothing is renamed there: a checkpoint is complete once its checksums are there.
    """
    found = (COMPLETE.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match is not None)


def newest_valid(checkpoints: Path, say: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that verifies; damaged ones are named, never passed over in silence.

    Raises:
        JaxLMError: there are checkpoints and none verifies.
    """
    steps = list_steps(checkpoints)
    for step in reversed(steps):
        directory = step_directory(checkpoints, step)
        try:
            verify_checkpoint(directory)
        except JaxLMError as error:
            say(f"refused {error}")
        else:
            return directory
    if steps:
        raise JaxLMError(
            f"{checkpoints}: none of the {len(steps)} checkpoints verifies; "
            "remove the directory or choose another --run-dir to start anew"
        )
    return None


def _checksums(directory: Path) -> dict[str, str]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): file_sha256(path)
        for path in files
        if path.name != CHECKSUMS
    }
