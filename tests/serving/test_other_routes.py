"""JaxSeq's calls, dsGPT2's, and what the server says about itself."""

import json
from itertools import pairwise
from typing import Any

import pytest

from jax_lm.documents.conversations.templates import chat_template
from tests.serving.conftest import SAYS, Running, Serve


def generate(server: Running, **body: Any) -> Any:
    return server.client.post("/generate", json={"in_strs": ["say", "b"], **body})


def test_jaxseq_texts_begin_with_their_prompts(server: Running) -> None:
    words = {"max_new_tokens": 5, "do_sample": True, "temperature": 0.5, "pad_token_id": 0}
    answer = generate(server, rng=7, generation_kwargs={**words, "top_p": None}).json()
    assert answer["status"] == "success"
    first, second = answer["data"]
    assert first.removeprefix("say") == second.removeprefix("b")
    sampling = server.decoder.admitted[-1].sampling
    assert (sampling.temperature, sampling.seed, sampling.max_new_tokens) == (0.5, 7, 5)


def test_jaxseq_does_not_draw_unless_told_to(server: Running) -> None:
    words = {"max_length": 10, "temperature": 0.5, "eos_token_id": 4, "min_new_tokens": 1}
    assert generate(server, in_strs=["say"], generation_kwargs=words).status_code == 200
    request = server.decoder.admitted[-1]
    assert (request.sampling.temperature, request.sampling.stop_ids) == (0.0, (4,))
    assert request.sampling.max_new_tokens == 10 - len(request.prompt)


def test_jaxseq_cuts_long_prompts_on_the_left(server: Running) -> None:
    long = "abc " * 400
    generate(server, in_strs=[long], max_input_length=3, generation_kwargs={"max_new_tokens": 1})
    ids = server.served.encode(long)
    assert list(server.decoder.admitted[-1].prompt) == ids[-3:]
    generate(server, in_strs=[long])
    assert list(server.decoder.admitted[-1].prompt) == ids[-199:]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"generation_kwargs": {"num_beams": 4}}, "generation_kwargs.num_beams should be at most"),
        ({"generation_kwargs": {"max_length": 1}}, "max_length is 1, and the prompt alone has"),
        ({"in_strs": []}, "in_strs should have at least 1 items"),
        ({"generation_kwargs": {"topk": 4}}, "generation_kwargs.topk is not known here; did you"),
    ],
)
def test_jaxseq_clients_see_why_not(server: Running, body: dict[str, Any], said: str) -> None:
    answer = generate(server, **body)
    assert answer.status_code == 400
    assert answer.json()["status"] == "error"
    assert answer.json()["error_message"].startswith(said)


def messages(lines: Any) -> Any:
    for line in lines:
        if line:
            yield json.loads(line.removeprefix("data: "))


def test_jaxseq_streams_the_text_so_far(server: Running) -> None:
    words = {"max_new_tokens": 60}
    answer = generate(server, in_strs=["say"], stream=True, generation_kwargs=words)
    texts = [one["data"]["strs"][0] for one in messages(answer.text.split("\n\n"))]
    assert texts[0].startswith("say")
    assert all(later.startswith(text) for text, later in pairwise(texts))
    whole = generate(server, in_strs=["say"], generation_kwargs=words).json()["data"][0]
    assert texts[-1] == whole


def test_texts_that_grow_together_are_one_event(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(num_slots=8, pace=0.005))
    words = {"max_new_tokens": 30}
    answer = generate(server, in_strs=["say"] * 8, stream=True, generation_kwargs=words)
    events = list(messages(answer.text.split("\n\n")))
    assert len(events) < 45  # and not 8 x 30
    assert len(set(events[-1]["data"]["strs"])) == 1


