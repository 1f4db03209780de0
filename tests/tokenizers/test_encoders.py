import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters
from jax_lm.tokenizers.encoders import building
from jax_lm.tokenizers.encoders.base import FAST, Engine, Ids
from jax_lm.tokenizers.encoders.building import build_encoder
from jax_lm.tokenizers.encoders.choosing import choose_engine
from jax_lm.tokenizers.encoders.library import LibraryEncoder
from jax_lm.tokenizers.pretrained import PretrainedTokenizer, load_tokenizer
from jax_lm.tokenizers.training import TrainingSettings, train_tokenizer
from tests.tokenizers.tokenizer_texts import ADVERSARIAL, corpora

EOS = "<|endoftext|>"
VOCABULARIES = {
    "gpt2": "gpt2/gpt2_tokenizer.json",
    "neox": "gpt-neox/20B_tokenizer.json",
    "llama": "llama2/tokenizer.model",
    "axlearn": "axlearn/sentencepiece/bpe_32k_c4.model",
}


@pytest.fixture(scope="module")
def small() -> PretrainedTokenizer:
    return train_byte_level_bpe(["the cat sat on the mat. " * 9], vocab_size=290)


@pytest.fixture(params=FAST)
def fast(request: pytest.FixtureRequest) -> Engine:
    pytest.importorskip(request.param)
    return request.param


def same(tokenizer: PretrainedTokenizer, engine: Engine, texts: list[str]) -> bool:
    ours, theirs = tokenizer.use(engine), tokenizer
    return all(
        np.array_equal(a, b)
        for parse in (False, True)
        for a, b in zip(
            ours.encode_batch(texts, parse_special=parse),
            theirs.encode_batch(texts, parse_special=parse),
            strict=True,
        )
    )


def test_a_fast_encoder_equals_the_library(small, fast: Engine) -> None:
    assert same(small, fast, ADVERSARIAL)
    assert same(small, fast, [])


@pytest.mark.slow
@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_fast_encoder_equals_the_library_everywhere(
    name: str, fast: Engine, shared_data: Path
) -> None:
    tokenizer = load_tokenizer(shared_data / "tokenizers" / VOCABULARIES[name])
    if (name, fast) == ("axlearn", "gigatoken"):
        with pytest.raises(JaxLMError, match="gigatoken does not take this tokenizer"):
            tokenizer.use(fast).encode_batch(["a"])
        return
    assert same(tokenizer, fast, [*corpora(shared_data), *ADVERSARIAL])


def test_special_tokens_are_text_unless_asked_for(small, fast: Engine) -> None:
    tokenizer = small.use(fast)
    text = [f"the{EOS} cat"]
    assert 0 not in tokenizer.encode_batch(text).ids
    parsed = tokenizer.encode_batch(text, parse_special=True)
    assert parsed.ids.tolist().count(0) == 1
    assert parsed.num_bytes.sum() == len("the cat")


def test_half_a_surrogate_pair_is_refused_by_all(small) -> None:
    for engine in building.BUILD:
        if building.installed_version(engine) is None:
            continue
        with pytest.raises(JaxLMError, match=r"text 1 is not Unicode.*U\+D800, at character 1"):
            small.use(engine).encode_batch(["a", "a\ud800"])


def test_ids_are_flat_arrays_of_the_promised_types(small, fast: Engine) -> None:
    encoded = small.use(fast).encode_batch(["the cat", "", "the"])
    assert encoded.ids.dtype == encoded.num_bytes.dtype == np.int32
    assert encoded.offsets.dtype == np.int64
    assert encoded.offsets[[0, -1]].tolist() == [0, len(encoded.ids)]
    assert encoded.offsets[1] == encoded.offsets[2]


def test_a_pickled_tokenizer_encodes_by_the_same_program(small, fast: Engine) -> None:
    used = small.use(fast)
    used.encode_batch(["the"])
    copy = pickle.loads(pickle.dumps(used))
    assert copy.engine == fast
    assert copy.fingerprint() == small.fingerprint()
    assert (
        copy.encode_batch(["the cat"]).ids.tolist() == used.encode_batch(["the cat"]).ids.tolist()
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_encodes(small, fast: Engine) -> None:
    tokenizer = small.use(fast)
    texts = ["the cat sat on the mat. " * 50] * 200
    expected = tokenizer.encode_batch(texts).ids.tolist()
    child = os.fork()
    if child == 0:
        os._exit(0 if tokenizer.encode_batch(texts).ids.tolist() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_first_that_agrees_is_chosen(small) -> None:
    pytest.importorskip("gigatoken")
    choice = choose_engine(small, ["the cat sat"] * 3)
    assert choice.name == "gigatoken"
    assert "its ids equal tokenizers' on" in choice.sentence()
    assert choice.version in choice.sentence()
    assert choose_engine(small, [], "tokenizers").reason == "as asked for"
    assert "characters need no search" in choose_engine(train_characters(["ab"]), []).reason
    with pytest.raises(JaxLMError, match="gigatoken does not cut characters"):
        choose_engine(train_characters(["ab"]), [], "gigatoken")


class Wrong(LibraryEncoder):
    """Cuts as the library does, but for one word."""

    def encode(self, texts) -> Ids:
        ids, offsets = super().encode(texts)
        return Ids(ids + np.repeat(["rare" in text for text in texts], np.diff(offsets)), offsets)


def test_one_that_differs_on_the_corpus_is_not_chosen(small, monkeypatch) -> None:
    monkeypatch.setitem(building.BUILD, "gigatoken", Wrong)
    monkeypatch.setitem(building.BUILD, "fastokens", LibraryEncoder)
    versions = dict.fromkeys(building.BUILD, "1")
    monkeypatch.setattr("jax_lm.tokenizers.encoders.choosing.installed_version", versions.get)
    assert choose_engine(small, ["the cat"]).name == "gigatoken"
    assert choose_engine(small, ["the cat", "a rare text"]).name == "fastokens"
    with pytest.raises(JaxLMError, match="gigatoken cuts 'a rare text' otherwise than tokenizers"):
        choose_engine(small, ["a rare text"], "gigatoken")
    versions["fastokens"] = None
    choice = choose_engine(small, ["a rare text"])
    assert choice.name == "tokenizers"
    assert "fastokens is not installed (pip install 'jax-lm[fast]')" in choice.reason


def test_an_encoder_that_is_not_there(small, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gigatoken", None)
    with pytest.raises(JaxLMError, match=r"needs gigatoken: pip install 'jax-lm\[fast\]'"):
        choose_engine(small, [], "gigatoken")
    with pytest.raises(JaxLMError, match="no encoder is named 'quick'"):
        build_encoder("quick", small.description)


def test_a_tokenizer_that_no_fast_encoder_takes() -> None:
    pytest.importorskip("gigatoken")
    pytest.importorskip("sentencepiece")
    settings = TrainingSettings(kind="sentencepiece-unigram", vocab_size=12)
    tokenizer = train_tokenizer(["the cat sat. " * 9], settings)
    choice = choose_engine(tokenizer, ["the cat"])
    assert choice.name == "tokenizers"
    assert "gigatoken does not take this tokenizer (" in choice.reason
    with pytest.raises(JaxLMError, match="gigatoken does not take this tokenizer"):
        choose_engine(tokenizer, ["the cat"], "gigatoken")
    assert building.installed_version("no-such-package") is None
