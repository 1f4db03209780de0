"""What answers have in common."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from jax_lm.serving.refusals import Refused
from jax_lm.serving.strict_json import write_json

JSON = "application/json"


def json_answer(value: Any, status: int = 200) -> Response:
    """A value as the whole answer."""
    return Response(write_json(value), status, media_type=JSON)


def refusal_answer(refused: Refused) -> Response:
    """Why there is no answer."""
    return Response(write_json(refused.body()), refused.status, refused.headers, JSON)


def usage(num_read: int, num_written: int) -> dict[str, int]:
    """OpenAI's count of tokens."""
    return {
        "prompt_tokens": num_read,
        "completion_tokens": num_written,
        "total_tokens": num_read + num_written,
    }


def with_usage(given: Mapping[str, Any]) -> bool:
    """Whether a stream's last chunk should count the tokens."""
    return bool((given.get("stream_options") or {}).get("include_usage"))
