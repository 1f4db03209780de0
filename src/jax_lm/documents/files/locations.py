"""Places beyond this machine: how they are written, and shown without their secrets."""

import logging
import os
import re
from typing import Any

from jax_lm.documents.files.reaching import refuse_unreachable
from jax_lm.errors import JaxLMError, missing_extra

REMOTE = re.compile(r"[A-Za-z][\w+.-]*(?=://|::)")
CREDENTIALS = re.compile(r"(?<=://)[^/\s@'\"]*@")
QUERY = re.compile(r"(\w://[^\s?'\"]*)\?[^\s'\")]*")
TALKATIVE = ("fsspec", "gcsfs", "google.auth", "s3fs")
"""Loggers that would print tracebacks and warnings of their own; the error says it all."""
NOT_FOUND = 404
WEB = ("http", "https")
GOOGLE = ("gs", "gcs")
PACKAGES = {
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "s3": "s3fs",
    "s3a": "s3fs",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
}
NO_QUERIES = ("gs", "gcs", "s3", "s3a", "memory")
"""A question mark is a glob's there."""


def protocol_of(place: str) -> str | None:
    """The protocol of a URL; None for a path of this machine."""
    match = REMOTE.match(place)
    return None if match is None else match[0].lower()


def without_secrets(text: str) -> str:
    """A URL, or a sentence with URLs in it, without user names, passwords and queries."""
    return QUERY.sub(r"\1", CREDENTIALS.sub("", text))


def open_filesystem(url: str) -> tuple[Any, str]:
    """The filesystem that a URL is on and the path there.

    Credentials are found as each driver finds them; for Google Cloud Storage also in
    ``GCLOUD_PROJECT`` and ``GCLOUD_TOKEN_PATH``.

    Raises:
        JaxLMError: the protocol or its driver is missing, or the place cannot be reached.
    """
    protocol = protocol_of(url) or ""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
        from fsspec.registry import known_implementations  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_extra("fsspec", "remote", f"reading {protocol}:// files") from error
    if "::" not in url and protocol not in known_implementations:
        raise JaxLMError(f"{without_secrets(url)}: no such kind of place as {protocol}://")
    for name in TALKATIVE:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
    if protocol in GOOGLE:
        refuse_unreachable(without_secrets(url))
    try:
        filesystem, path = url_to_fs(url, **_options(protocol))
    except ImportError as error:
        package = PACKAGES.get(protocol, f"a driver for {protocol}://")
        raise missing_extra(package, "remote", f"reading {protocol}:// files") from error
    except Exception as error:  # each driver has its own
        raise unreachable(url, error) from error
    return filesystem, str(path)


def unreachable(url: str, error: BaseException) -> JaxLMError:
    """What a driver's error comes to, in one sentence without secrets."""
    shown = without_secrets(url)
    if isinstance(error, FileNotFoundError):
        cause = error.__cause__
        if cause is None or getattr(cause, "status", NOT_FOUND) == NOT_FOUND:
            return JaxLMError(f"{shown}: no such file or directory")
        error = cause
    said = without_secrets(" ".join(str(error).split()))
    kind = type(error).__name__
    return JaxLMError(f"{shown}: cannot be read: {kind}{f': {said}' if said else ''}")


def _options(protocol: str) -> dict[str, str]:
    if protocol not in GOOGLE:
        return {}
    given = {"project": os.environ.get("GCLOUD_PROJECT")}
    given["token"] = os.environ.get("GCLOUD_TOKEN_PATH")
    return {name: value for name, value in given.items() if value}
