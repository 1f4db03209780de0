"""Whether a store answers at all: its driver would try for most of a minute to find out."""

import os
import socket
from urllib.parse import urlsplit

from jax_lm.errors import JaxLMError

GOOGLE_STORAGE = "https://storage.googleapis.com"
EMULATOR = "STORAGE_EMULATOR_HOST"
PROXIES = ("https_proxy", "http_proxy", "all_proxy")
TIMEOUT_SECONDS = 10.0


def refuse_unreachable(shown: str) -> None:
    """Refuse at once what is on Google Cloud Storage where nothing of that answers.

    Behind a proxy, or with an endpoint of one's own in fsspec's configuration, the driver alone
    can tell.

    Args:
        shown: the URL without its secrets.

    Raises:
        JaxLMError: the server's name is not known here, or it does not answer.
    """
    from fsspec.config import conf  # type: ignore[import-untyped]

    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in PROXIES):
        return
    if any("endpoint_url" in conf.get(protocol, {}) for protocol in ("gs", "gcs")):
        return
    host, port = _address()
    try:
        socket.create_connection((host, port), TIMEOUT_SECONDS).close()
    except OSError as error:
        raise JaxLMError(
            f"{shown}: cannot be reached: {host} does not answer ({error.strerror or error}): "
            "see whether this machine is on the network"
        ) from error


def _address() -> tuple[str, int]:
    given = os.environ.get(EMULATOR) or "default"
    parts = urlsplit(GOOGLE_STORAGE if given == "default" else given)
    if not parts.hostname:
        parts = urlsplit(f"http://{given}")
    return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
