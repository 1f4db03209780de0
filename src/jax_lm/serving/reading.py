"""Requests' bodies and queries, within limits of size and time."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from jax_lm.serving.options import ServeOptions
from jax_lm.serving.refusals import Refused, check_model, too_late
from jax_lm.serving.schemas.checking import checked
from jax_lm.serving.strict_json import read_json

LINGER_BYTES = 1 << 24
"""Of a body that is too large this much is read and thrown away, so that the client, which reads
the answer only once it has sent everything, gets it."""
LONG_BYTES = 1 << 10
"""Checking a shorter body and cutting it into tokens takes no longer than writing one does."""
ARRIVED = "jax_lm.arrived"
CLOSE = {"Connection": "close"}
CLOSED_REQUEST = 499
"""nginx's status for a client that went away; nobody receives it."""
Result = TypeVar("Result")


async def read_request(
    request: Request, schema: Mapping[str, Any], options: ServeOptions, model: str | None = None
) -> dict[str, Any]:
    """The JSON object in a request's body, checked; fields that are null are left out.

    Args:
        request: whose body is not read yet.
        schema: what it may hold.
        options: limits of size and time.
        model: the one that requests may name.

    Raises:
        Refused: 400, 404 for another model, 408, 413 or 415.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/[\w.+-]+\+json", kind):
        raise Refused(
            415,
            f"the content type is {kind or 'not given'}, expected application/json",
            code="unsupported_media_type",
            headers=CLOSE,
        )
    value = read_json(await _body(request, options))
    if model is not None and isinstance(value, dict):
        check_model(value.get("model"), model)
    found = await from_texts(request, lambda: checked(value, schema), options)
    return {name: one for name, one in found.items() if one is not None}


async def from_texts(request: Request, work: Callable[[], Result], options: ServeOptions) -> Result:
    """What ``work`` makes of a request's texts; of long ones in a thread, so that others go on.

    Raises:
        Refused: 504, the request's time is over.
    """
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told[:20]) <= LONG_BYTES:
        return work()
    try:
        async with asyncio.timeout(time_left(request.scope, options)):
            return await asyncio.to_thread(work)
    except TimeoutError as error:
        raise too_late(options.request_timeout) from error


def time_left(scope: Mapping[str, Any], options: ServeOptions) -> float:
    """Seconds until a request is given up, counted from its arrival."""
    arrived: float = scope[ARRIVED]
    return max(0.0, arrived + options.request_timeout - time.monotonic())


def read_query(request: Request, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The checked parameters of a request's address.

    Raises:
        Refused: 400, they are not UTF-8, not known or not as expected.
    """
    try:
        query = request.scope["query_string"].decode("ascii")
        given = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise Refused(400, f"the query is not UTF-8 text: {error}", code="invalid_query") from error
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise Refused(400, f"{name[:60]} is given more than once", param=name[:60])
    values = {name: _value(text, properties.get(name, {})) for name, text in given}
    schema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": [name for name, one in properties.items() if one == {"type": "string"}],
    }
    read: dict[str, Any] = checked(values, schema)
    return read


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    """What a word of a query stands for; what is no number stays text, and is refused as such."""
    try:
        if schema.get("type") == "integer" and re.fullmatch(r"-?[0-9]{1,20}", text):
            return int(text)
        if schema.get("type") == "number" and re.fullmatch(r"[-+0-9.eE]{1,400}", text):
            return float(text)
    except ValueError:
        pass
    return text


async def _body(request: Request, options: ServeOptions) -> bytes:
    try:
        async with asyncio.timeout(options.read_timeout):
            return await _within(request, options.max_body_bytes)
    except TimeoutError as error:
        raise Refused(
            408,
            f"the body did not arrive within {options.read_timeout:g} s",
            code="read_timeout",
            headers=CLOSE,
        ) from error
    except ClientDisconnect as error:
        raise Refused(CLOSED_REQUEST, "the client went away") from error


async def _within(request: Request, limit: int) -> bytes:
    told = request.headers.get("content-length", "")
    too_large = told.isdigit() and int(told[:20]) > limit
    if too_large and int(told[:20]) > LINGER_BYTES:
        raise _too_large(limit)
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        too_large = too_large or size > limit
        if size > max(limit, LINGER_BYTES):
            break
        if not too_large:
            body += chunk
    if too_large:
        raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> Refused:
    return Refused(
        413,
        f"the body is larger than the {limit:,} bytes that the server takes",
        code="body_too_large",
        headers=CLOSE,
    )
