"""Both methods against a restatement, one token at a time, for SentencePiece vocabularies."""

import math
from pathlib import Path

import pytest

from jax_lm.evaluation.scoring.methods import method_config
from jax_lm.evaluation.scoring.perplexity import evaluate_documents
from jax_lm.evaluation.scoring.pieces import Scoring
from jax_lm.evaluation.scoring.scores import total
from jax_lm.models.decoder import Decoder
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.settings import TrainingSettings
from jax_lm.tokenizers.training import train_tokenizer
from jax_lm.types import Document, Segment
from tests.conftest import SHARED_DATA
from tests.evaluation.stories_model import write_stories
from tests.evaluation.test_perplexity import WINDOW, corpora, restated, small_model

LANGUAGES = ("english", "norwegian", "korean")
METHODS = ("rolling", "disjoint")
Case = tuple[Decoder, Tokenizer]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Case:
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the sample weights")
    folder = tmp_path_factory.mktemp("model")
    return write_stories(SHARED_DATA / "weights" / "stories260K", folder)


@pytest.fixture(scope="module")
def unigram() -> Case:
    """Random weights; characters that the vocabulary lacks are the unknown token."""
    pytest.importorskip("sentencepiece")
    texts = [corpora(language, SHARED_DATA) for language in LANGUAGES]
    settings = TrainingSettings(kind="sentencepiece-unigram", vocab_size=270)
    tokenizer = train_tokenizer(iter(texts), settings)
    return small_model(tokenizer), tokenizer


def check(case: Case, texts: list[str], method: str, batch_size: int) -> None:
    model, tokenizer = case
    documents = [Document((Segment(text),), str(i)) for i, text in enumerate(texts)]
    config = method_config(method, window=WINDOW, context=None, model_context=WINDOW)
    scoring = Scoring(batch_size=batch_size)
    scores = total(evaluate_documents(model, tokenizer, documents, config, scoring).scores())
    parts = [restated(model, tokenizer, text, config) for text in texts]
    nats, num_bytes = (sum(values) for values in zip(*parts, strict=True))
    assert scores.num_bytes == num_bytes == sum(len(text.encode()) for text in texts)
    expected = nats / (math.log(2) * num_bytes)
    assert scores.bits_per_byte == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", ["stories", "unigram"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("method", METHODS)
def test_bits_per_byte_equals_a_token_by_token_restatement(
    kind: str,
    language: str,
    method: str,
    shared_data: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Documents shorter than the window, as long as it and longer."""
    text = corpora(language, shared_data)
    texts = [text[:60], text[120:123], text[130 : 130 + WINDOW]]
    check(request.getfixturevalue(kind), texts, method, 4)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("method", METHODS)
def test_so_it_does_on_longer_text(
    language: str, method: str, shared_data: Path, stories: Case
) -> None:
    names = {"english": "wikitext2/test.txt", "norwegian": "norwegian_ud/no_bokmaal-ud-test.txt"}
    name = names.get(language, "korean_chatbot/ChatbotData.csv")
    text = (shared_data / "corpora" / name).read_text(encoding="utf-8")
    check(stories, [text[:3000], text[5000:5010], text[6000:6800]], method, 16)
