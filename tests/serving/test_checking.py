import json
from typing import Any

import pytest

from jax_lm.serving.refusals import Refused
from jax_lm.serving.schemas.checking import checked
from jax_lm.serving.schemas.requests import chat, completion, one_object, whole
from jax_lm.serving.strict_json import read_json, write_json

COMPLETION = completion("tiny", 100, 8, 50)
CHAT = chat("tiny", 100, 8)


@pytest.mark.parametrize("prompt", ["a", "", ["a", "b"], [1, 2], [[1], [2, 3]], [5.0]])
def test_prompts_of_every_kind(prompt: Any) -> None:
    assert checked({"prompt": prompt}, COMPLETION) == {"prompt": prompt}


def test_whole_numbers_are_integers() -> None:
    value = checked({"prompt": [1.0], "max_tokens": 3.0, "temperature": 2}, COMPLETION)
    assert [type(one) for one in (value["prompt"][0], value["max_tokens"])] == [int, int]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt": 3}, "prompt should be text, a list of token ids from 0 to 99 (at most"),
        ({"prompt": ["a", 1]}, "prompt should be text"),
        ({"prompt": []}, "prompt should be text"),
        ({"prompt": [100]}, "prompt should be text"),
        ({"prompt": [-1]}, "prompt should be text"),
        ({"prompt": [1] * 51}, "prompt should be text, a list of token ids from 0 to 99 (at most"),
        ({"prompt": [[1] * 51]}, "prompt should be text"),
        ({"prompt": "\ud800"}, "prompt should be text"),
        ({"max_tokens": 0}, "max_tokens should be at least 1, not 0"),
        ({"max_tokens": -5}, "max_tokens should be at least 1, not -5"),
        ({"max_tokens": 1.5}, "max_tokens should be an integer or null, not 1.5"),
        ({"max_tokens": True}, "max_tokens should be an integer or null, not true"),
        ({"max_tokens": "7"}, "max_tokens should be an integer or null, not '7'"),
        ({"temperature": -0.1}, "temperature should be at least 0, not -0.1"),
        ({"top_p": 2}, "top_p should be at most 1, not 2"),
        ({"stop": ""}, "stop should be text, a list of at most 16 texts, or null"),
        ({"stop": ["a"] * 17}, "stop should be text"),
        ({"presence_penalty": 0.5}, "presence_penalty should be 0, null, not 0.5"),
        ({"logit_bias": {"1": 5}}, "logit_bias should have at most 0 entries, not 1"),
        ({"temprature": 1}, "temprature is not known here; did you mean 'temperature'?"),
        ({"stream_options": {"usage": True}}, "stream_options.usage is not known here"),
        ({"stream": "yes"}, "stream should be true or false or null, not 'yes'"),
        ({"user": []}, "user should be text or null, not a list"),
        ({"user": "\udfff"}, "user holds half a surrogate pair"),
    ],
)
def test_a_refusal_names_the_place(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refused:
        checked({"prompt": "a", **changes}, COMPLETION)
    assert refused.value.status == 400
    assert refused.value.sentence.startswith(said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "the body should be an object, not a list"),
        ({}, "messages is missing"),
        ({"messages": [{"role": "user"}]}, "messages[0].content is missing"),
        ({"messages": [{"role": "cat", "content": ""}]}, "messages[0].role should be system,"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "text": ""}]}]},
            "messages[0].content should be text or a list of parts of type text",
        ),
    ],
)
def test_places_within_places(body: Any, said: str) -> None:
    with pytest.raises(Refused, match="^" + said.replace("[", r"\[")):
        checked(body, CHAT)


def test_a_number_above() -> None:
    schema = {"type": "number", "exclusiveMinimum": 0}
    assert checked(0.5, schema) == 0.5
    with pytest.raises(Refused, match="should be above 0, not 0"):
        checked(0, schema)


def test_an_integer_beyond_a_float_is_exact() -> None:
    schema = one_object({"seed": whole(0, 2**63, "")})
    assert checked({"seed": 2**62 + 1}, schema) == {"seed": 2**62 + 1}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'"\xff"', "the body is not UTF-8: invalid start byte at byte 1"),
        (b"{", "the body is not JSON: Expecting property name"),
        (b"", "the body is not JSON: Expecting value"),
        (b"[NaN]", "the body is not JSON: NaN is not a JSON number"),
        (b"1" * 5000, "the body is not JSON: Exceeds the limit"),
        (b"[" * 100_000, "the body is nested too deeply"),
    ],
)
def test_what_is_not_json(data: bytes, said: str) -> None:
    with pytest.raises(Refused) as refused:
        read_json(data)
    assert refused.value.sentence.startswith(said)


def test_half_a_surrogate_pair_comes_out_escaped() -> None:
    data = write_json({"a": "\ud800é"})
    assert data == b'{"a":"\\ud800\xc3\xa9"}'
    assert json.loads(data) == {"a": "\ud800é"}


def test_what_is_too_long_is_not_looked_through() -> None:
    """A body may hold half a million ids: they are counted, and that is all."""
    looked_at = 0

    class Id(int):
        def __int__(self) -> int:
            nonlocal looked_at
            looked_at += 1
            return 1

    with pytest.raises(Refused, match="at most 50, the model's context"):
        checked({"prompt": [Id(1)] * 500_000}, COMPLETION)
    assert looked_at == 0
    checked({"prompt": [Id(1)] * 50}, COMPLETION)
    assert looked_at == 50
