import json
from typing import Any

import pytest

from tests.serving.conftest import SAYS, Running, Serve


def events(text: str) -> list[Any]:
    parts = text.removesuffix("\n\n").split("\n\n")
    assert parts.pop() == "data: [DONE]"
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def complete(server: Running, **body: Any) -> Any:
    answer = server.client.post("/v1/completions", json={"prompt": "say", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_log_probabilities_of_an_echo_are_not_offered(server: Running) -> None:
    body = {"prompt": "say", "echo": True, "logprobs": 0}
    answer = server.client.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("echo with logprobs asks for the prompt's")
    assert answer.json()["error"]["param"] == "echo"


def test_a_completion(server: Running) -> None:
    answer = complete(server, max_tokens=200, model="tiny", temperature=0)
    (choice,) = answer["choices"]
    assert (SAYS * 9).startswith(choice["text"].rstrip("\ufffd"))
    assert choice["finish_reason"] == "length"
    usage = answer["usage"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == 200  # the context is full
    assert (answer["object"], answer["model"]) == ("text_completion", "tiny")


def test_stop_strings_end_the_text_and_free_the_slot(server: Running) -> None:
    released = server.decoder.released
    choice = complete(server, max_tokens=100, stop=["seven", "bær 안"])["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("one two three four five blå", "stop")
    assert server.becomes("jax_lm_slots_busy", 0)
    assert server.decoder.released == released + 1


def test_several_prompts_and_copies(server: Running) -> None:
    answer = complete(server, prompt=["a", "b"], n=2, max_tokens=3, echo=True, seed=5)
    texts = [choice["text"] for choice in answer["choices"]]
    assert [text[0] for text in texts] == ["a", "a", "b", "b"]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    asked = server.decoder.admitted[-4:]
    assert sorted((request.prompt, request.copy) for request in asked) == sorted(
        (tuple(server.served.encode(text)), copy) for text in "ab" for copy in (0, 1)
    )
    assert {request.sampling.seed for request in asked} == {5}


def test_ids_and_settings_arrive(server: Running) -> None:
    settings = {"top_k": 3, "top_p": 0.5, "min_p": 0.1, "repetition_penalty": 1.5}
    complete(
        server, prompt=[5, 6, 7], temperature=0.25, min_tokens=2, stop_token_ids=[9], **settings
    )
    asked = server.decoder.admitted[-1]
    assert tuple(asked.prompt) == (5, 6, 7)
    sampling = asked.sampling
    assert {name: getattr(sampling, name) for name in settings} == settings
    assert (sampling.temperature, sampling.min_new_tokens, sampling.stop_ids) == (0.25, 2, (9,))
    assert sampling.max_new_tokens == 16


def test_values_at_the_edge_of_float32_are_harmless(server: Running) -> None:
    complete(server, temperature=5e-324, top_p=5e-324, seed=-1, max_tokens=2**31 - 1)
    sampling = server.decoder.admitted[-1].sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.0, 1e-6, 2**32 - 1)


def test_log_probabilities(server: Running) -> None:
    choice = complete(server, max_tokens=6, logprobs=0)["choices"][0]
    found = choice["logprobs"]
    assert found["token_logprobs"] == [-0.5] * 6
    assert "".join(found["tokens"]) == choice["text"]
    assert found["text_offset"][:2] == [0, len(found["tokens"][0])]


@pytest.mark.parametrize("more", [{"logprobs": 0}, {"echo": True}])
def test_a_stream_says_the_same(server: Running, more: dict[str, Any]) -> None:
    body = {"max_tokens": 60, "n": 2, **more}
    whole = complete(server, **body)
    assert whole["choices"][0]["text"].startswith("say" if "echo" in more else "")
    streamed = server.client.post(
        "/v1/completions",
        json={"prompt": "say", "stream": True, "stream_options": {"include_usage": True}, **body},
    )
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *chunks, last = events(streamed.text)
    assert (last["usage"], last["choices"]) == (whole["usage"], [])
    for index in (0, 1):
        mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        assert "".join(one["text"] for one in mine) == whole["choices"][index]["text"]
        assert [one["finish_reason"] for one in mine][-2:] == [None, "length"]
        if "logprobs" in more:
            assert sum(len(one["logprobs"]["tokens"]) for one in mine) == 60
        # Whole characters only.
        assert not any("\ufffd" in one["text"] for one in mine[:-1])


CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]


def test_chat(server: Running) -> None:
    body = {"messages": CHAT, "max_completion_tokens": 9, "logprobs": True, "stop": "four"}
    answer = server.client.post("/v1/chat/completions", json=body).json()
    (choice,) = answer["choices"]
    message = {"role": "assistant", "content": choice["message"]["content"], "refusal": None}
    assert choice["message"] == message
    spelled = "".join(one["token"] for one in choice["logprobs"]["content"])
    assert spelled.startswith(choice["message"]["content"])
    prompt = server.served.tokenizer.decode(server.decoder.admitted[-1].prompt)
    assert prompt == "System: Be kind.\nUser: Hello\nAssistant: "
    streamed = server.client.post("/v1/chat/completions", json={**body, "stream": True})
    choices = [chunk["choices"][0] for chunk in events(streamed.text)]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(one["delta"].get("content", "") for one in choices) == message["content"]
    assert choices[-1]["delta"] == {}
    assert choices[-1]["finish_reason"] == choice["finish_reason"]


def test_a_long_conversation_forgets_when_told_to(server: Running) -> None:
    long = [{"role": role, "content": "x " * 40} for role in ("user", "assistant") * 3]
    body = {"messages": [*long, CHAT[1]]}
    refused = server.client.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    answer = server.client.post("/v1/chat/completions", json={**body, "forget_oldest": True})
    assert answer.status_code == 200, answer.text
    assert answer.json()["num_forgotten"] > 0


def test_content_in_parts(server: Running) -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 1}
    assert server.client.post("/v1/chat/completions", json=body).status_code == 200
    prompt = server.served.tokenizer.decode(server.decoder.admitted[-1].prompt)
    assert prompt == "User: Hello\nAssistant: "


def test_models(server: Running) -> None:
    (model,) = server.client.get("/v1/models").json()["data"]
    assert (model["id"], model["context_length"]) == ("tiny", 200)
    assert server.client.get("/v1/models/tiny").json() == model
    for answer in (
        server.client.get("/v1/models/gpt-4"),
        server.client.post("/v1/completions", json={"prompt": "a", "model": "gpt-4"}),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "there is no model 'gpt-4' here, only 'tiny'"


def test_an_end_of_sequence_is_no_text(serve: Serve, scripted: Any, tokenizer: Any) -> None:
    decoder = scripted()
    decoder.ids = [*decoder.ids[:2], tokenizer.eos_id]
    server = serve(decoder)
    answer = complete(server, max_tokens=50, stop_token_ids=[tokenizer.eos_id])
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["text"] == tokenizer.decode(decoder.ids[:2])
    assert answer["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
def test_the_official_client(server: Running, stream: bool) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        given = {"model": "tiny", "max_tokens": 5, "stream": stream}
        chat = client.chat.completions.create(messages=CHAT, **given)
        text = client.completions.create(prompt="say", logprobs=0, **given)
        if stream:
            said = "".join(chunk.choices[0].delta.content or "" for chunk in chat)
            written = "".join(chunk.choices[0].text for chunk in text)
        else:
            said, written = chat.choices[0].message.content, text.choices[0].text
        assert said == written != ""
        assert [model.id for model in client.models.list()] == ["tiny"]
        with pytest.raises(openai.BadRequestError, match="temperature should be at least 0"):
            client.completions.create(model="tiny", prompt="a", temperature=-1)
