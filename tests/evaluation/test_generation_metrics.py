import json
import math
import random
from pathlib import Path

import jax
import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.documents.base import Cursor
from jax_lm.documents.conversations.templates import DEFAULT
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.evaluation.generated.generating import GenerationOptions, evaluate_generation
from jax_lm.evaluation.generated.generation_metrics import Generated, distinct, measure
from jax_lm.evaluation.generated.generation_pairs import asked, generation_pairs
from jax_lm.evaluation.generated.rouge import common_subsequence, rouge_1, rouge_l, words
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.t5 import T5, T5Config
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

TEXT = "the cat sat on the mat; a dog, the other dog, saw 3 cats and 12 mats. Blåbær! "
NEW = 6
SLOW_T5 = ["gpt2", pytest.param("t5", marks=pytest.mark.slow)]


def drawn_texts(count: int) -> list[str]:
    draw = random.Random(0)
    some = [*TEXT.split(), "The", "CAT's", "-", "안녕"]
    return [" ".join(draw.choices(some, k=draw.randrange(30))) for _ in range(count)]


def test_rouge_equals_the_package():
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1", "rougeL"])
    texts = drawn_texts(200)
    for reference, text in zip(texts[:100], texts[100:], strict=True):
        expected = scorer.score(reference, text)
        pair = words(reference), words(text)
        assert rouge_1(*pair) == pytest.approx(expected["rouge1"].fmeasure, abs=1e-12)
        assert rouge_l(*pair) == pytest.approx(expected["rougeL"].fmeasure, abs=1e-12)


def test_words_of_any_script_are_compared_where_asked_for():
    assert words("안녕, Blåbær_2!") == ["bl", "b", "r", "2"]
    assert words("안녕, Blåbær_2!", "unicode") == ["안녕", "blåbær", "2"]


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [
        ("", "abc", 0),
        ("abc", "", 0),
        ("abcbdab", "bdcaba", 4),
        ("aaaa", "aa", 2),
        ("abc", "xyz", 0),
    ],
)
def test_the_longest_common_subsequence(one, other, length):
    assert common_subsequence(one, other) == length
    assert common_subsequence(other * 40, one * 40) >= 40 * length


def test_distinct_is_a_share_of_all_ngrams_with_the_jackknife_s_error():
    texts = ["a b c", "a b a b", "x y z"]
    value, error = distinct(texts, 2)
    assert value == 5 / 7  # ab bc | ab ba ab | xy yz
    left_out = [distinct([t for t in texts if t is not out], 2).value for out in texts]
    spread = np.array(left_out) - np.mean(left_out)
    assert error == pytest.approx(math.sqrt(2 / 3 * (spread**2).sum()))
    assert distinct(["a", ""], 2).value == 0.0


def test_means_and_their_standard_errors():
    def one(reference: str, text: str, tokens: int) -> Generated:
        return Generated("0", "?", reference, text, tokens, "stop")

    found = measure([one("a b", " a b\n", 2), one("a b", "b a", 4), one("c", "d", 6)])
    assert found["exact_match"] == pytest.approx((1 / 3, 1 / 3))
    assert found["rouge1"].value == pytest.approx(2 / 3)
    assert found["rougeL"].value == pytest.approx((1 + 0.5 + 0) / 3)
    assert found["length_in_tokens"] == pytest.approx((4.0, 2 / math.sqrt(3)))
    assert math.isnan(measure([one("a", "a", 1)])["exact_match"].error)


@pytest.fixture(scope="module")
def pairs_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    records = [
        {"in_text": f"{word}: ", "out_text": f"the {word}"} for word in ("cat", "dog", "mat")
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def tokenizer():
    texts = iter([TEXT] * 4)
    return train_byte_level_bpe(
        texts, vocab_size=300, special_tokens=("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    )


@pytest.fixture(scope="module", params=["gpt2", "t5"])
def model(request, tokenizer, tmp_path_factory) -> str:
    shape = {"vocab_size": tokenizer.vocab_size, "num_layers": 1, "num_heads": 2, "embed_dim": 16}
    if request.param == "gpt2":
        config = GPT2Config(context_length=24, init_std=0.4, **shape)
        made = GPT2.init(jax.random.key(0), config)
    else:
        made = T5.init(jax.random.key(0), T5Config(context_length=24, decoder_start_id=0, **shape))
    folder = tmp_path_factory.mktemp(request.param) / "model"
    write_directory(made, tokenizer, folder, card="# tiny")
    return str(folder)


def test_texts_are_written_compared_and_kept(model, pairs_file, tmp_path):
    path = tmp_path / "made" / "texts.jsonl"
    options = GenerationOptions(max_new_tokens=NEW, generations=path)
    found = evaluate_generation(model, [str(pairs_file)], options)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["reference"] for record in records] == ["the cat", "the dog", "the mat"]
    assert [record["prompt"] for record in records] == ["cat: ", "dog: ", "mat: "]
    assert found.to_json()["eval_length_in_tokens"] == np.mean([r["tokens"] for r in records])
    assert found.measures["exact_match"].value == 0.0
    assert "3 inputs with an output" in found.table() and "exact match" in found.table()
    own = tmp_path / "own.jsonl"
    own.write_text(
        "".join(
            json.dumps({"in_text": r["prompt"], "out_text": r["generation"]}) + "\n"
            for r in records
        )
    )
    again = evaluate_generation(model, [str(own)], GenerationOptions(max_new_tokens=NEW))
    assert again.measures["exact_match"] == (1.0, 0.0)


@pytest.mark.parametrize("model", SLOW_T5, indirect=True)
def test_beams_write_too_and_long_inputs_keep_their_end(model, tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"in_text": TEXT * 4, "out_text": "x"}) + "\n")
    for beams in (1, 2):
        options = GenerationOptions(max_new_tokens=NEW, num_beams=beams, rouge_words="unicode")
        found = evaluate_generation(model, [str(path)], options)
        assert found.count == 1
        assert found.measures["length_in_tokens"].value <= NEW
        assert found.to_json()["eval_rouge1_stderr"] is None
        assert ("greedy" if beams == 1 else "2 beams") in found.table()


