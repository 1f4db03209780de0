"""Answers that take a while: given up when the client goes away or the time is over."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from jax_lm.errors import JaxLMError
from jax_lm.serving.decoding.jobs import NotServing, QueueFull
from jax_lm.serving.reading import CLOSED_REQUEST, time_left
from jax_lm.serving.refusals import Refused, broken, shutting_down, too_busy, too_late
from jax_lm.serving.served import Served
from jax_lm.serving.strict_json import write_json

LOG = logging.getLogger("jax_lm.serving")
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
DONE = b"data: [DONE]\n\n"
LAST_WORDS = 1.0
"""Seconds for an error to reach a client that may have stopped reading."""
Answer = TypeVar("Answer")


async def answered(
    request: Request, served: Served, work: Awaitable[Answer], on_end: Callable[[], None]
) -> Answer:
    """What ``work`` gives, unless the client goes away or the time is over.

    Raises:
        Refused: 499, 504, or why the work failed.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait(
            {working, leaving},
            timeout=time_left(request.scope, served.options),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if working.done():
            return working.result()
        if leaving.done():
            raise Refused(CLOSED_REQUEST, "the client went away")
        raise too_late(served.options.request_timeout)
    except Refused:
        raise
    except Exception as error:
        raise refusal_of(error, served) from error
    finally:
        await _cancelled(working, leaving)
        on_end()


def refusal_of(error: Exception, served: Served) -> Refused:
    """What a client is told of an error."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, QueueFull):
        return too_busy(served.retry_after())
    if isinstance(error, NotServing):
        return broken() if served.worker.error is not None else shutting_down()
    if isinstance(error, JaxLMError):
        return Refused(400, str(error), code="invalid_request")
    if error is not served.worker.error:
        LOG.error("a request failed", exc_info=error)
    return Refused(500, "the server failed; its log says why", code="failed")


def event(value: Any) -> bytes:
    """A server-sent event."""
    return b"data: " + write_json(value) + b"\n\n"


class EventStream(Response):
    """Server-sent events, until they end, the client goes away or the time is over."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        served: Served,
        on_end: Callable[[], None],
        *,
        error_name: bytes = b"",
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._events, self._served, self._on_end = events, served, on_end
        self._error_name = error_name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        seconds = time_left(scope, self._served.options)
        sending = asyncio.ensure_future(self._send(send, seconds))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await _cancelled(sending, leaving)
            self._on_end()

    async def _send(self, send: Send, seconds: float) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            async with asyncio.timeout(seconds):
                await send(start)
                async for data in self._events:
                    await send(_part(data))
        except TimeoutError:
            await self._send_error(too_late(self._served.options.request_timeout), send)
        except Exception as error:
            await self._send_error(refusal_of(error, self._served), send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_error(self, refused: Refused, send: Send) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await send(_part(self._error_name + event(refused.body())))


def _part(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
