"""Connections that do not wait for ever: neither for a request's head nor for slow readers."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from jax_lm.serving.refusals import Refused
from jax_lm.serving.strict_json import write_json

LATE = Refused(408, "the request's head did not arrive in time", code="read_timeout")


class Connection(H11Protocol):
    """One client; uvicorn itself waits for the first head, and for readers, as long as it takes."""

    seconds = 20.0
    """For a request's head, and for a reader that stalls."""
    _head: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Part of a request; each byte of its head does not begin the wait anew."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_head()
        elif self._head is None and not self.transport.is_closing():
            self._await_head()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._forget_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more to wait for."""
        self._forget_head()
        self._forget_stall()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head = self.loop.call_later(self.seconds, self._too_slow)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _too_slow(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.write(LATE_ANSWER)
            self.transport.close()


def with_timeouts(seconds: float) -> type[Connection]:
    """Connections that wait so long."""
    return type("Connection", (Connection,), {"seconds": seconds})


def _late_answer() -> bytes:
    body = write_json(LATE.body())
    head = (
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


LATE_ANSWER = _late_answer()
