"""Prompts continued by a model that a server runs."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from typing import Any

from jax_lm.client.server_client import ServerClient, request_fields
from jax_lm.generation.requests import Finish
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import Continuation

PATH = "/v1/completions"


def continue_remotely(
    client: ServerClient,
    prompts: Sequence[str],
    sampling: SamplingConfig,
    *,
    copies: int = 1,
    at_once: int = 16,
) -> list[Continuation]:
    """Every prompt's continuations, in order.

    Args:
        client: of the server.
        prompts: texts.
        sampling: how they are continued; each copy has the next seed.
        copies: continuations of each prompt.
        at_once: requests that are open at the same time.

    Raises:
        JaxLMError: the server refuses or fails.
    """
    model = str(client.model()["id"])
    asked = [
        (prompt, replace(sampling, seed=(sampling.seed + copy) % 2**32))
        for prompt in prompts
        for copy in range(copies)
    ]
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(_continued, repeat(client), repeat(model), *zip(*asked, strict=True)))


def stream_remotely(
    client: ServerClient, prompt: str, sampling: SamplingConfig, hear: Callable[[str], None]
) -> Continuation:
    """One prompt's continuation, told piece by piece as it comes.

    Raises:
        JaxLMError: the server refuses or fails.
    """
    body = {**_body(str(client.model()["id"]), prompt, sampling), "logprobs": 0}
    text, num_tokens, reason = "", 0, None
    for event in client.stream(PATH, body):
        for choice in event.get("choices", []):
            text += choice["text"]
            hear(choice["text"])
            num_tokens += _num_tokens(choice)
            reason = choice.get("finish_reason") or reason
    return Continuation(prompt, text, num_tokens, _finish(reason))


def _body(model: str, prompt: str, sampling: SamplingConfig) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, **request_fields(sampling)}


def _continued(
    client: ServerClient, model: str, prompt: str, sampling: SamplingConfig
) -> Continuation:
    answer = client.ask(PATH, _body(model, prompt, sampling))
    (choice,) = answer["choices"]
    count = int(answer["usage"]["completion_tokens"])
    return Continuation(prompt, choice["text"], count, _finish(choice["finish_reason"]))


def _finish(reason: str | None) -> Finish:
    return "stop" if reason == "stop" else "length"


def _num_tokens(choice: dict[str, Any]) -> int:
    return len((choice.get("logprobs") or {}).get("tokens", []))
