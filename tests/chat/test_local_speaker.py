from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from jax_lm.chat.local_speaker import LocalSpeaker
from jax_lm.cli.main import main
from jax_lm.documents.conversations.messages import ASSISTANT, USER, Message, message
from jax_lm.documents.conversations.templates import chat_template
from jax_lm.errors import JaxLMError
from jax_lm.generation.chat_prompt import chat_prompt
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.roberta import Roberta, RobertaConfig
from jax_lm.pretrained import OpenedModel
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

PLAIN = chat_template("plain")
HIDDEN = jax.jit(lambda model, input_ids: model(input_ids))
GREEDY = SamplingConfig(temperature=0.0, max_new_tokens=12)


@pytest.fixture(scope="module")
def opened() -> OpenedModel:
    tokenizer = train_byte_level_bpe(iter(["User: hello\nAssistant: there\n"] * 9), vocab_size=300)
    config = GPT2Config(
        vocab_size=tokenizer.vocab_size,
        context_length=64,
        num_layers=2,
        num_heads=2,
        embed_dim=16,
        init_std=0.3,
    )
    model = GPT2.init(jax.random.key(5), config)
    return OpenedModel(model, tokenizer, Path("tiny"), Path("tiny"))


@pytest.fixture(scope="module")
def speaker(opened: OpenedModel) -> LocalSpeaker:
    return LocalSpeaker(opened, PLAIN, dtype="float32")


def asked(*texts: str) -> list[Message]:
    return [message((USER, ASSISTANT)[place % 2], text) for place, text in enumerate(texts)]


def test_an_answer_is_the_continuation_of_the_prompt(
    opened: OpenedModel, speaker: LocalSpeaker
) -> None:
    messages = asked("hello")
    said = "".join(speaker.answer(messages, GREEDY))
    ids = chat_prompt(messages, PLAIN, opened.tokenizer).ids
    start = len(ids)
    for _ in range(GREEDY.max_new_tokens):
        padded = jnp.array([ids + [0] * (64 - len(ids))])  # causal: never seen
        logits = opened.model.unembedding.logits(HIDDEN(opened.model, padded)[0, len(ids) - 1])
        ids.append(int(logits.argmax()))
    decode = opened.tokenizer.decode
    written = decode(ids).removeprefix(decode(ids[:start])).partition("\n")[0]
    assert said == written
    assert said


def test_a_stopped_answer_leaves_the_model_ready_for_the_next(speaker: LocalSpeaker) -> None:
    whole = "".join(speaker.answer(asked("hello"), GREEDY))
    pieces = speaker.answer(asked("hello there"), GREEDY)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert "".join(speaker.answer(asked("hello"), GREEDY)) == whole


def test_what_does_not_fit_is_forgotten_from_the_beginning(speaker: LocalSpeaker) -> None:
    list(speaker.answer(asked("hello"), GREEDY))
    assert speaker.num_forgotten == 0
    long = asked(*["hello there hello"] * 9)
    list(speaker.answer(long, GREEDY))
    assert speaker.num_forgotten > 0
    assert speaker.num_forgotten % 2 == 0


@pytest.mark.slow
def test_encoders_do_not_chat(opened: OpenedModel) -> None:
    config = RobertaConfig(
        vocab_size=300, context_length=8, num_layers=1, num_heads=1, embed_dim=8, pad_id=1
    )
    encoder = Roberta.init(jax.random.key(0), config)
    with pytest.raises(JaxLMError, match="tiny: a model of kind encoder does not chat"):
        LocalSpeaker(opened._replace(model=encoder), PLAIN, dtype="float32")


def test_the_verb_talks_over_standard_input(
    opened: OpenedModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_directory(opened.model, opened.tokenizer, tmp_path / "model", card="# tiny")
    typed = (tmp_path / "typed.txt").open("w+")
    typed.write("hello\n/save talk.jsonl\n")
    typed.seek(0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", typed)
    assert main(["chat", "model", "--max-new-tokens", "4", "--system", "be kind"]) == 0
    printed = capsys.readouterr().out
    typed.close()
    assert "you> hello\nmodel> " in printed
    assert "saved 3 messages to talk.jsonl" in printed
    assert '"be kind"' in (tmp_path / "talk.jsonl").read_text()


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        ([], "name a MODEL to load, or a server with --url: exactly one of them", 2),
        (["m", "--url", "x"], "exactly one of them", 2),
        (["--url", "127.0.0.1:1"], "the server does not answer", 1),
        (["--url", "x", "--chat-template", "plain"], "the server's to choose", 2),
        (["nowhere-at-all/x"], "nowhere-at-all/x", 1),
        (["--load", "nothing.jsonl", "--url", "x"], "nothing.jsonl", 1),
    ],
)
def test_what_cannot_be_opened_is_a_sentence(
    args: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", *args]) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
