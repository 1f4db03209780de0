import inspect
import json
import lzma
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.documents.base import Cursor
from jax_lm.documents.open import open_source
from jax_lm.errors import UsageError
from jax_lm.evaluation.scoring.methods import MethodConfig, method_config
from jax_lm.evaluation.scoring.perplexity import evaluate_documents
from jax_lm.evaluation.scoring.pieces import Scoring
from jax_lm.evaluation.scoring.score_batch import score_batch
from jax_lm.evaluation.scoring.scores import SUMS, Scores, total
from jax_lm.evaluation.scoring.tally import Tally
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.decoder import Decoder
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.types import Document, Segment
from tests.conftest import SHARED_DATA, TinyFeatures
from tests.evaluation.plain_numpy import Logits, forward

WINDOW = 16
LANGUAGES = ("english", "norwegian", "korean")


class Restatable(NamedTuple):
    """A model, and the same in plain NumPy."""

    model: Decoder
    tokenizer: Tokenizer
    logits: Logits


def small_model(tokenizer: Tokenizer, context_length: int = WINDOW) -> GPT2:
    config = GPT2Config(
        vocab_size=tokenizer.vocab_size,
        context_length=context_length,
        num_layers=2,
        num_heads=2,
        embed_dim=16,
        init_std=0.3,
    )
    return GPT2.init(jax.random.key(1), config)


def log_probability(logits: Logits, ids: list[int], target: int) -> float:
    """log p of one token after a context."""
    values = logits(ids)
    return float(values[target] - values.max() - math.log(np.exp(values - values.max()).sum()))


def restated(
    logits: Logits, tokenizer: Tokenizer, text: str, config: MethodConfig
) -> tuple[float, int]:
    """Nats and bytes of a text, one token at a time, by the definition of the rolling method."""
    encoded = tokenizer.encode_batch([text])
    ids, spelled = encoded.ids.tolist(), encoded.num_bytes.tolist()
    start = tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.eos_id
    sequence = ids if start is None else [start, *ids]
    lengths = spelled if start is None else [0, *spelled]
    nats, num_bytes, done = 0.0, 0, 0
    num_targets = len(sequence) - 1
    while done < num_targets:
        new = config.window if done == 0 else config.window - config.context + 1
        end = min(done + new, num_targets)
        begin = max(0, end - config.window) if done else 0
        for target in range(done, end):
            nats -= log_probability(logits, sequence[begin : target + 1], sequence[target + 1])
            num_bytes += lengths[target + 1]
        done = end
    return nats, num_bytes


def assert_restated(
    case: Restatable, texts: list[str], config: MethodConfig, batch_size: int = 16
) -> int:
    """Both agree to 1e-6 bits per byte; gives the bytes."""
    documents = [Document((Segment(text),), str(i)) for i, text in enumerate(texts)]
    scoring = Scoring(batch_size=batch_size)
    found = evaluate_documents(case.model, case.tokenizer, documents, config, scoring)
    scores = total(found.scores())
    parts = [restated(case.logits, case.tokenizer, text, config) for text in texts]
    nats, num_bytes = (sum(values) for values in zip(*parts, strict=True))
    assert scores.num_bytes == num_bytes > 0
    assert scores.bits_per_byte == pytest.approx(nats / (math.log(2) * num_bytes), abs=1e-6)
    return int(num_bytes)


def corpora(name: str, shared_data: Path, length: int = 400) -> str:
    if name == "norwegian":
        path = shared_data / "corpora/norwegian_ud/no_bokmaal-ud-dev.txt"
    elif name == "korean":
        path = shared_data / "corpora/korean_chatbot/ChatbotData.csv"
    else:
        path = shared_data / "corpora/wikitext2/test.txt"
    return path.read_text(encoding="utf-8")[2000 : 2000 + length]


