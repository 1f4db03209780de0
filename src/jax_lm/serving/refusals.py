"""Answers to requests that cannot be served: a status, one sentence, and OpenAI's error object."""

from collections.abc import Mapping
from typing import Any

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    421: "permission_error",
    429: "rate_limit_error",
    503: "unavailable_error",
    504: "timeout_error",
}


class Refused(Exception):
    """A request that gets an error for an answer."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The answer: OpenAI's ``error``, and what clients of JaxSeq look for beside it."""
        error = {
            "message": self.sentence,
            "type": KINDS.get(self.status, "server_error"),
            "param": self.param,
            "code": self.code,
        }
        return {"error": error, "status": "error", "error_message": self.sentence}


def too_busy(retry_after: int) -> Refused:
    """The queue is full."""
    return Refused(
        429,
        f"the server has as many requests as it takes; try again in {retry_after} s",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(retry_after)},
    )


def shutting_down() -> Refused:
    """No new work is taken any more."""
    return Refused(503, "the server is shutting down", code="shutting_down")


def too_late(seconds: float) -> Refused:
    """The time for a request is over."""
    return Refused(504, f"the answer took longer than {seconds:g} s", code="request_timeout")


def broken() -> Refused:
    """The decoding thread died."""
    return Refused(503, "the model failed, and the server ends; see its log", code="failed")


def check_model(asked: object, served: str) -> None:
    """Refuse the name of another model than the one that is served.

    Raises:
        Refused: 404.
    """
    if isinstance(asked, str) and asked != served:
        raise Refused(
            404,
            f"there is no model {asked[:100]!r} here, only {served!r}",
            code="model_not_found",
            param="model",
        )
