"""Clients that misbehave, on real sockets: each gets a status and a sentence, and others go on."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.serving.conftest import COMPLETIONS, Running, Serve, refused, streaming

JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def _the_server_goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        server: Running = request.getfixturevalue("server")
        body = {"prompt": "say", "max_tokens": 2}
        assert server.client.post(COMPLETIONS, json=body).status_code == 200
        assert server.becomes("jax_lm_slots_busy", 0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the body is not JSON"),
        (b"\xff\xfe", "the body is not UTF-8"),
        (b"[" * 500_000, "nested too deeply"),
        (b"null", "the body should be an object, not null"),
        (b'{"prompt": ["a", {}]}', "prompt should be text"),
        (b'{"prompt": "a", "max_tokens": -1}', "max_tokens should be at least 1"),
        (b'{"prompt": "a", "n": 1e400}', "n should be an integer"),
        (b'{"prompt": "\\ud800"}', "prompt should be text"),
        (b'{"prompt": "a", "\\ud800": 1}', "is not known here"),
        (b'{"prompt": "a", "n": 500}', "n should be at most 12, not 500"),
        (b'{"prompt": ["a", "b", "c"], "n": 12}', "the request asks for 36 texts"),
        (b'{"prompt": "a", "min_tokens": 9, "max_tokens": 2, "stop": [""]}', "stop should be"),
    ],
)
def test_bodies_that_mean_nothing(server: Running, body: bytes, said: str) -> None:
    refused(server.client.post(COMPLETIONS, content=body, headers=JSON), 400, said)


def test_a_prompt_longer_than_the_context(server: Running) -> None:
    answer = server.client.post(COMPLETIONS, json={"prompt": [1] * 200})
    refused(answer, 400, "the prompt has 200 tokens, and the model's context of 200 leaves no room")


def test_a_long_prompt_does_not_hold_up_the_others(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(pace=0.005, context_length=1000))
    with streaming(server) as lines, ThreadPoolExecutor(1) as pool:
        next(lines)
        body = {"prompt": "word " * 150_000}
        answer = pool.submit(server.client.post, COMPLETIONS, json=body)
        waits, last = [], time.monotonic()
        while not answer.done():
            next(line for line in lines if line)
            now = time.monotonic()
            waits.append(now - last)
            last = now
        refused(answer.result(), 400, "the prompt has")
    assert len(waits) > 3
    assert max(waits) < sum(waits) / 2


def test_another_content_type(server: Running) -> None:
    """A form of another web page could be sent without asking; JSON could not."""
    answer = server.client.post(COMPLETIONS, content=b"{}", headers={"Content-Type": "text/plain"})
    refused(answer, 415, "the content type is text/plain, expected application/json")


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [2 << 20, 40 << 20])
def test_a_body_that_is_too_large(server: Running, chunked: bool, size: int) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(size >> 16):
            yield b" " * (1 << 16)

    content: Any = parts() if chunked else b" " * size
    try:
        answer = server.client.post(COMPLETIONS, content=content, headers=JSON)
    except httpx.TransportError:  # it was cut off while it sent what was no use
        assert size > 16 << 20
    else:
        refused(answer, 413, "the body is larger than the 1,048,576 bytes")


def test_wrong_addresses_and_methods(server: Running) -> None:
    refused(server.client.get("/nothing"), 404, "there is nothing at /nothing")
    answer = server.client.delete("/generate")
    refused(answer, 405, "DELETE is not offered at /generate")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_not_even_http(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_a_wrong_token(serve: Serve) -> None:
    server = serve(token="s3cret")
    wrong = [{}, {"Authorization": "Bearer s3cre"}, {"Authorization": "Basic s3cret"}]
    wrong += [{"Authorization": b"Bearer \xc3\xa9"}, {"Authorization": "s3cret"}]
    for headers in wrong:
        answer = server.client.post(COMPLETIONS, json={"prompt": "a"}, headers=headers)
        refused(answer, 401, "this server wants its token")
        assert answer.headers["www-authenticate"] == "Bearer"
    refused(server.client.get("/metrics"), 401, "this server wants its token")
    assert server.client.get("/healthz").status_code == 200
    assert server.client.get("/").status_code == 200
    right = {"Authorization": "bearer s3cret"}
    answer = server.client.post(COMPLETIONS, json={"prompt": "a"}, headers=right)
    assert answer.status_code == 200
    document = server.client.get("/openapi.json", headers=right).json()
    assert document["paths"][COMPLETIONS]["post"]["security"] == [{"token": []}]


def test_a_client_that_goes_away_frees_its_slot(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(num_slots=2, pace=0.01, context_length=100_000), max_queue=4)
    with ExitStack() as stack:
        streams = [stack.enter_context(streaming(server)) for _ in range(2)]
        assert all(next(lines) for lines in streams)
        with pytest.raises(httpx.ReadTimeout):  # waits for a slot, and then not any more
            server.client.post(COMPLETIONS, json={"prompt": "a"}, timeout=0.2)
        assert server.becomes("jax_lm_queue_length", 0)
        assert server.metric("jax_lm_slots_busy") == 2
        steps = server.decoder.steps
    assert server.becomes("jax_lm_slots_busy", 0)
    assert server.decoder.released == 2
    # As many steps as fit in the time until the connections' ends are noticed.
    assert server.decoder.steps < steps + 100


def test_a_waiting_client_that_goes_away(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(num_slots=1, pace=0.01, context_length=100_000))
    with streaming(server) as lines:
        next(lines)
        with pytest.raises(httpx.ReadTimeout):
            server.client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 90_000}, timeout=0.2)
        assert server.becomes("jax_lm_queue_length", 0)


def test_texts_are_counted_as_they_are_written(serve: Serve, scripted: Any) -> None:
    """Those that somebody gave up too, and before they end."""
    server = serve(scripted(pace=0.01, context_length=100_000))
    with streaming(server) as lines:
        next(lines)
        time.sleep(0.2)
        assert server.metric('jax_lm_tokens_total{kind="generated"}') > 5
    assert server.becomes('jax_lm_texts_total{reason="abandoned"}', 1)
    written = server.metric('jax_lm_tokens_total{kind="generated"}')
    server.client.post(COMPLETIONS, json={"prompt": "say", "max_tokens": 3})
    assert server.metric('jax_lm_tokens_total{kind="generated"}') == written + 3
    assert server.metric('jax_lm_texts_total{reason="length"}') == 1
    assert server.metric("jax_lm_time_to_first_token_seconds_count") == 2
    assert server.metric("jax_lm_text_seconds_count") == 1


def test_a_full_queue(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(num_slots=1, pace=0.01, context_length=100_000), max_queue=1)
    with streaming(server) as lines, streaming(server):
        next(lines)
        answer = server.client.post(COMPLETIONS, json={"prompt": "a"})
        refused(answer, 429, "the server has as many requests as it takes; try again in")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert server.becomes("jax_lm_slots_busy", 0)
    answer = server.client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 1})
    assert answer.status_code == 200


def test_the_deadline_counts_from_the_arrival(serve: Serve, monkeypatch: Any) -> None:
    """Cutting into tokens is part of it; and it does not hold up the others."""

    def slow(*given: Any) -> Any:
        time.sleep(0.8)
        return []

    server = serve(request_timeout=0.3)
    monkeypatch.setattr("jax_lm.serving.routes.completions._prompts", slow)
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        waiting = pool.submit(server.client.post, COMPLETIONS, json={"prompt": "a" * 2000})
        assert server.client.get("/healthz").status_code == 200
        refused(waiting.result(), 504, "the answer took longer than 0.3 s")
        assert time.monotonic() - began < 0.7
    body = {"prompt": "a", "max_tokens": 2}
    monkeypatch.setattr(  # what little is done in the loop counts as well
        "jax_lm.serving.routes.completions._prompts", lambda *given: slow() or [[1]]
    )
    refused(server.client.post(COMPLETIONS, json=body), 504, "the answer took longer than 0.3 s")


def test_a_long_conversation_does_not_hold_up_the_others(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(context_length=100_000))
    one = [{"role": role, "content": "a"} for role in ("user", "assistant")]
    body = {"messages": (one * 200)[:-1], "max_tokens": 1, "forget_oldest": True}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.client.post, "/v1/chat/completions", json=body)
        waits = []
        while not answer.done():
            began = time.monotonic()
            httpx.get(f"{server.url}/healthz", trust_env=False)
            waits.append(time.monotonic() - began)
    assert answer.result().status_code == 200, answer.result().text
    assert max(waits) < 1


def test_a_request_has_a_deadline(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(pace=0.01, context_length=100_000), request_timeout=0.3)
    body = {"prompt": "a", "max_tokens": 90_000}
    answer = server.client.post(COMPLETIONS, json=body)
    refused(answer, 504, "the answer took longer than 0.3 s")
    with streaming(server) as lines:
        *_, last = filter(None, lines)
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "request_timeout"
    assert server.becomes("jax_lm_slots_busy", 0)


def test_a_thousand_slow_connections(serve: Serve) -> None:
    server = serve(read_timeout=2.0)
    half_head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    head = half_head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with ExitStack() as stack:
        slow = []
        for number in range(1000):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            client.sendall((b"", half_head, head + b'{"prompt"')[number % 3])
            slow.append(client)
        body = {"prompt": "say", "max_tokens": 3}
        began = time.monotonic()
        assert server.client.post(COMPLETIONS, json=body).status_code == 200
        assert time.monotonic() - began < 2
        until = time.monotonic() + 20
        for client in slow:
            client.settimeout(max(0.1, until - time.monotonic()))
            assert client.recv(12) == b"HTTP/1.1 408"
    assert server.client.post(COMPLETIONS, json=body).status_code == 200


def test_a_head_that_drips_is_not_waited_for(serve: Serve) -> None:
    server = serve(read_timeout=0.5)
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        client.setblocking(False)
        answer = b""
        while not answer and time.monotonic() - began < 5:
            client.send(b"G")
            time.sleep(0.05)
            try:
                answer = client.recv(4096)
            except BlockingIOError:
                continue
    assert answer.startswith((b"HTTP/1.1 408", b"HTTP/1.1 400"))
    assert time.monotonic() - began < 2


@pytest.mark.slow
def test_a_client_that_does_not_read(serve: Serve, scripted: Any, tokenizer: Any) -> None:
    decoder = scripted(context_length=10_000_000)
    server = serve(decoder, read_timeout=0.5)
    body = json.dumps({"prompt": "a", "max_tokens": 9_000_000, "stream": True}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert server.becomes("jax_lm_slots_busy", 1)
        assert server.becomes("jax_lm_slots_busy", 0, seconds=15)


def test_other_pages_may_call_where_allowed(serve: Serve) -> None:
    closed = serve().client.get("/healthz", headers={"Origin": "https://a.example"})
    assert "access-control-allow-origin" not in closed.headers
    server = serve(allow_origin=("https://a.example",), token="t")
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    answer = server.client.options(COMPLETIONS, headers=asked)
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    other = server.client.options(COMPLETIONS, headers={**asked, "Origin": "https://b.example"})
    assert other.status_code == 400
