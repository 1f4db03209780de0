"""OpenAI's ``/v1/chat/completions``: answers in a conversation.

https://platform.openai.com/docs/api-reference/chat
"""

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jax_lm.documents.conversations.messages import read_messages
from jax_lm.documents.malformed import RecordError
from jax_lm.generation.chat_prompt import ChatPrompt, chat_prompt, fitting_prompt
from jax_lm.serving.answers import json_answer, usage, with_usage
from jax_lm.serving.decoding.writing import Token, Writings
from jax_lm.serving.reading import from_texts, read_request
from jax_lm.serving.refusals import Refused
from jax_lm.serving.routes.sampling import sampling, stop_texts
from jax_lm.serving.schemas.requests import chat
from jax_lm.serving.served import Served
from jax_lm.serving.streams import DONE, EventStream, answered, event

ANSWER_SHARE = 4
"""What is forgotten leaves a quarter of the context to the answer, unless it asks for less."""


async def chat_completions(request: Request) -> Response:
    """Answer the last message."""
    served: Served = request.app.state.served
    schema = chat(served.name, served.vocab_size, served.most_texts)
    given = await read_request(request, schema, served.options, served.name)
    copies = given.get("n", 1)
    prompt = await from_texts(
        request, lambda: served.conversation(_prompt(given, served)), served.options
    )
    room = served.room(prompt.ids)
    given["stop_token_ids"] = [*given.get("stop_token_ids", ()), *prompt.stop_ids]
    config = sampling(given, room=room, default_tokens=room)
    stop = (*stop_texts(given), *prompt.stop)
    writings = served.write([prompt.ids], config, copies=copies, stop=stop)
    answer = _ChatAnswer(served, given, prompt, writings)
    if given.get("stream"):
        return EventStream(answer.events(), served, writings.abandon)
    await answered(request, served, writings.finished(), writings.abandon)
    return json_answer(answer.whole())


def _prompt(given: dict[str, Any], served: Served) -> ChatPrompt:
    try:
        messages = read_messages(given["messages"], "messages")
    except RecordError as error:
        raise Refused(400, str(error), code="invalid_value", param="messages") from error
    if not given.get("forget_oldest"):
        return chat_prompt(messages, served.template, served.tokenizer)
    context = served.worker.context_length
    wanted = given.get("max_completion_tokens", given.get("max_tokens", context))
    most = context - max(1, min(wanted, context // ANSWER_SHARE))
    if served.reads_apart:
        most = context - 1  # but for EOS
    return fitting_prompt(messages, served.template, served.tokenizer, most=most)


class _ChatAnswer:
    """The answer to one request."""

    def __init__(
        self, served: Served, given: dict[str, Any], prompt: ChatPrompt, writings: Writings
    ) -> None:
        self._served, self._given, self._prompt = served, given, prompt
        self._writings = writings
        self._base = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": served.name,
            "num_forgotten": prompt.num_forgotten,
        }

    def whole(self) -> dict[str, Any]:
        """The answer once all texts have ended."""
        choices = [
            {
                "index": one.index,
                "message": {"role": "assistant", "content": one.text, "refusal": None},
                "logprobs": self._log_probs(one.tokens),
                "finish_reason": one.finish,
            }
            for one in self._writings.writings
        ]
        kind = {"object": "chat.completion"}
        return {**self._base, **kind, "choices": choices, "usage": self._usage()}

    async def events(self) -> AsyncIterator[bytes]:
        """The answer in pieces."""
        told = with_usage(self._given)
        base = {**self._base, "object": "chat.completion.chunk"}
        null = {"usage": None} if told else {}
        for one in self._writings.writings:
            began = self._choice(one.index, {"role": "assistant", "content": ""}, (), None)
            yield event({**base, "choices": [began], **null})
        async for new in self._writings.updates():
            if new.text or (new.tokens and self._given.get("logprobs")):
                said = self._choice(new.number, {"content": new.text}, new.tokens, None)
                yield event({**base, "choices": [said], **null})
            if new.finish is not None:
                ended = self._choice(new.number, {}, (), new.finish)
                yield event({**base, "choices": [ended], **null})
        if told:
            yield event({**base, "choices": [], "usage": self._usage()})
        yield DONE

    def _usage(self) -> dict[str, int]:
        return usage(len(self._prompt.ids), self._writings.num_tokens)

    def _choice(
        self, index: int, delta: dict[str, str], tokens: Sequence[Token], finish: str | None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return choice | {"logprobs": self._log_probs(tokens) if tokens else None}

    def _log_probs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        if not self._given.get("logprobs"):
            return None
        content: list[dict[str, Any]] = [
            {
                "token": self._served.spelling(token.id),
                "logprob": token.log_prob,
                "bytes": None,
                "top_logprobs": [],
            }
            for token in tokens
        ]
        return {"content": content, "refusal": None}
