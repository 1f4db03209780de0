"""Checksums of a checkpoint, and the newest one that they confirm."""

import json
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jax_lm.checkpoints.layout import CHECKSUMS, list_steps, step_directory
from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import file_sha256

HASHED_AT_ONCE = 8
"""Files; hashing lets other threads of Python run."""
ABSENT = FileNotFoundError, NotADirectoryError, IsADirectoryError
COMPLETE = re.compile(rf"checkpoints/step-(\d+)/{re.escape(CHECKSUMS)}")


class DamagedCheckpoint(JaxLMError):
    """Files of a checkpoint are missing, changed or added."""


def write_checksums(directory: Path) -> None:
    """Write the sha256 of every file that is there by now."""
    (directory / CHECKSUMS).write_text(json.dumps(_checksums(directory), indent=1))


def verify_checkpoint(directory: Path) -> None:
    """Check every file against its checksum.

    Raises:
        DamagedCheckpoint: a file is missing, damaged or was added; all are named.
        JaxLMError: a file cannot be read, which says nothing about what it holds.
    """
    try:
        expected = dict(json.loads((directory / CHECKSUMS).read_text()))
        found = _checksums(directory)
    except (*ABSENT, ValueError, TypeError) as error:
        raise DamagedCheckpoint(
            f"{directory}: no readable {CHECKSUMS} and files: {error}"
        ) from error
    except OSError as error:
        raise JaxLMError(
            f"{directory}: the checkpoint cannot be checked ({error}): nothing is known of its "
            "state: mend the disk or its permissions, and try again"
        ) from error
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if wrong:
        raise DamagedCheckpoint(f"{directory}: damaged checkpoint: {', '.join(wrong)}")


def complete_steps(names: Iterable[str]) -> list[int]:
    """Steps with a complete checkpoint among the files of a run on an object store, oldest first.

    Nothing is renamed there: a checkpoint is complete once its checksums are there.
    """
    found = (COMPLETE.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match is not None)


def newest_valid(checkpoints: Path, say: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that verifies; damaged ones are named, never passed over in silence.

    Raises:
        JaxLMError: there are checkpoints and none verifies, or one cannot be read.
    """
    steps = list_steps(checkpoints)
    for step in reversed(steps):
        directory = step_directory(checkpoints, step)
        try:
            verify_checkpoint(directory)
        except DamagedCheckpoint as error:
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
    files = [path for path in _files(directory) if path.name != CHECKSUMS]
    names = [path.relative_to(directory).as_posix() for path in files]
    with ThreadPoolExecutor(HASHED_AT_ONCE) as pool:
        return dict(zip(names, pool.map(file_sha256, files), strict=True))


def _files(directory: Path) -> list[Path]:
    """All files below; unlike a glob it does not leave out those of an unreadable folder."""

    def refuse(error: OSError) -> None:
        raise error

    found = os.walk(directory, onerror=refuse)
    return sorted(Path(folder, name) for folder, _, names in found for name in names)
