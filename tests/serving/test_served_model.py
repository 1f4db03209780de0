"""A tiny real model behind the server, and the command that serves it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.cli.serve_arguments import ServeArguments
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.evaluation.scoring.output_scores import score_outputs
from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.t5.config import T5Config
from jax_lm.models.t5.model import T5
from jax_lm.serving.options import ServeOptions
from jax_lm.serving.start import check_installed, load_served, read_token
from jax_lm.tokenizers.base import Tokenizer
from tests.serving.conftest import Running, serving


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> GPT2:
    config = GPT2Config(
        vocab_size=tokenizer.vocab_size,
        context_length=64,
        num_layers=1,
        num_heads=2,
        embed_dim=16,
    )
    like = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    draw = np.random.default_rng(0).normal
    return jax.tree.map(lambda leaf: jnp.asarray(draw(0, 0.5, leaf.shape), jnp.float32), like)


@pytest.fixture(scope="module")
def directory(model: GPT2, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "tiny"
    write_directory(model, tokenizer, path, card="")
    return path


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[Running]:
    served = load_served(str(directory), ServeOptions(port=0, max_concurrent=4))
    with serving(served, None) as running:
        yield running


def test_the_same_text_alone_and_among_others(
    server: Running, model: GPT2, tokenizer: Tokenizer
) -> None:
    prompts = ["one two", "three", "f", "seven eight nine", "안녕", "six"]
    config = SamplingConfig(max_new_tokens=9, temperature=0.7, top_p=0.9, seed=5)

    def ask(prompt: str) -> str:
        body = {"prompt": prompt, "max_tokens": 9, "temperature": 0.7, "top_p": 0.9, "seed": 5}
        answer = server.client.post("/v1/completions", json=body)
        text: str = answer.json()["choices"][0]["text"]
        return text

    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(ask, prompts))
    ids = [server.served.encode(prompt) for prompt in prompts]
    for prompt, written, text in zip(
        ids, generate(model, ids, config, eos_id=tokenizer.eos_id), together, strict=True
    ):
        ended = [i for i in written if i != tokenizer.eos_id]
        assert tokenizer.decode([*prompt, *ended])[len(tokenizer.decode(prompt)) :] == text
    assert ask(prompts[0]) == together[0]


def test_scores_are_those_of_evaluation(server: Running, model: GPT2) -> None:
    texts = {"in_strs": ["one", "two three"], "out_strs": [" two", " four five"]}
    found = server.client.post("/log_probs", json=texts).json()["data"]
    sides = [[server.served.encode(text) for text in side] for side in texts.values()]
    expected = score_outputs(model, list(zip(*sides, strict=True)))
    np.testing.assert_allclose(found, [one.log_prob for one in expected], rtol=1e-6)


def test_a_full_context_ends_the_text(server: Running) -> None:
    body = {"prompt": [1] * 60, "max_tokens": 50, "temperature": 0}
    answer = server.client.post("/v1/completions", json=body).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] in (64, 65)


@pytest.mark.slow
def test_an_encoder_decoder_is_served(tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = T5Config(
        vocab_size=tokenizer.vocab_size,
        context_length=32,
        num_layers=1,
        num_heads=2,
        head_dim=8,
        embed_dim=16,
        mlp_dim=16,
        decoder_start_id=0,
    )
    write_directory(T5.init(jax.random.key(1), config), tokenizer, tmp_path / "t5", card="")
    served = load_served(str(tmp_path / "t5"), ServeOptions(port=0, max_concurrent=2))
    assert served.encode("one")[-1] == tokenizer.eos_id
    with serving(served, None) as running:
        body = {"prompt": "one " * 8, "max_tokens": 32, "min_tokens": 32, "temperature": 0}
        answer = running.client.post("/v1/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] == 32
        chat = {"messages": [{"role": "user", "content": "a " * 60}], "forget_oldest": True}
        refused = running.client.post("/v1/chat/completions", json=chat)
        assert "does not fit" in refused.json()["error"]["message"]
        texts = {"in_strs": ["one"], "generation_kwargs": {"max_new_tokens": 3}}
        (text,) = running.client.post("/generate", json=texts).json()["data"]
        assert not text.startswith("one")


def ask_for_much(client: httpx.Client) -> Any:
    body = {"prompt": "one", "max_tokens": 2000, "temperature": 1, "stream": True, "n": 4}
    return client.stream("POST", "/v1/completions", json=body)


@pytest.mark.slow
def test_a_signal_lets_running_requests_finish(directory: Path) -> None:
    command = [sys.executable, "-m", "jax_lm", "serve", str(directory), "--port", "0"]
    command += ["--max-concurrent", "4", "--grace-period", "20", "--served-model-name", "mine"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said.startswith("serving mine at http://127.0.0.1:"), process.communicate()
    url = said.split()[3]
    client = httpx.Client(base_url=url, timeout=60, trust_env=False)
    with client, ask_for_much(client) as answer:
        lines = answer.iter_lines()
        next(lines)
        process.send_signal(signal.SIGTERM)
        assert list(lines)[-2:] == ["data: [DONE]", ""]
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_what_cannot_be_served(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags, said in (
        ([directory, "--port", "70000"], "--port is 70000, expected 0 to 65535"),
        ([directory, "--max-concurrent", "0"], "--max-concurrent is 0, expected 1 or more"),
        ([directory, "--host", "256.0.0.1"], "--host 256.0.0.1 --port 8000: cannot listen there"),
        ([directory, "--port", "0", "--max-length", "65"], "the longest text is 65 tokens"),
        ([tmp_path / "no", "--port", "0"], "no such directory"),
        ([directory, "--port", "0", "--token-file", tmp_path / "no"], "No such file"),
        ([directory, "--port", "0", "--chat-template", "chatmL"], "did you mean 'chatml'"),
    ):
        assert main(["serve", *map(str, flags)]) in (1, 2)
        assert said in capsys.readouterr().err


def test_a_port_that_is_taken(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "any", "--port", str(server.port)]) == 1
    assert "cannot listen there: Address already in use" in capsys.readouterr().err


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.write_text(" s3cret\n")
    assert read_token(path) == "s3cret"
    for text in ("", "two words", "blåbær"):
        path.write_text(text)
        with pytest.raises(JaxLMError, match="expected a token of ASCII letters"):
            read_token(path)
    path.write_bytes(b"\xff")
    with pytest.raises(JaxLMError, match="not UTF-8"):
        read_token(path)
    monkeypatch.setenv("JAX_LM_TOKEN", "from-outside")
    assert ServeArguments(model="m").token() == "from-outside"
    monkeypatch.delenv("JAX_LM_TOKEN")
    assert ServeArguments(model="m").token() is None
    assert [ServeArguments(model="m", host=h).is_open for h in ("::1", "0.0.0.0")] == [False, True]


def test_missing_packages_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setattr("jax_lm.serving.start.PACKAGES", ("no_such_package",))
    with pytest.raises(JaxLMError, match=r"pip install 'jax-lm\[serve\]'"):
        check_installed()
    with pytest.raises(UsageError, match="--host is empty"):
        ServeOptions(host="")
