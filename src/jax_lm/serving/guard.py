"""What every request passes first: is there a token, is the server still taking work."""

import hmac
import time
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jax_lm.serving.answers import refusal_answer
from jax_lm.serving.origins import check_host, check_site, header
from jax_lm.serving.reading import ARRIVED, CLOSED_REQUEST
from jax_lm.serving.refusals import Refused, shutting_down
from jax_lm.serving.served import Served

OPEN = ("/", "/healthz")
PAGE_FILES = "/page/"
MODEL = "/v1/models/"
STARTING = ("/generate",)
"""Where a mere link starts work; anything else wants a JSON body, which other pages cannot send."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
HEADERS = [(b"x-content-type-options", b"nosniff")]


class Guard:
    """Refuses strangers, counts all answers, and tells new clients when the server ends."""

    def __init__(self, app: ASGIApp, served: Served, routes: Iterable[str]) -> None:
        self._app = app
        self._served = served
        self._routes = frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, scope[ARRIVED] = CLOSED_REQUEST, time.monotonic()

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        try:
            await self._past(scope)(scope, receive, counting)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._served.metrics.requests.add(self._route(scope["path"]), method, str(status))

    def _route(self, path: str) -> str:
        """A request's route: few, whatever clients ask for."""
        if path in self._routes:
            return path
        for prefix in (PAGE_FILES, MODEL):
            if path.startswith(prefix):
                return prefix
        return "other"

    def _past(self, scope: Scope) -> ASGIApp:
        try:
            self._check(scope)
        except Refused as refused:
            return refusal_answer(refused)
        return self._app

    def _check(self, scope: Scope) -> None:
        path, options = scope["path"], self._served.options
        if path in OPEN or path.startswith(PAGE_FILES):
            return
        if not self._admitted(scope):
            raise Refused(
                401,
                "this server wants its token in the header Authorization: Bearer TOKEN",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._served.token is None:
            check_host(scope, options)
        if scope["method"] != "POST" and path in STARTING:
            check_site(scope, options)
        if self._served.draining and scope["method"] == "POST":
            raise shutting_down()

    def _admitted(self, scope: Scope) -> bool:
        token = self._served.token
        if token is None:
            return True
        scheme, _, shown = (header(scope, b"authorization") or b"").partition(b" ")
        # The comparison takes as long whatever the token: nobody can find it letter by letter.
        same = hmac.compare_digest(shown.strip(), token.encode())
        return bool(same) and scheme.lower() == b"bearer"
