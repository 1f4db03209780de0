"""The application: which address leads to what."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jax_lm.errors import JaxLMError
from jax_lm.serving.answers import refusal_answer
from jax_lm.serving.guard import Guard
from jax_lm.serving.refusals import Refused
from jax_lm.serving.routes import jaxseq, status
from jax_lm.serving.routes.chat_completions import chat_completions
from jax_lm.serving.routes.completions import completions
from jax_lm.serving.routes.sentence import sentence
from jax_lm.serving.served import Served

ROUTES = (
    ("GET", "/", status.page),
    ("GET", "/page/{file}", status.page),
    ("POST", "/v1/completions", completions),
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", status.models),
    ("GET", "/v1/models/{model:path}", status.model),
    ("POST", "/generate", jaxseq.generate),
    ("GET", "/generate", sentence),
    ("POST", "/log_probs", jaxseq.score),
    ("POST", "/stop_stream", jaxseq.stop_stream),
    ("GET", "/healthz", status.healthz),
    ("GET", "/metrics", status.metrics),
    ("GET", "/openapi.json", status.openapi),
)
Endpoint = Callable[[Request], Awaitable[Response]]
JOIN_SECONDS = 5.0
"""A step under way ends within this, or the process ends without it."""


def make_app(served: Served) -> Starlette:
    """The ASGI application that serves a model; it starts and ends the decoding thread."""
    middleware = [Middleware(Guard, served=served, routes={path for _, path, _ in ROUTES})]
    if served.options.allow_origin:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(served.options.allow_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
        middleware.insert(0, cors)
    app = Starlette(
        routes=_routes(),
        middleware=middleware,
        exception_handlers={
            Refused: _refused,
            JaxLMError: _bad_input,
            HTTPException: _no_such_route,
            Exception: _failed,
        },
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False
    app.state.served = served
    return app


def _routes() -> list[Route]:
    """One route an address; where two methods lead to different places, one that chooses."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for method, path, endpoint in ROUTES:
        paths.setdefault(path, {})[method] = endpoint
    return [Route(path, _by_method(ends), methods=list(ends)) for path, ends in paths.items()]


def _by_method(ends: dict[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await ends[method](request)

    return endpoint


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    served: Served = app.state.served
    loop = asyncio.get_running_loop()

    def post(run: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(run)

    served.worker.start(post)
    try:
        yield
    finally:
        served.draining = True
        served.worker.stop()
        served.scoring.close()
        await asyncio.to_thread(served.worker.join, JOIN_SECONDS)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return refusal_answer(error)


async def _bad_input(request: Request, error: Exception) -> Response:
    return refusal_answer(Refused(400, str(error), code="invalid_request"))


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = {
        404: f"there is nothing at {request.url.path[:100]}; see /openapi.json",
        405: f"{request.method[:20]} is not offered at {request.url.path[:100]}",
    }.get(error.status_code, error.detail)
    return refusal_answer(Refused(error.status_code, sentence, headers=error.headers))


async def _failed(request: Request, error: Exception) -> Response:
    return refusal_answer(Refused(500, "the server failed; its log says why", code="failed"))
