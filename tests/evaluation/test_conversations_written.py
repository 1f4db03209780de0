"""Answers are asked for, and end, as in a chat."""

import json
from itertools import pairwise
from pathlib import Path

import jax
import numpy as np
import pytest

from jax_lm.chat.local_speaker import LocalSpeaker
from jax_lm.documents.base import Cursor
from jax_lm.documents.conversations.messages import message
from jax_lm.documents.conversations.templates import chat_template
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.evaluation.generated.generating import GenerationOptions, evaluate_generation
from jax_lm.evaluation.generated.generation_pairs import asked, generation_pairs
from jax_lm.generation.beam import BeamConfig
from jax_lm.generation.chat_prompt import chat_prompt
from jax_lm.generation.continuing import continue_ids
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.pretrained import open_model
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters

NEW = 24
TALKS = [[("user", word), ("assistant", "nose"), ("user", "a tie"), ("assistant", "ten")]
         for word in ("sat", "note", "tin", "eat", "tess", "iris")]  # fmt: skip


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("talks") / "talks.jsonl"
    records = [
        {"messages": [{"role": role, "content": text} for role, text in talk]} for talk in TALKS
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of few characters, so that it soon writes the end of a line."""
    folder = tmp_path_factory.mktemp("written") / "model"
    tokenizer = train_characters(iter(["User: Assistant:\nUser: it sent no rats\n"]))
    config = GPT2Config(
        vocab_size=tokenizer.vocab_size,
        context_length=96,
        num_layers=1,
        num_heads=2,
        embed_dim=16,
        init_std=0.6,
    )
    write_directory(GPT2.init(jax.random.key(5), config), tokenizer, folder, card="# tiny")
    return folder


def pairs_of(talks: Path, template: str):
    source = open_source(str(talks), ReadingOptions(chat_template=template))
    return list(generation_pairs(d for _, d in source.read(Cursor(0, 0))))


def turns_before(answer: int):
    talk, place = TALKS[answer // 2], 2 * (answer % 2) + 1
    return [message(role, text) for role, text in talk[:place]]


def test_texts_end_where_those_of_a_chat_end(model: Path, talks: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    options = GenerationOptions(max_new_tokens=NEW, generations=path, batch_size=1)
    found = evaluate_generation(str(model), [str(talks)], options)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    speaker = LocalSpeaker(open_model(str(model)), chat_template("plain"), dtype="float32")
    sampling = SamplingConfig(temperature=0.0, max_new_tokens=NEW)
    for number, record in enumerate(records):
        said = "".join(speaker.answer(turns_before(number), sampling))
        assert record["generation"] == said
        assert "\n" not in said
    ends = [record["finish"] for record in records]
    assert {"stop", "length"} == set(ends), "both kinds of ends are to be seen"
    assert found.measures["length_in_tokens"].value == np.mean([r["tokens"] for r in records])


@pytest.mark.parametrize("template", ["plain", "chatml", "bare", "vicuna"])
@pytest.mark.parametrize("special", [(), ("<|im_start|>", "<|im_end|>"), ("<|endoftext|>",)])
def test_answers_are_asked_for_as_in_a_chat(
    template: str, special: tuple[str, ...], talks: Path
) -> None:
    tokenizer: Tokenizer = train_byte_level_bpe(
        iter(["User: it\n"] * 9), vocab_size=300, special_tokens=special
    )
    config = GPT2Config(vocab_size=300, num_layers=1, num_heads=1, embed_dim=8)
    model = jax.eval_shape(lambda: GPT2.init(jax.random.key(0), config))
    named = chat_template(template)
    for number, pair in enumerate(pairs_of(talks, template)):
        assert asked(pair, tokenizer, model, named) == chat_prompt(
            turns_before(number), named, tokenizer
        )
    stops = {"plain": "\n", "chatml": "<|im_end|>", "vicuna": "</s>"}
    if template != "bare" and "<|im_end|>" not in special:
        assert asked(pair, tokenizer, model, named).stop == (stops[template],)


def test_conversations_take_the_model_s_own_template(
    model: Path, talks: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for file in model.iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    (own / "chat_template.jinja").write_text("{% for m in messages %}t: {{ m['content'] }}\n\n"
                                             "{% endfor %}")  # fmt: skip
    path = tmp_path / "texts.jsonl"
    options = GenerationOptions(max_new_tokens=2, generations=path)
    evaluate_generation(str(own), [str(talks)], options)
    assert json.loads(path.read_text().splitlines()[0])["prompt"] == "t: sat\n\nt: "


@pytest.mark.parametrize("beams", [1, 2])
def test_tokens_after_a_stop_string_do_not_count(model: Path, beams: int) -> None:
    """A search goes on after one, and what it finds there is nobody's text."""
    opened = open_model(str(model))
    assert isinstance(opened.model, GPT2)
    config = SamplingConfig(temperature=0.0, max_new_tokens=NEW)
    how = BeamConfig(num_beams=2, num_returns=2, max_new_tokens=NEW) if beams == 2 else config
    prompts = opened.tokenizer.encode_batch(["t: ", "no", "sent "])
    rows = [prompts.ids[a:b].tolist() for a, b in pairwise(prompts.offsets)]
    free, cut = (
        continue_ids(opened.model, opened.tokenizer, rows, how, stop=stop) for stop in ((), ("\n",))
    )
    assert len(free) == beams * len(rows)
    for whole, part in zip(free, cut, strict=True):
        before, found, _ = whole.text.partition("\n")
        assert part.text == before
        assert part.num_tokens == len(before) + len(found)  # a token is a character
        assert part.finish == ("stop" if found else whole.finish)
    assert "stop" in {one.finish for one in cut}