def test_a_stream_is_stopped_by_name(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(pace=0.01, context_length=100_000))
    body = {"in_strs": ["say"], "stream": True, "generation_kwargs": {"max_new_tokens": 90_000}}
    with server.client.stream("POST", "/generate", json=body) as answer:
        lines = messages(answer.iter_lines())
        request_id = next(lines)["data"]["request_id"]
        stop = {"request_id": request_id}
        assert server.client.post("/stop_stream", json=stop).json() is True
        *_, last = lines
    assert (SAYS * 20).startswith(last["data"]["strs"][0].removeprefix("say"))
    assert server.becomes("jax_lm_slots_busy", 0)
    assert server.client.post("/stop_stream", json=stop).json() is False


def test_log_probabilities_of_outputs(server: Running) -> None:
    body = {"in_strs": ["a", ""], "out_strs": ["one two", ""]}
    answer = server.client.post("/log_probs", json=body)
    expected = len(server.served.encode("one two"))
    assert answer.json() == {"status": "success", "data": [-float(expected), 0.0]}
    cut = server.client.post("/log_probs", json={**body, "max_output_length": 1})
    assert cut.json()["data"] == [-1.0, 0.0]
    odd = server.client.post("/log_probs", json={"in_strs": ["a"], "out_strs": ["b", "c"]})
    assert odd.status_code == 400
    assert "each output needs an input" in odd.json()["error_message"]


def test_a_sentence_is_continued(server: Running) -> None:
    query = {"sentence": "안녕 say", "max_new_tokens": 4, "seed": 3}
    answer = server.client.get("/generate", params=query).json()
    assert answer["input"] == "안녕 say"
    assert SAYS.startswith(answer["response"])
    assert answer["response"]
    sampling = server.decoder.admitted[-1].sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.8, 0.9, 3)


def test_a_sentence_gets_a_reply_where_there_is_a_template(serve: Serve) -> None:
    server = serve(template=chat_template("dsgpt2"), has_template=True)
    assert server.client.get("/generate", params={"sentence": "hi"}).status_code == 200
    prompt = server.served.tokenizer.decode(server.decoder.admitted[-1].prompt)
    assert prompt.endswith("<usr><s>hi</s><sys><s>")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "sentence is missing"),
        ("sentence=%ff", "the query is not UTF-8 text"),
        ("sentence=a&sentence=b", "sentence is given more than once"),
        ("sentence=a&max_new_tokens=-1", "max_new_tokens should be at least 1, not -1"),
        ("sentence=a&temperature=hot", "temperature should be a number, not 'hot'"),
        ("sentence=a&temperature=e", "temperature should be a number, not 'e'"),
        ("sentence=a&top=1", "top is not known here; did you mean 'top_p'?"),
    ],
)
def test_wrong_queries(server: Running, query: str, said: str) -> None:
    answer = server.client.get(f"/generate?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(said)


def test_health_and_metrics(server: Running) -> None:
    assert server.client.get("/healthz").json() == {"status": "ok", "model": "tiny"}
    before = server.metric("jax_lm_tokens_total")
    body = {"prompt": "say", "max_tokens": 3}
    usage = server.client.post("/v1/completions", json=body).json()["usage"]
    assert server.metric("jax_lm_tokens_total") == before + usage["total_tokens"]
    assert server.metric("jax_lm_slots ") == 4
    name = 'jax_lm_requests_total{route="other",method="GET",status="404"}'
    for path in ("/nowhere", "/v1", "/wp-login.php"):
        assert server.client.get(path).status_code == 404
    assert server.metric(name) == 3
    assert "wp-login" not in server.client.get("/metrics").text


def test_the_page_and_its_files(server: Running) -> None:
    page = server.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for name, kind in (("chat.css", "text/css"), ("chat.js", "text/javascript")):
        assert server.client.get(f"/page/{name}").headers["content-type"].startswith(kind)
        assert f"/page/{name}" in page.text
    for name in ("index.htm", "..%2f..%2fapp.py", "%2e%2e"):
        assert server.client.get(f"/page/{name}").status_code == 404
    for text in (page.text, server.client.get("/page/chat.js").text):
        assert "//" not in text.replace("// ", "")
