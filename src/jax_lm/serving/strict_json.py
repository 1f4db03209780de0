"""JSON as the standard has it, in both directions."""

import json
from typing import Any

from jax_lm.serving.refusals import Refused


def read_json(data: bytes) -> Any:
    """The value that a request's body spells.

    Raises:
        Refused: 400, it is not UTF-8 or not JSON, or nested too deeply.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise Refused(
            400, f"the body is not UTF-8: {error.reason} at byte {error.start}", code="invalid_utf8"
        ) from error
    except RecursionError as error:
        raise Refused(400, "the body is nested too deeply", code="invalid_json") from error
    except ValueError as error:
        said = str(error).split("; use sys.")[0]
        raise Refused(400, f"the body is not JSON: {said}", code="invalid_json") from error


def write_json(value: Any) -> bytes:
    """A value as JSON in UTF-8; what is no Unicode text in it comes out escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
