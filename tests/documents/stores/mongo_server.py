"""A server that speaks MongoDB's protocol, and a proxy that can cut its connections."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SECONDS_TO_START = 30


@contextmanager
def running_server() -> Iterator[str]:
    """``127.0.0.1:PORT`` of a fresh server in memory; skips where none is installed."""
    pymongo = pytest.importorskip("pymongo", reason="needs pymongo")
    beside = Path(sys.executable).parent / "secantusd-py"
    program = str(beside) if beside.exists() else shutil.which("secantusd-py")
    if program is None:
        pytest.skip("needs a server that speaks MongoDB's protocol: pip install secantusdb")
    port = _free_port()
    options = ["--port", str(port), "--storage-path", ":memory:", "--log-level", "ERROR"]
    process = subprocess.Popen([program, *options], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SECONDS_TO_START
        with pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=500) as client:
            while True:
                with suppress(pymongo.errors.PyMongoError):
                    client.admin.command("ping")
                    break
                assert time.monotonic() < deadline, "the server did not start"
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


class CuttingProxy:
    """Passes connections on to a server, and cuts them all when told to."""

    def __init__(self, address: str):
        host, port = address.split(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self.connections = 0
        self.cut_after_bytes: int | None = None
        """From the server to the client, over all connections; then everything is cut once."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Cut every connection; new ones are accepted."""
        while self._sockets:
            with suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut every connection and accept no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            for pair in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if counted and self.cut_after_bytes is not None:
                    self.cut_after_bytes -= len(data)
                    if self.cut_after_bytes < 0:
                        self.cut_after_bytes = None
                        self.cut()
                        break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
