"""What lies where in a run directory, and whether a run may start or go on there."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jax_lm.checkpoints import list_steps, newest_valid
from jax_lm.documents.files.locations import protocol_of, without_secrets
from jax_lm.errors import JaxLMError
from jax_lm.files.locking import BeingMade, FolderLock
from jax_lm.remote.caching import place_of
from jax_lm.remote.directory import RemoteDirectory, is_object_store
from jax_lm.sharding.processes import first_decides, is_shared, together
from jax_lm.trackers.jsonl import read_metrics


class RunDirectory:
    """Paths of one run."""

    def __init__(self, path: str | Path, url: str | None = None) -> None:
        """Name the paths; nothing is made.

        Args:
            path: the directory, on this machine.
            url: of the directory on an object store whose working copy this is.
        """
        self.path, self.url = Path(path), url
        self.shown = str(path) if url is None else without_secrets(url)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.final = self.path / "final"
        self.tokenizer = self.path / "tokenizer"
        self.report = self.path / "report.html"

    @property
    def is_finished(self) -> bool:
        """Whether the final model has been written."""
        return (self.final / "config.json").is_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training here; the directory is made if need be.

        The lock ends with the process, however that ends, and is held by the first of several.

        Raises:
            JaxLMError: another run is at work here, the directory cannot be made, or not all
                processes see it.
        """
        lock = FolderLock(self.path)
        try:
            together(lock.take)
        except BeingMade as error:
            raise JaxLMError(
                f"{self.shown}: another process is training here: wait for it to end, or choose "
                "another --run-dir"
            ) from error
        except OSError as error:
            raise JaxLMError(f"--run-dir {self.path} cannot be made: {error}") from error
        try:
            if not is_shared(self.path):
                raise JaxLMError(f"--run-dir {self.shown}: {self._unshared()}")
            yield
        finally:
            with suppress(OSError):  # where nothing came of the run
                self.path.rmdir()
            lock.release()

    def _unshared(self) -> str:
        if self.url is None:
            return (
                "not all hosts of the run see the same directory: choose one on a disk that all "
                "of them share"
            )
        return (
            f"on several hosts the working directory {self.path} must lie on a disk that all of "
            "them share: set JAX_LM_CACHE to a directory there"
        )

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


def open_run_directory(place: str) -> RunDirectory:
    """The run directory that a user names; one on an object store gets a working copy here.

    Raises:
        JaxLMError: it is a URL of something else.
    """
    if is_object_store(place):
        remote = RemoteDirectory(place)
        return RunDirectory(place_of("runs", remote.url) / remote.name, remote.url)
    if protocol_of(place) is not None:
        raise JaxLMError(
            f"--run-dir {without_secrets(place)}: a run cannot be written there: give a directory, "
            "or a URL such as gs://bucket/run"
        )
    return RunDirectory(place)


def find_checkpoint(run: RunDirectory, *, resume: str, say: Callable[[str], None]) -> Path | None:
    """The checkpoint to go on from, or None to start; of several processes the first one looks.

    Raises:
        JaxLMError: the directory holds a run and ``resume`` is ``never``, or no checkpoint of it
            verifies.
    """

    def found() -> str | None:
        if resume != "auto":
            _refuse_to_start_over(run)
            return None
        checkpoint = newest_valid(run.checkpoints, say)
        return None if checkpoint is None else str(checkpoint)

    path = first_decides(found)
    return None if path is None else Path(path)


def _refuse_to_start_over(run: RunDirectory) -> None:
    if run.is_finished or list_steps(run.checkpoints):
        raise JaxLMError(
            f"{_named(run)} already holds a run: continue it with --resume auto, or choose another "
            "--run-dir"
        )


def _named(run: RunDirectory) -> str:
    return run.shown if run.url is None else f"{run.path}, the working copy of {run.shown},"
