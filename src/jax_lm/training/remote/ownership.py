"""Who writes a run on an object store: the process that was started last."""

import json
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from jax_lm.errors import JaxLMError
from jax_lm.remote.directory import RemoteDirectory, StoredFile

OWNER = "_owner.json"


class TakenOver(JaxLMError):
    """Another process has taken the run over; what this one has must not be sent."""


class Ownership:
    """The right to write a run's directory, which lasts until another process claims it.

    It is a file that names its owner. Stores have no locks, and between a look at the file and
    what is then done there is a moment in which another may claim the run.
    """

    def __init__(self, remote: RemoteDirectory) -> None:
        """Nothing is claimed yet."""
        self._remote = remote
        self._own = {
            "token": secrets.token_hex(8),
            "host": socket.gethostname(),
            "began": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        }

    def claim(self, stored: Mapping[str, StoredFile], say: Callable[[str], None]) -> None:
        """Become the owner; whom the run is taken from, unless that one has ended, is said.

        Args:
            stored: what the directory holds.
            say: receives what is done.

        Raises:
            JaxLMError: the store cannot be read or written.
        """
        owner = self._owner()
        self._write(ended=False)
        if owner and not owner.get("ended"):
            say(
                f"taken over from {owner.get('host')}{_wrote_last(stored)}; if it still runs, it "
                "ends at its next checkpoint or evaluation"
            )

    def check(self) -> None:
        """Refuse to go on where another process has claimed the run.

        Raises:
            TakenOver: naming its host.
            JaxLMError: the store cannot be read.
        """
        owner = self._owner()
        if owner and owner.get("token") != self._own["token"]:
            raise TakenOver(
                f"{self._remote.shown}: the run was taken over by {owner.get('host')} "
                f"({owner.get('began')}), so it has ended on {self._own['host']}, which sends "
                "nothing more; to take it back, start it here again with --resume auto"
            )

    def end(self) -> None:
        """Note that the owner has ended, where the store can be reached and it is still ours."""
        with suppress(JaxLMError):
            self.check()
            self._write(ended=True)

    def _owner(self) -> dict[str, Any]:
        """What the file says; nothing where there is none."""
        found = self._remote.read(OWNER)
        try:
            owner = json.loads(found or b"{}")
        except ValueError:
            return {}
        return owner if isinstance(owner, dict) else {}

    def _write(self, *, ended: bool) -> None:
        self._remote.write(OWNER, json.dumps(self._own | {"ended": ended}).encode())


def _wrote_last(stored: Mapping[str, StoredFile]) -> str:
    times = [file.written for file in stored.values() if file.written is not None]
    if not times:
        return ""
    minutes = int((datetime.now(UTC) - max(times)).total_seconds() // 60)
    if minutes < 1:
        return ", which wrote last less than a minute ago"
    if minutes < 120:
        return f", which wrote last {minutes} minute{'s' * (minutes > 1)} ago"
    return f", which wrote last {minutes // 60} hours ago"
