"""The server process: listens, and ends well."""

import logging
import socket
import time
from types import FrameType

import uvicorn

from jax_lm.errors import JaxLMError
from jax_lm.serving.app import make_app
from jax_lm.serving.connections import with_timeouts
from jax_lm.serving.options import ServeOptions
from jax_lm.serving.served import Served

LAST_ANSWERS = 2
"""Seconds for telling clients whose texts were cut off."""
IDLE_SECONDS = 15
"""After which a connection without a request is closed."""
OPEN_FILES = 65_536


class Server(uvicorn.Server):
    """A server that finishes what it has begun before it ends."""

    def __init__(self, served: Served) -> None:
        options = served.options
        super().__init__(
            uvicorn.Config(
                make_app(served),
                http=with_timeouts(options.read_timeout),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=LAST_ANSWERS,
            )
        )
        self._served = served
        self._ends_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets running requests finish, the second does not."""
        grace = self._served.options.grace_period if self._ends_at is None else 0.0
        self._served.draining = True
        self._ends_at = time.monotonic() + grace

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to end; asked ten times a second."""
        over = await super().on_tick(counter)
        if self._served.worker.error is not None:
            return True  # whoever runs the server sees that it has ended
        if self._ends_at is None:
            return over
        late = time.monotonic() >= self._ends_at
        if late:
            self._served.worker.stop()  # those who still wait are told
        return over or late or not self.server_state.tasks


def listen(options: ServeOptions) -> socket.socket:
    """The socket that a server listens on.

    Raises:
        JaxLMError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((options.host, options.port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise JaxLMError(
            f"--host {options.host} --port {options.port}: cannot listen there: "
            f"{error.strerror or error}; choose another"
        ) from error
    return listening


def run(served: Served, listening: socket.socket) -> None:
    """Serve until a signal says to stop.

    Raises:
        JaxLMError: the model failed while it wrote.
    """
    logging.basicConfig(format="jax-lm serve: %(message)s", level=logging.WARNING)
    _allow_many_connections()
    with listening:
        Server(served).run(sockets=[listening])
    error = served.worker.error
    if error is not None:
        what = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        raise JaxLMError(
            f"{served.name} failed while it wrote, so the server has ended: {what}; start it "
            "again, with a smaller --max-concurrent or --max-length where memory ran out"
        )


def _allow_many_connections() -> None:
    """As many open files as may be had: a slow client each takes one."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