@pytest.fixture(scope="module", params=["bpe", "characters"])
def restatable(request, tmp_path_factory: pytest.TempPathFactory) -> Restatable:
    """Random weights, the same in NumPy, and a vocabulary of three languages."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the sample texts")
    texts = iter([corpora(language, SHARED_DATA, 6000) for language in LANGUAGES])
    if request.param == "bpe":
        tokenizer = train_byte_level_bpe(texts, vocab_size=400, min_frequency=2)
    else:
        tokenizer = train_characters(texts)
    model = small_model(tokenizer)
    folder = tmp_path_factory.mktemp("restatable") / "model"
    write_directory(model, tokenizer, folder, card="# random")
    return Restatable(model, tokenizer, forward(folder))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("method", "context"), [("rolling", 8), ("disjoint", 1)])
def test_bits_per_byte_equals_a_token_by_token_restatement(
    restatable: Restatable, language: str, method: str, context: int, shared_data: Path
) -> None:
    text = corpora(language, shared_data)
    config = method_config(method, window=None, context=None, model_context=WINDOW)
    assert config.context == context
    num_bytes = assert_restated(restatable, [text], config)
    if restatable.tokenizer.eos_id is not None:
        assert num_bytes == len(text.encode())  # the first token is conditioned on EOS


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("method", ["rolling", "disjoint"])
def test_so_it_does_on_longer_text(
    restatable: Restatable, language: str, method: str, shared_data: Path
) -> None:
    text = corpora(language, shared_data, 6000)
    texts = [text[:4000], "", text[4000:4030], text[4030:]]
    config = method_config(method, window=WINDOW, context=None, model_context=WINDOW)
    assert_restated(restatable, texts, config, batch_size=5)


def test_numbers_do_not_depend_on_the_batch(tiny_features: TinyFeatures) -> None:
    tokenizer = load_tokenizer(tiny_features.tokenizer)
    model = small_model(tokenizer)
    documents = [d for _, d in open_source(str(tiny_features.held_out_text)).read(Cursor(0, 0))]
    config = MethodConfig(window=16, context=4)
    one, many = (
        total(
            evaluate_documents(
                model, tokenizer, documents, config, Scoring(batch_size=size)
            ).scores()
        )
        for size in (1, 33)
    )
    assert one.loss == pytest.approx(many.loss, abs=1e-6)
    assert (one.num_tokens, one.num_bytes) == (many.num_tokens, many.num_bytes)


def test_short_windows_have_a_shape_of_their_own(tiny_features: TinyFeatures) -> None:
    """Two shapes are compiled, whatever the documents; batches of 1 and 32 agree."""
    tokenizer = load_tokenizer(tiny_features.tokenizer)
    model = small_model(tokenizer, 128)
    text = tiny_features.held_out_text.read_text(encoding="utf-8")
    texts = [text[:600], "", text[700:720], text[800:860], text[900:1000], text[1000:1900]]
    documents = [Document((Segment(one),), str(i)) for i, one in enumerate(texts)]
    config = method_config("rolling", window=None, context=None, model_context=128)
    score_batch.clear_cache()
    one, many, other = (
        evaluate_documents(model, tokenizer, documents, config, Scoring(batch_size=size))
        for size in (1, 32, 32)
    )
    assert score_batch._cache_size() == 4  # two of each batch size
    np.testing.assert_allclose(one.sums, many.sums, rtol=1e-6)
    np.testing.assert_array_equal(many.sums, other.sums)
    alone = evaluate_documents(model, tokenizer, documents[2:3], config, Scoring(batch_size=1))
    np.testing.assert_allclose(alone.sums[0], many.sums[2], rtol=1e-6)


def test_sums_of_many_documents_are_kept_apart() -> None:
    tally = Tally()
    for number in range(600):
        assert tally.begin("ab"[number % 2], num_words=number) == number
    tally.add(np.array([3, 599, 3]), np.arange(3)[:, None] + np.ones((3, len(SUMS))))
    assert len(tally) == 600
    assert tally.sums[599].tolist() == [2.0] * (len(SUMS) - 1) + [601.0]
    assert tally.sums[3, 0] == 1 + 3
    assert tally.scores()["b"].num_words == sum(range(1, 600, 2)) + 6
    assert tally.scores()["a"].num_tokens == 0
    assert len(tally.scored()) == len(tally.scored("b")) == 2


def test_context_only_segments_are_not_scored(tiny_features: TinyFeatures) -> None:
    tokenizer = load_tokenizer(tiny_features.tokenizer)
    document = Document((Segment("question: ", 0.0), Segment("answer", 1.0)), "0", subset="qa")
    scores = evaluate_documents(
        small_model(tokenizer), tokenizer, [document], MethodConfig(window=16, context=8)
    ).scores()
    assert scores["qa"].num_bytes == len("answer")


def test_windows_that_score_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="context 9 must lie between 1 and the window, 8"):
        MethodConfig(window=8, context=9)
    with pytest.raises(UsageError, match="window 64 must lie between 1 and the model's 16"):
        method_config("rolling", window=64, context=None, model_context=16)
    with pytest.raises(UsageError, match="belongs to --method rolling"):
        method_config("disjoint", window=None, context=4, model_context=16)


def test_scores_add_up() -> None:
    half = Scores(
        loss_sum=2.0, weight_sum=1.0, correct_sum=1.0, text_nats=2.0, num_bytes=4, num_tokens=1
    )
    whole = half + half
    assert (whole.loss, whole.accuracy, whole.num_tokens) == (2.0, 1.0, 2)
    assert whole.perplexity == pytest.approx(math.exp(2))
    assert whole.bits_per_byte == pytest.approx(2 / (math.log(2) * 4))
    assert math.isnan(Scores().loss)
    assert math.isinf(Scores(loss_sum=1e6, weight_sum=1.0).perplexity)


def test_the_verb_prints_and_writes_the_same_numbers(
    tiny_features: TinyFeatures, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = load_tokenizer(tiny_features.tokenizer)
    write_directory(small_model(tokenizer), tokenizer, tmp_path / "model", card="# card")
    texts = [inspect.getsource(inspect)[:500], "short", "x" * 90]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    output = tmp_path / "eval.json"
    code = main(["evaluate", str(tmp_path / "model"), str(path), "--output", str(output)])
    printed = capsys.readouterr().out
    assert code == 0
    values = json.loads(output.read_text())
    assert "rolling (window 16, context 8 tokens; the first token" in printed
    assert f"{values['eval_bits_per_byte']:.4f}" in printed
    size = sum(len(text.encode()) for text in texts)
    assert values["sums"]["num_bytes"] == size
    zlib_size = sum(len(zlib.compress(text.encode(), 9)) for text in texts)
    xz_size = sum(len(lzma.compress(text.encode(), preset=9)) for text in texts)
    assert values["compressors_bits_per_byte"] == {
        "zlib -9": 8 * zlib_size / size,
        "xz -9": 8 * xz_size / size,
    }


@pytest.mark.parametrize(
    ("args", "message", "code"),
    [
        (["nowhere", "x.txt"], "nowhere: no such file or directory", 1),
        (["nowhere@7", "x.txt"], "nowhere@7: no such checkpoint (steps with one: none)", 1),
        ([".", "x.txt"], "no config.json", 1),
        ([".", "x.txt", "--metod", "rolling"], "unknown flag --metod; did you mean --method?", 2),
    ],
)
def test_bad_input_is_one_sentence(
    args: list[str],
    message: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", *args]) == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_nothing_to_score(
    tiny_features: TinyFeatures, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = load_tokenizer(tiny_features.tokenizer)
    write_directory(small_model(tokenizer), tokenizer, tmp_path / "model", card="# card")
    (tmp_path / "empty.txt").touch()
    assert main(["evaluate", str(tmp_path / "model"), str(tmp_path / "empty.txt")]) == 1
    assert "no tokens to score in 1 document\n" in capsys.readouterr().err
