"""How the server is, what it serves, and its page."""

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from jax_lm.serving.answers import json_answer
from jax_lm.serving.metrics import CONTENT_TYPE
from jax_lm.serving.openapi import document
from jax_lm.serving.refusals import Refused, check_model
from jax_lm.serving.served import Served

PAGE = files("jax_lm.serving") / "page"
KINDS = {"chat.css": "text/css", "chat.js": "text/javascript", "icon.svg": "image/svg+xml"}
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


async def healthz(request: Request) -> Response:
    """Whether requests are served."""
    served: Served = request.app.state.served
    status = served.status
    body = {"status": status, "model": served.name}
    return json_answer(body, 200 if status == "ok" else 503)


async def metrics(request: Request) -> Response:
    """Counts, for Prometheus."""
    served: Served = request.app.state.served
    return Response(served.metrics.page(), headers={"Content-Type": CONTENT_TYPE})


async def openapi(request: Request) -> Response:
    """All of this, described."""
    return json_answer(document(request.app.state.served))


async def models(request: Request) -> Response:
    """The one model, in a list."""
    return json_answer({"object": "list", "data": [_model(request.app.state.served)]})


async def model(request: Request) -> Response:
    """The one model."""
    served: Served = request.app.state.served
    check_model(request.path_params["model"], served.name)
    return json_answer(_model(served))


def _model(served: Served) -> dict[str, object]:
    return {
        "id": served.name,
        "object": "model",
        "created": served.created,
        "owned_by": "jax-lm",
        "context_length": served.worker.context_length,
    }


async def page(request: Request) -> Response:
    """The chat page, or a file of it."""
    name = request.path_params.get("file", "index.html")
    kind = "text/html" if name == "index.html" else KINDS.get(name)
    if kind is None:
        raise Refused(404, f"there is no file {name[:100]!r} of the chat page")
    content = (PAGE / name).read_bytes()
    return Response(content, headers=PAGE_HEADERS, media_type=kind)
