"""A running server, spoken to in OpenAI's words over the standard library's HTTP."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.generation.sampling import SamplingConfig

TIMEOUT_SECONDS = 600.0
"""Longest silence of the server that is waited for."""
OURS = "jax-lm"
"""Who a model of a server of this program is said to belong to."""
UNUSUAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Settings that not every server knows, with what leaves them off."""
Value = Mapping[str, Any]


class ServerClient:
    """Asks one server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """Prepare to ask ``url``; nothing is sent yet.

        Raises:
            UsageError: it is no http or https address.
        """
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--url {url}: expected an address such as http://127.0.0.1:8000")
        self._secure = parts.scheme == "https"
        self._place = (parts.hostname, parts.port or (443 if self._secure else 80))
        self._base = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json", "Accept": "*/*"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.url = f"{parts.scheme}://{parts.netloc}{self._base}"
        self._streaming: http.client.HTTPConnection | None = None

    def model(self) -> dict[str, Any]:
        """The first model that the server has: its ``id``, and what else is said of it.

        Raises:
            JaxLMError: the server does not answer, or not as such a server does.
        """
        models = self._json("GET", "/v1/models", None).get("data")
        first = models[0] if isinstance(models, list) and models else None
        if not isinstance(first, dict) or "id" not in first:
            raise JaxLMError(f"{self.url}: the server names no model; is it an OpenAI-like server?")
        return first

    def ask(self, path: str, body: Value) -> dict[str, Any]:
        """The whole answer to a request.

        Raises:
            JaxLMError: the server refuses, fails or does not answer.
        """
        return self._json("POST", path, body)

    def stream(self, path: str, body: Value) -> Iterator[dict[str, Any]]:
        """The events of an answer as they come; closing the iterator hangs up.

        Raises:
            JaxLMError: the server refuses, fails or falls silent.
        """
        connection = self._streaming = self._connect()
        try:
            response = self._respond(connection, "POST", path, {**body, "stream": True})
            for line in response:
                if not line.startswith(b"data:"):
                    continue
                data = line[len(b"data:") :].strip()
                if data == b"[DONE]":
                    return
                yield self._event(data)
            raise JaxLMError(f"{self.url}: the server ended the answer before it was whole")
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            self._streaming = None
            connection.close()

    def hang_up(self) -> None:
        """End the answer that ``stream`` waits for, also from a signal's handler."""
        if self._streaming is not None and self._streaming.sock is not None:
            with suppress(OSError):
                self._streaming.sock.shutdown(socket.SHUT_RDWR)

    def _json(self, method: str, path: str, body: Value | None) -> dict[str, Any]:
        connection = self._connect()
        try:
            return self._event(self._respond(connection, method, path, body).read())
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(*self._place, timeout=TIMEOUT_SECONDS)

    def _respond(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Value | None,
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, self._base + path, data, self._headers)
        response = connection.getresponse()
        if response.status >= 400:
            said = _message(response.read())
            raise JaxLMError(f"{self.url}: the server refused ({response.status}): {said}")
        return response

    def _event(self, data: bytes) -> dict[str, Any]:
        try:
            value = json.loads(data)
        except ValueError as error:
            raise JaxLMError(f"{self.url}: the server's answer is not JSON") from error
        if not isinstance(value, dict):
            raise JaxLMError(f"{self.url}: the server's answer is not a JSON object")
        if "error" in value:
            raise JaxLMError(f"{self.url}: the server failed: {_message(data)}")
        return value

    def _unreachable(self, error: Exception) -> JaxLMError:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return JaxLMError(f"{self.url}: the server does not answer ({said}); is it running?")


def _message(data: bytes) -> str:
    """What an error says, in OpenAI's shape or any other."""
    try:
        value = json.loads(data)
        error = value.get("error", value) if isinstance(value, dict) else value
        said = error.get("message", error) if isinstance(error, dict) else error
    except ValueError:
        said = data.decode(errors="replace")
    return " ".join(str(said).split())[:400] or "no reason given"


def request_fields(sampling: SamplingConfig) -> dict[str, Any]:
    """Sampling settings as OpenAI's words have them, and others only where they are asked for."""
    fields: dict[str, Any] = {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }
    for name, off in UNUSUAL.items():
        if (value := getattr(sampling, name)) != off:
            fields[name] = value
    if sampling.min_new_tokens:
        fields["min_tokens"] = sampling.min_new_tokens
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    if sampling.stop_ids:
        fields["stop_token_ids"] = list(sampling.stop_ids)
    return fields
