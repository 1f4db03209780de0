"""A tokenizer's files, read with errors that name them."""

import json
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object, empty where there is no such file.

    Raises:
        JaxLMError: it is not UTF-8, or not a JSON object.
    """
    if not path.exists():
        return {}
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise JaxLMError(f"{path}: broken JSON ({error})") from error
    if not isinstance(value, dict):
        raise JaxLMError(f"{path}: expected a JSON object")
    return value


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        JaxLMError: it cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise JaxLMError(f"{path}: not UTF-8 ({error}); a tokenizer file is JSON text") from error


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        JaxLMError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise JaxLMError(f"{path}: cannot be read ({error.strerror})") from error
