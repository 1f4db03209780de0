"""A MongoDB server: one client for each process, and patience when the connection drops."""

import os
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from jax_lm.documents.stores.mongodb_address import MongoAddress
from jax_lm.errors import JaxLMError, UsageError, missing_extra

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.database import Database

Answer = TypeVar("Answer")
SELECTION_MS = 5000
PATIENCE_SECONDS = 30.0
"""How long a connection that was there once is waited for."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 3.0
NEEDS = "Reading and writing MongoDB"


class MongoServer:
    """Asks a database, through a client that no other process uses."""

    def __init__(self, address: MongoAddress):
        """Connects on first use.

        Raises:
            JaxLMError: pymongo is not installed.
        """
        try:
            import pymongo  # noqa: F401
        except ModuleNotFoundError as error:
            raise missing_extra("pymongo", "mongodb", NEEDS) from error
        self.address = address
        self._begin()

    def _begin(self) -> None:
        self._clients: dict[int, MongoClient[dict[str, Any]]] = {}
        self._answered = False
        weakref.finalize(self, _close, self._clients)

    def __getstate__(self) -> MongoAddress:
        """What travels to another process: no socket."""
        return self.address

    def __setstate__(self, address: MongoAddress) -> None:
        """Begin without a connection."""
        self.address = address
        self._begin()

    def ask(self, question: Callable[["Database[dict[str, Any]]"], Answer]) -> Answer:
        """The answer to a question that may be put again.

        Args:
            question: is given the database. It is called anew after a dropped connection, for up
                to ``PATIENCE_SECONDS`` where the server has answered before.

        Raises:
            JaxLMError: the server does not answer, or refuses; no secret is repeated.
        """
        from pymongo import errors

        began, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                answer = question(self._database())
                self._answered = True
                return answer
            except errors.ConnectionFailure as error:
                waited = time.monotonic() - began
                if not self._answered or waited > PATIENCE_SECONDS:
                    raise self._no_answer(error) from None
            except errors.PyMongoError as error:
                raise self._refused(error) from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Close this process's connections."""
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def _database(self) -> "Database[dict[str, Any]]":
        # Clients of another process stay referenced: closing them here would wait for its locks.
        process = os.getpid()
        if process not in self._clients:
            self._clients[process] = self._connect()
        return self._clients[process][self.address.database]

    def _connect(self) -> "MongoClient[dict[str, Any]]":
        from pymongo import MongoClient, errors

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # an unknown option only warns
                return MongoClient(self.address.uri, **self._defaults())
        except (errors.ConfigurationError, UserWarning, ValueError, TypeError) as error:
            message = self.address.without_secrets(str(error)).partition(" or maybe")[0]
            raise UsageError(f"{self.address.place}: {message}") from None

    def _defaults(self) -> dict[str, Any]:
        given = self.address.uri.lower()
        asked = "serverselectiontimeoutms=" in given
        return {} if asked else {"serverSelectionTimeoutMS": SELECTION_MS}

    def _no_answer(self, error: Exception) -> JaxLMError:
        message = self.address.without_secrets(str(error)).partition(" (configured")[0]
        return JaxLMError(
            f"{self.address.place}: the server does not answer ({message}); start it, or check "
            "the address"
        )

    def _refused(self, error: Exception) -> JaxLMError:
        details = getattr(error, "details", None) or {}
        first = next(iter(details.get("writeErrors", [])), details)
        message = self.address.without_secrets(str(first.get("errmsg") or error))
        return JaxLMError(f"{self.address.place}: {message}")


def announce(line: str) -> None:
    """Tell the user what was done to the database."""
    sys.stderr.write(f"{line}\n")


def _close(clients: "dict[int, MongoClient[dict[str, Any]]]") -> None:
    client = clients.pop(os.getpid(), None)
    if client is not None:
        client.close()
