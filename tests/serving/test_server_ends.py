"""How a server ends: because it is told to, or because its model fails."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.serving.running import listen, run
from tests.serving.conftest import COMPLETIONS, Running, Serve, make_served, refused, streaming


def gone(server: Running) -> None:
    """Nobody answers any more."""
    with pytest.raises(httpx.ConnectError):
        for _ in range(100):
            with suppress(httpx.ReadError):  # of a connection that was still open
                server.client.get("/healthz")
            time.sleep(0.05)


def test_a_model_that_fails(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(fail_at=30, pace=0.005, context_length=100_000))
    with streaming(server) as lines:
        answer = server.client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 90_000})
        refused(answer, 500, "the server failed; its log says why")
        *_, last = filter(None, lines)
    assert json.loads(last.removeprefix("data: "))["error"]["type"] == "server_error"
    gone(server)


def test_a_server_whose_model_failed_ends_with_a_sentence(tokenizer: Any, scripted: Any) -> None:
    served = make_served(tokenizer, scripted(fail_at=1))
    listening = listen(served.options)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}{COMPLETIONS}"
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run, served, listening)
        refused(httpx.post(url, json={"prompt": "a"}), 500, "the server failed; its log says why")
        with pytest.raises(JaxLMError, match=r"tiny failed while it wrote.*: out of memory; start"):
            ended.result(20)


def test_prompts_that_cannot_be_read_do_not_end_the_server(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(most_read=0))
    answer = server.client.post(COMPLETIONS, json={"prompt": "a"})
    refused(answer, 500, "the server failed; its log says why")
    server.decoder.most_read = 1
    assert server.client.post(COMPLETIONS, json={"prompt": "a"}).status_code == 200


def test_scores_that_fail(serve: Serve) -> None:
    def score(pairs: Any) -> list[float]:
        raise RuntimeError("out of memory")

    server = serve(score=score)
    answer = server.client.post("/log_probs", json={"in_strs": ["a"], "out_strs": ["b"]})
    refused(answer, 500, "the server failed")
    assert server.client.get("/healthz").status_code == 200


def test_a_server_told_to_stop_finishes_what_it_began(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(pace=0.005, context_length=200))
    with streaming(server) as lines:
        next(lines)
        server.server.handle_exit(15, None)
        answer = server.client.post(COMPLETIONS, json={"prompt": "a"})
        refused(answer, 503, "the server is shutting down")
        health = server.client.get("/healthz")
        assert (health.status_code, health.json()["status"]) == (503, "shutting down")
        assert [line for line in lines if line][-1] == "data: [DONE]"


def test_a_server_does_not_wait_for_ever(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(pace=0.005, context_length=100_000), grace_period=0.3)
    with streaming(server) as lines:
        next(lines)
        server.server.handle_exit(15, None)
        *_, last = filter(None, lines)
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"
    gone(server)
