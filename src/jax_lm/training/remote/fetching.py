"""Before a run goes on: what its object store holds, brought here where it is not."""

import shutil
from collections.abc import Callable
from pathlib import Path

from jax_lm.checkpoints import list_steps, read_best, step_directory, verify_checkpoint
from jax_lm.checkpoints.layout import (
    CHECKSUMS,
    remove_checkpoint,
    remove_leftovers,
    temporary_directory,
)
from jax_lm.checkpoints.retention import named_best
from jax_lm.checkpoints.verifying import DamagedCheckpoint, complete_steps
from jax_lm.errors import JaxLMError
from jax_lm.remote.directory import RemoteDirectory
from jax_lm.training.remote.ledger import (
    CHECKPOINTS,
    checksums_of,
    files_of,
    name_of,
    note_sent,
    sent_steps,
)
from jax_lm.training.remote.ownership import OWNER, Ownership

Say = Callable[[str], None]
FINAL = "final"


def fetch_run(
    run: Path, remote: RemoteDirectory, ownership: Ownership, *, resume: str, say: Say
) -> None:
    """Claim a run and make the directory here as the one on the store, which is the truth.

    Checkpoints here that were never uploaded are kept; those that differ from the store's, or are
    gone from it, are removed. Of newer ones there, the newest that verifies is brought here, and
    those after it are removed there.

    Args:
        run: the working directory on this machine.
        remote: the run directory.
        ownership: of that directory.
        resume: ``auto`` or ``never``.
        say: receives what is done.

    Raises:
        JaxLMError: a run is there already and ``resume`` is ``never``; nothing can be written
            there; no checkpoint verifies; or the store cannot be reached.
    """
    stored = remote.files()
    if resume != "auto" and (complete_steps(stored) or f"{FINAL}/config.json" in stored):
        raise JaxLMError(
            f"{remote.shown} already holds a run: continue it with --resume auto, or choose "
            "another --run-dir"
        )
    remote.refuse_unwritable()
    ownership.claim(stored, say)
    stored = remote.files()  # to which nobody else adds from here on
    stored.pop(OWNER, None)
    steps = complete_steps(stored)
    remove_leftovers(run / CHECKPOINTS)
    same = _agree(run, remote, steps)
    if not stored and not list_steps(run / CHECKPOINTS):
        _empty(run)
    for step in sorted(set(list_steps(run / CHECKPOINTS)) - same):
        say(f"step {step} was never uploaded to {remote.shown}: it is taken from {run}")
    taken = _take_newest(run, remote, steps, say)
    if taken is not None:
        same.add(taken)
        _take_rest(run, remote, list(stored))
        if read_best(run / CHECKPOINTS) is None:
            same |= _bring_best(run, remote, steps, say)
    note_sent(run, same)
    _remove_later(run, remote, list(stored))


def _agree(run: Path, remote: RemoteDirectory, steps: list[int]) -> set[int]:
    """Steps whose checkpoints are the same here and there; those that should be are removed."""
    sent, same = sent_steps(run), set()
    for step in list_steps(run / CHECKPOINTS):
        here = step_directory(run / CHECKPOINTS, step)
        if step in steps and _text(here / CHECKSUMS) == remote.read(checksums_of(step)):
            same.add(step)
        elif step in steps or step in sent:
            remove_checkpoint(here)
    return same


def _take_newest(run: Path, remote: RemoteDirectory, steps: list[int], say: Say) -> int | None:
    """Bring the newest checkpoint that verifies, unless as new a one is here; which one it is."""
    here = list_steps(run / CHECKPOINTS)
    for step in sorted({*steps, *here}, reverse=True):
        place = step_directory(run / CHECKPOINTS, step)
        if step in here and _verifies(place, say):
            return None
        if step in steps:
            remove_checkpoint(place)
            if _bring(run, remote, step, say):
                return step
    if steps and not list_steps(run / CHECKPOINTS):
        raise JaxLMError(
            f"{remote.shown}: none of the {len(steps)} checkpoints verifies; remove the directory "
            "or choose another --run-dir to start anew"
        )
    return None


def _bring(run: Path, remote: RemoteDirectory, step: int, say: Say) -> bool:
    """Whether a checkpoint could be brought here whole."""
    name, temporary = name_of(step), temporary_directory(run / CHECKPOINTS, step)
    files = remote.files(name)
    size = sum(file.num_bytes for file in files.values()) / 1e6
    say(f"bringing  {remote.shown}/{name} to this machine ({size:,.1f} MB)")
    shutil.rmtree(temporary, ignore_errors=True)
    below = RemoteDirectory(f"{remote.url}/{name}")
    below.download([file.removeprefix(f"{name}/") for file in files], temporary)
    try:
        verify_checkpoint(temporary)
    except DamagedCheckpoint as error:
        said = str(error).removeprefix(str(temporary))
        say(f"refused {remote.shown}/{name}{said}")
        shutil.rmtree(temporary)
        return False
    temporary.rename(step_directory(run / CHECKPOINTS, step))
    return True


def _verifies(place: Path, say: Say) -> bool:
    try:
        verify_checkpoint(place)
    except DamagedCheckpoint as error:
        say(f"refused {error}")
        return False
    return True


def _take_rest(run: Path, remote: RemoteDirectory, stored: list[str]) -> None:
    """Metrics, samples and what else belongs to a checkpoint that came from the store."""
    apart = (f"{CHECKPOINTS}/step-", f"{FINAL}/")
    for name in ("metrics.jsonl", "samples", "tensorboard"):
        _remove(run / name)
    remote.download([name for name in stored if not name.startswith(apart)], run)


def _bring_best(run: Path, remote: RemoteDirectory, steps: list[int], say: Say) -> set[int]:
    """The best checkpoint is brought here too, so that it is known and kept."""
    best = named_best(run / CHECKPOINTS)
    if best is not None and best.step in steps and _bring(run, remote, best.step, say):
        return {best.step}
    return set()


def _remove_later(run: Path, remote: RemoteDirectory, stored: list[str]) -> None:
    """Remove what is there after the newest checkpoint here, since none of it verified."""
    newest = max(list_steps(run / CHECKPOINTS), default=0)
    for step in complete_steps(stored):
        if step > newest:
            remote.remove(files_of(step, stored))


def _empty(run: Path) -> None:
    """Forget a run whose directory on the store was removed."""
    for path in run.iterdir():
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _text(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
