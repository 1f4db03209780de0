"""OpenAI's ``/v1/completions``: texts that continue prompts.

https://platform.openai.com/docs/api-reference/completions
"""

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jax_lm.serving.answers import json_answer, usage, with_usage
from jax_lm.serving.decoding.writing import Token, Writings
from jax_lm.serving.reading import from_texts, read_request
from jax_lm.serving.refusals import Refused
from jax_lm.serving.routes.sampling import sampling, stop_texts
from jax_lm.serving.schemas.requests import completion
from jax_lm.serving.served import Served
from jax_lm.serving.streams import DONE, EventStream, answered, event

DEFAULT_TOKENS = 16
"""OpenAI's."""


async def completions(request: Request) -> Response:
    """Continue prompts."""
    served: Served = request.app.state.served
    context = served.worker.context_length
    schema = completion(served.name, served.vocab_size, served.most_texts, context)
    given = await read_request(request, schema, served.options, served.name)
    if given.get("echo") and "logprobs" in given:
        raise Refused(
            400,
            "echo with logprobs asks for the prompt's log-probabilities, which are not offered "
            "here; ask POST /log_probs, or leave one of them out",
            param="echo",
        )
    prompts = await from_texts(request, lambda: _prompts(given["prompt"], served), served.options)
    copies = given.get("n", 1)
    served.check_count(len(prompts) * copies)
    room = max(served.room(prompt) for prompt in prompts)
    config = sampling(given, room=room, default_tokens=DEFAULT_TOKENS)
    writings = served.write(prompts, config, copies=copies, stop=stop_texts(given))
    answer = _Completion(served, given, prompts, copies, writings)
    if given.get("stream"):
        return EventStream(answer.events(), served, writings.abandon)
    await answered(request, served, writings.finished(), writings.abandon)
    return json_answer(answer.whole())


def _prompts(prompt: Any, served: Served) -> list[list[int]]:
    if isinstance(prompt, str):
        return [served.encode(prompt)]
    if isinstance(prompt[0], int):
        return [prompt]
    return [served.encode(one) if isinstance(one, str) else one for one in prompt]


class _Completion:
    """The answer to one request."""

    def __init__(
        self,
        served: Served,
        given: dict[str, Any],
        prompts: Sequence[Sequence[int]],
        copies: int,
        writings: Writings,
    ) -> None:
        self._served, self._given, self._writings = served, given, writings
        self._base = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.name,
        }
        self._num_prompt_tokens = sum(map(len, prompts))
        self._echoes = [self._echo(prompt) for prompt in prompts for _ in range(copies)]

    def _echo(self, prompt: Sequence[int]) -> str:
        return self._served.tokenizer.decode(prompt) if self._given.get("echo") else ""

    def whole(self) -> dict[str, Any]:
        """The answer once all texts have ended."""
        choices = [
            self._choice(one.index, self._echoes[one.index] + one.text, one.tokens, one.finish)
            for one in self._writings.writings
        ]
        return {**self._base, "choices": choices, "usage": self._usage()}

    async def events(self) -> AsyncIterator[bytes]:
        """The answer in pieces."""
        told = with_usage(self._given)
        null = {"usage": None} if told else {}
        for index, echo in enumerate(self._echoes):
            if echo:
                yield event(
                    {**self._base, "choices": [self._choice(index, echo, (), None)], **null}
                )
        async for new in self._writings.updates():
            if not new.text and new.finish is None and "logprobs" not in self._given:
                continue
            choice = self._choice(new.number, new.text, new.tokens, new.finish)
            yield event({**self._base, "choices": [choice], **null})
        if told:
            yield event({**self._base, "choices": [], "usage": self._usage()})
        yield DONE

    def _usage(self) -> dict[str, int]:
        return usage(self._num_prompt_tokens, self._writings.num_tokens)

    def _choice(
        self, index: int, text: str, tokens: Sequence[Token], finish: str | None
    ) -> dict[str, Any]:
        log_probs = None
        if "logprobs" in self._given:
            log_probs = {
                "tokens": [self._served.spelling(token.id) for token in tokens],
                "token_logprobs": [token.log_prob for token in tokens],
                "top_logprobs": None,
                "text_offset": [token.offset for token in tokens],
            }
        return {"index": index, "text": text, "logprobs": log_probs, "finish_reason": finish}
