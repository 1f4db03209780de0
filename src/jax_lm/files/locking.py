"""One process at a time in a folder, by a lock that leaves no file and dies with its holder."""

import os
from pathlib import Path

from jax_lm.errors import JaxLMError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # not a POSIX system: whoever starts two runs at once is not told
    flock = None  # type: ignore[assignment]


class BeingMade(JaxLMError):
    """Another process is at work in the folder."""


class FolderLock:
    """The lock of one folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is locked yet."""
        self._folder = folder
        self._descriptor: int | None = None

    def take(self) -> None:
        """Make the folder and lock it; a lock this process holds already is kept.

        Raises:
            BeingMade: another process holds it.
        """
        while self._descriptor is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._folder, os.O_RDONLY)
            if not _locked(descriptor):
                os.close(descriptor)
                raise BeingMade(
                    f"{self._folder}: another process is at work here: wait for it, or choose "
                    "another --output"
                )
            if self._is_there(descriptor):
                self._descriptor = descriptor
            else:  # removed by its last holder before we had it
                os.close(descriptor)

    def release(self) -> None:
        """Let others in; without a lock nothing happens."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.fstat(descriptor).st_ino == self._folder.stat().st_ino
        except FileNotFoundError:
            return False


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        if flock is not None:
            flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True
