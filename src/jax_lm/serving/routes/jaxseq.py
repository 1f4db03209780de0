"""The addresses that JaxSeq's servers had, for its clients."""

import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jax_lm.serving.answers import json_answer
from jax_lm.serving.decoding.writing import Writings
from jax_lm.serving.reading import from_texts, read_request
from jax_lm.serving.refusals import Refused
from jax_lm.serving.routes.sampling import sampling
from jax_lm.serving.schemas.requests import STOP_STREAM, jaxseq_generate, log_probs
from jax_lm.serving.served import Served
from jax_lm.serving.streams import EventStream, answered, event

DEFAULT_TOKENS = 128


async def generate(request: Request) -> Response:
    """Texts that continue ``in_strs``, each with its prompt in front where one model reads both."""
    served: Served = request.app.state.served
    schema = jaxseq_generate(served.most_texts, served.vocab_size)
    given = await read_request(request, schema, served.options)
    words = given.get("generation_kwargs") or {}
    words = {name: value for name, value in words.items() if value is not None}
    longest = min(given.get("max_input_length", served.worker.context_length), _longest(served))
    prompts = await from_texts(
        request,
        lambda: [served.encode(text)[-longest:] for text in given["in_strs"]],
        served.options,
    )
    fields = _fields(words, given.get("rng"), max(map(len, prompts)))
    room = max(served.room(prompt) for prompt in prompts)
    writings = served.write(prompts, sampling(fields, room=room, default_tokens=DEFAULT_TOKENS))
    decode = served.tokenizer.decode
    lead = ["" if served.reads_apart else decode(prompt) for prompt in prompts]
    if given.get("stream"):
        return _stream(served, writings, lead)
    await answered(request, served, writings.finished(), writings.abandon)
    return json_answer({"status": "success", "data": _texts(writings, lead)})


def _longest(served: Served) -> int:
    """Tokens of a prompt that leave room for one more."""
    return served.worker.context_length - (0 if served.reads_apart else 1)


def _fields(words: dict[str, Any], seed: int | None, prompt_length: int) -> dict[str, Any]:
    """OpenAI's names for what ``generation_kwargs`` says; its default is not to draw at all."""
    names = ("temperature", "top_p", "top_k", "repetition_penalty")
    fields = {name: words[name] for name in names if name in words}
    if not words.get("do_sample"):
        fields["temperature"] = 0
    if "max_new_tokens" in words:
        fields["max_tokens"] = words["max_new_tokens"]
    elif "max_length" in words:
        if words["max_length"] <= prompt_length:
            raise Refused(
                400,
                f"max_length is {words['max_length']}, and the prompt alone has {prompt_length} "
                "tokens; give max_new_tokens",
                param="generation_kwargs.max_length",
            )
        fields["max_tokens"] = words["max_length"] - prompt_length
    if "min_new_tokens" in words:
        fields["min_tokens"] = words["min_new_tokens"]
    if "eos_token_id" in words:
        fields["stop_token_ids"] = [words["eos_token_id"]]
    return fields | ({} if seed is None else {"seed": seed})


def _texts(writings: Writings, lead: Sequence[str]) -> list[str]:
    return [start + one.text for start, one in zip(lead, writings.writings, strict=True)]


def _stream(served: Served, writings: Writings, lead: Sequence[str]) -> Response:
    request_id = uuid.uuid4().hex
    served.streams[request_id] = writings

    def end() -> None:
        served.streams.pop(request_id, None)
        writings.abandon()

    events = _events(request_id, writings, lead)
    return EventStream(events, served, end, error_name=b"event: error\n")


async def _events(request_id: str, writings: Writings, lead: Sequence[str]) -> AsyncIterator[bytes]:
    """The full texts so far, each time some have grown: one event, however many."""
    yield _so_far(request_id, writings, lead)
    async for changed in writings.changes():
        if any(new.text or new.finish is not None for new in changed):
            yield _so_far(request_id, writings, lead)


def _so_far(request_id: str, writings: Writings, lead: Sequence[str]) -> bytes:
    data = {"strs": _texts(writings, lead), "request_id": request_id}
    return event({"status": "success", "data": data})


async def stop_stream(request: Request) -> Response:
    """End a stream where it is; whether there was one."""
    served: Served = request.app.state.served
    given = await read_request(request, STOP_STREAM, served.options)
    writings = served.streams.pop(given["request_id"], None)
    if writings is not None:
        writings.halt()
    return json_answer(writings is not None)


async def score(request: Request) -> Response:
    """Natural logarithms of the outputs' probabilities given the inputs."""
    served: Served = request.app.state.served
    given = await read_request(request, log_probs(served.options.max_texts), served.options)
    if len(given["in_strs"]) != len(given["out_strs"]):
        raise Refused(
            400,
            f"in_strs has {len(given['in_strs'])} texts and out_strs {len(given['out_strs'])}; "
            "each output needs an input",
            param="out_strs",
        )
    pairs = await from_texts(request, lambda: _pairs(given, served), served.options)
    scores = await answered(request, served, served.scoring.log_probs(pairs), _nothing)
    return json_answer({"status": "success", "data": scores})


def _pairs(given: dict[str, Any], served: Served) -> list[tuple[list[int], list[int]]]:
    context = served.worker.context_length
    most_in, most_out = (given.get(f"max_{side}_length", context) for side in ("input", "output"))
    return [
        (served.encode(source)[-most_in:], served.encode_output(target)[: min(most_out, context)])
        for source, target in zip(given["in_strs"], given["out_strs"], strict=True)
    ]


def _nothing() -> None:
    """A score that nobody waits for stops by itself."""
