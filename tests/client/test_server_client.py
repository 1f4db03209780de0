import io
import json
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from jax_lm.chat.remote_speaker import RemoteSpeaker
from jax_lm.chat.terminal import Terminal
from jax_lm.client.server_client import ServerClient
from jax_lm.documents.conversations.messages import USER, message
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.generation.sampling import SamplingConfig

ASKED = (message(USER, "hi"),)


class Scripted(BaseHTTPRequestHandler):
    """Answers as an OpenAI-like server does; the model's name says how it fails."""

    asked: ClassVar[list[dict]] = []
    model = "tiny"
    silence: ClassVar = threading.Event()

    def do_GET(self) -> None:
        self._send(200, json.dumps({"data": [{"id": self.model}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({**body, "token": self.headers.get("Authorization")})
        if body["model"] == "silent":
            self.silence.wait(20)
            return None
        if body["model"] == "full":
            refusal = {"error": {"message": "the queue is full", "type": "overloaded"}}
            return self._send(429, json.dumps(refusal).encode())
        pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("Hé", "llo")]
        lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces]
        if body["model"] == "failing":
            lines.append('data: {"error": {"message": "out of memory"}}\n\n')
        if body["model"] != "broken":
            lines.append("data: [DONE]\n\n")
        return self._send(200, b": comment\n\n" + "".join(lines).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Scripted.model, Scripted.asked = "tiny", []
    Scripted.silence.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Scripted.silence.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_answer_comes_in_pieces_with_the_settings_asked_for(url: str) -> None:
    speaker = RemoteSpeaker(ServerClient(f"{url}/v1/", "secret"))
    sampling = SamplingConfig(temperature=0.5, max_new_tokens=7, seed=3)
    assert list(speaker.answer(ASKED, sampling)) == ["Hé", "llo"]
    (asked,) = Scripted.asked
    assert asked["messages"] == [{"role": "user", "content": "hi"}]
    assert (asked["temperature"], asked["max_tokens"], asked["seed"]) == (0.5, 7, 3)
    assert asked["stream"] is True
    assert asked["token"] == "Bearer secret"
    assert speaker.name == f"tiny at {url}"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("full", r"the server refused \(429\): the queue is full"),
        ("failing", "the server failed: .*out of memory"),
        ("broken", "the server ended the answer before it was whole"),
    ],
)
def test_a_server_that_fails_is_told_in_a_sentence(url: str, model: str, said: str) -> None:
    Scripted.model = model
    speaker = RemoteSpeaker(ServerClient(url))
    with pytest.raises(JaxLMError, match=said):
        list(speaker.answer(ASKED, SamplingConfig()))


def test_no_server_is_a_sentence() -> None:
    with pytest.raises(JaxLMError, match=r"the server does not answer .*; is it running"):
        ServerClient("127.0.0.1:1").model()
    with pytest.raises(UsageError, match="--url ftp://x: expected an address such as"):
        ServerClient("ftp://x")


def test_a_silent_server_is_not_waited_for(url: str) -> None:
    Scripted.model = "silent"
    speaker = RemoteSpeaker(ServerClient(url))
    output = io.StringIO()
    main_thread = threading.main_thread().ident
    presses = threading.Timer(0.3, signal.pthread_kill, [main_thread, signal.SIGINT])
    presses.start()
    terminal = Terminal(io.StringIO(), output)
    started = time.monotonic()
    said = terminal.speak("model", speaker.answer(ASKED, SamplingConfig()), speaker.interrupt)
    assert said == ("", True)
    assert time.monotonic() - started < 10
    presses.join()
