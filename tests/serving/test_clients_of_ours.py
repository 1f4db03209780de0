"""`chat --url` and `generate --url` against a server on a real port."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from jax_lm.cli.main import main


def run(args: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> tuple[str, str]:
    assert main(args) == code
    return capsys.readouterr()


def test_chat_talks_through_a_server(
    server: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\nand you?\n/set top-k 3\nmore\n"))
    out, _ = run(["chat", "--url", server.url, "--max-new-tokens", "14"], capsys)
    assert f"tiny at {server.url}" in out
    assert out.count("model> one two three four") == 3
    asked = server.decoder.admitted[-1].sampling
    assert (asked.max_new_tokens, asked.top_k) == (14, 3)


def test_generate_asks_a_server(
    server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "texts.jsonl"
    args = ["generate", "--url", server.url, "--prompt", "a", "--prompt", "b", "--num-samples", "2"]
    run([*args, "--max-new-tokens", "9", "--seed", "5", "--output", str(output)], capsys)
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [record["prompt"] for record in records] == ["a", "a", "b", "b"]
    assert {record["num_tokens"] for record in records} == {9}
    assert {record["finish_reason"] for record in records} == {"length"}
    seeds = sorted(request.sampling.seed for request in server.decoder.admitted[-4:])
    assert seeds == [5, 5, 6, 6]
    out, said = run(
        ["generate", "--url", server.url, "--prompt", "x ", "--stream", "--stop", "four"], capsys
    )
    assert out == "x one two three \n"
    assert "jax-lm generate: " in said


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        (["--num-beams", "2"], "--num-beams has no effect with --url: leave it out", 2),
        (["--dtype", "bfloat16"], "--dtype has no effect with --url", 2),
        (["model"], "exactly one of them", 2),
        (["--temperature", "999"], "the server refused (400): temperature", 1),
    ],
)
def test_what_a_server_cannot_do_is_a_sentence(
    args: list[str],
    said: str,
    code: int,
    server: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, error = run(["generate", "--url", server.url, "--prompt", "a", *args], capsys, code)
    assert said in error
    assert error.count("\n") == 1


def test_a_token_is_sent(
    serve: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(token="secret")
    args = ["generate", "--url", server.url, "--prompt", "a", "--max-new-tokens", "3"]
    _, error = run(args, capsys, code=1)
    assert "the server refused (401)" in error
    monkeypatch.setenv("JAX_LM_TOKEN", "secret")
    out, _ = run(args, capsys)
    assert out.startswith("aone")