def test_a_conversation_gives_a_pair_for_each_answer(tmp_path):
    path = tmp_path / "talk.jsonl"
    turns = [("user", "cat?"), ("assistant", "mat"), ("user", "dog?"), ("assistant", "saw")]
    messages = [{"role": role, "content": content} for role, content in turns]
    path.write_text(json.dumps({"messages": messages}) + "\n")
    source = open_source(str(path), ReadingOptions(chat_template="chatml"))
    pairs = list(generation_pairs(d for _, d in source.read(Cursor(0, 0))))
    assert [pair.reference.strip() for pair in pairs] == ["mat", "saw"]
    assert "mat" in pairs[1].prompt_text and "saw" not in pairs[1].prompt_text
    assert [pair.ending for pair in pairs] == ["<|im_end|>"] * 2


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_what_a_model_reads_begins_and_ends_as_in_training(family, tokenizer, pairs_file):
    shape = {"vocab_size": 300, "num_layers": 1, "num_heads": 1, "embed_dim": 8}
    kind, config = {"gpt2": (GPT2, GPT2Config), "t5": (T5, T5Config)}[family]
    model = jax.eval_shape(lambda: kind.init(jax.random.key(0), config(**shape)))
    source = open_source(str(pairs_file))
    pair = next(generation_pairs(d for _, d in source.read(Cursor(0, 0))))
    prompt = asked(pair, tokenizer, model, DEFAULT)
    text = tokenizer.encode_batch(["cat: "]).ids.tolist()
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    assert None not in (bos, eos)
    assert prompt.ids == ([bos, *text] if family == "gpt2" else [bos, *text, eos])
    assert (prompt.stop, prompt.stop_ids) == ((), ())


@pytest.mark.parametrize("model", ["gpt2"], indirect=True)
def test_text_without_outputs_is_refused(model, tmp_path):
    (tmp_path / "plain.txt").write_text("no pairs here")
    with pytest.raises(JaxLMError, match=r"plain\.txt: no inputs with an output"):
        evaluate_generation(model, [str(tmp_path / "plain.txt")], GenerationOptions())


def test_counts_below_one_are_refused():
    with pytest.raises(UsageError, match="--num-beams is 0, expected 1 or more"):
        GenerationOptions(num_beams=0)


@pytest.mark.parametrize("model", SLOW_T5, indirect=True)
def test_the_verb_writes_texts_and_numbers(model, pairs_file, tmp_path, capsys):
    texts, numbers = tmp_path / "texts.jsonl", tmp_path / "numbers.json"
    flags = ["--generate", "--generations", str(texts), "--max-new-tokens", str(NEW)]
    assert main(["evaluate", model, str(pairs_file), *flags, "--output", str(numbers)]) == 0
    assert "rougeL" in capsys.readouterr().out
    assert len(texts.read_text().splitlines()) == 3
    assert json.loads(numbers.read_text())["count"] == 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["x", "--limit", "3"], "--limit does nothing without --lm-eval: give that too"),
        (["x", "--num-beams", "3"], "--num-beams does nothing without --generate"),
        (["x", "--generate", "--plot", "a.svg"], "--plot has no effect with --generate"),
        (["--lm-eval", "piqa", "--window", "3"], "--window has no effect with --lm-eval"),
        (["x", "--generate", "--lm-eval", "piqa"], "two evaluations: give one of them"),
        (["x", "--lm-eval", "piqa"], "leave the SPEC out"),
        ([], "the text is missing: name a SPEC or a feature PREFIX"),
    ],
)
def test_flags_of_the_verb_that_lead_nowhere_are_refused(flags, message, capsys):
    assert main(["evaluate", "nowhere", *flags]) == 2
    assert message in capsys.readouterr().err
