"""Both methods against a restatement, one token at a time, for SentencePiece vocabularies."""

from pathlib import Path

import pytest

from jax_lm.evaluation.scoring.methods import method_config
from jax_lm.huggingface.directory import write_directory
from jax_lm.tokenizers.settings import TrainingSettings
from jax_lm.tokenizers.training import train_tokenizer
from tests.conftest import SHARED_DATA
from tests.evaluation.plain_numpy import forward
from tests.evaluation.stories_model import write_stories
from tests.evaluation.test_perplexity import (
    LANGUAGES,
    WINDOW,
    Restatable,
    assert_restated,
    corpora,
    small_model,
)

METHODS = ("rolling", "disjoint")


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Restatable:
    """A trained LLaMA."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the sample weights")
    folder = tmp_path_factory.mktemp("model")
    made = write_stories(SHARED_DATA / "weights" / "stories260K", folder)
    return Restatable(*made, forward(folder / "stories"))


@pytest.fixture(scope="module")
def unigram(tmp_path_factory: pytest.TempPathFactory) -> Restatable:
    """Random weights; characters that the vocabulary lacks are the unknown token."""
    pytest.importorskip("sentencepiece")
    texts = [corpora(language, SHARED_DATA) for language in LANGUAGES]
    settings = TrainingSettings(kind="sentencepiece-unigram", vocab_size=270)
    tokenizer = train_tokenizer(iter(texts), settings)
    model = small_model(tokenizer)
    folder = tmp_path_factory.mktemp("unigram") / "model"
    write_directory(model, tokenizer, folder, card="# random")
    return Restatable(model, tokenizer, forward(folder))


def check(case: Restatable, texts: list[str], method: str, batch_size: int) -> None:
    config = method_config(method, window=WINDOW, context=None, model_context=WINDOW)
    assert assert_restated(case, texts, config, batch_size) == len("".join(texts).encode())


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
    language: str, method: str, shared_data: Path, stories: Restatable
) -> None:
    names = {"english": "wikitext2/test.txt", "norwegian": "norwegian_ud/no_bokmaal-ud-test.txt"}
    name = names.get(language, "korean_chatbot/ChatbotData.csv")
    text = (shared_data / "corpora" / name).read_text(encoding="utf-8")
    check(stories, [text[:3000], text[5000:5010], text[6000:6800]], method, 16)
