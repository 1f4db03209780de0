"""A run directory's files sent to its object store, so that what is there is always whole."""

from collections.abc import Callable
from pathlib import Path

from jax_lm.checkpoints import list_steps, read_best, step_directory
from jax_lm.checkpoints.retention import Retention, superfluous
from jax_lm.checkpoints.verifying import complete_steps
from jax_lm.errors import JaxLMError
from jax_lm.remote.directory import RemoteDirectory, StoredFile, differing
from jax_lm.training.remote.ledger import (
    CHECKPOINTS,
    checksums_of,
    files_of,
    name_of,
    note_sent,
    sent_steps,
)

FINAL = "final"
COMPLETE_MODEL = f"{FINAL}/config.json"
REWRITTEN = ("samples/", "tensorboard/")
"""Folders in which a run that goes on removes what an earlier process wrote."""
LEFT_HERE = ("wandb/", "checkpoints/step-", f"{FINAL}/")
"""W&B uploads its own; the others have an order of their own."""


class Sender:
    """Sends what has changed since it was last sent."""

    def __init__(
        self,
        run: Path,
        remote: RemoteDirectory,
        retention: Retention,
        *,
        check: Callable[[], None],
    ) -> None:
        """Nothing is sent yet.

        Args:
            run: the working directory on this machine.
            remote: the run directory.
            retention: which checkpoints are kept.
            check: raises where this process may not write any more; called before it does.
        """
        self._run, self._remote, self._retention = run, remote, retention
        self._check_owner = check
        self._sent: dict[str, tuple[int, int]] = {}

    def send(self) -> None:
        """Make the store's copy as the directory is here, without ``final``.

        Raises:
            JaxLMError: something could not be sent; what has been is whole.
        """
        self._check_owner()
        steps = list_steps(self._run / CHECKPOINTS)  # whose metrics are logged by now
        stored = self._remote.files()
        self._send_changed(stored)
        self._remove_incomplete(stored)
        sent = sent_steps(self._run)
        for step in reversed(steps):
            if step not in sent or checksums_of(step) not in stored:
                self._send_checkpoint(step, stored)
        self._remove_old()

    def send_final(self) -> None:
        """Send the final model, its ``config.json`` last.

        Raises:
            JaxLMError: it could not be sent.
        """
        self._check_owner()
        local = _files(self._run / FINAL, FINAL)
        stored = {n: f for n, f in self._remote.files(FINAL).items() if n.startswith(f"{FINAL}/")}
        changed = differing(stored, local)
        gone = stored.keys() - local.keys()
        if COMPLETE_MODEL not in local or not (changed or gone):
            return
        self._remote.remove([COMPLETE_MODEL, *gone])
        self._remote.upload({name: local[name] for name in changed if name != COMPLETE_MODEL})
        self._check(FINAL, {name: local[name] for name in local if name != COMPLETE_MODEL})
        self._remote.upload({COMPLETE_MODEL: local[COMPLETE_MODEL]})

    def _send_changed(self, stored: dict[str, StoredFile]) -> None:
        """Metrics, samples, configuration and the like; small files, which may still grow."""
        local = {
            name: path
            for name, path in _files(self._run).items()
            if not name.startswith(LEFT_HERE)
            and not any(part.startswith(("_", ".")) for part in name.split("/"))
        }
        for name, path in local.items():
            try:
                status = path.stat()
                stamp = (status.st_size, status.st_mtime_ns)
                if self._sent.get(name) != stamp:
                    self._remote.write(name, path.read_bytes())
                    self._sent[name] = stamp
            except FileNotFoundError:  # removed meanwhile
                continue
        self._remote.remove(
            name for name in stored if name.startswith(REWRITTEN) and name not in local
        )

    def _remove_incomplete(self, stored: dict[str, StoredFile]) -> None:
        """What is there of checkpoints that were never completed."""
        complete = {name_of(step) for step in complete_steps(stored)}
        self._remote.remove(
            name
            for name in stored
            if name.startswith(f"{CHECKPOINTS}/step-")
            and "/".join(name.split("/")[:2]) not in complete
        )

    def _send_checkpoint(self, step: int, stored: dict[str, StoredFile]) -> None:
        directory, name = step_directory(self._run / CHECKPOINTS, step), name_of(step)
        self._check_owner()
        self._remote.remove(files_of(step, stored))
        local = _files(directory, name)
        last = local.pop(checksums_of(step), None)
        try:
            self._remote.upload(local)
            self._check(name, local)
            if last is None:
                return  # removed meanwhile
            self._remote.upload({checksums_of(step): last})
        except (JaxLMError, FileNotFoundError):
            if directory.is_dir():
                raise
            return
        note_sent(self._run, sent_steps(self._run) | {step})

    def _check(self, folder: str, local: dict[str, Path]) -> None:
        """Compare what the store says it holds with what was sent, which may have taken long."""
        self._check_owner()
        if wrong := differing(self._remote.files(folder), local):
            raise JaxLMError(f"{self._remote.shown}/{wrong[0]}: is not there as it was sent")

    def _remove_old(self) -> None:
        self._check_owner()
        best = read_best(self._run / CHECKPOINTS)
        stored = self._remote.files(CHECKPOINTS)
        settings = self._retention
        old = superfluous(
            complete_steps(stored),
            settings.keep,
            settings.keep_every,
            None if best is None else best.step,
        )
        for step in old:
            self._remote.remove(files_of(step, stored))


def _files(directory: Path, name: str = "") -> dict[str, Path]:
    """Files by their names in the run directory, whose folder ``name`` this is."""
    folder = f"{name}/" if name else ""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {folder + path.relative_to(directory).as_posix(): path for path in found}
