"""What every tokenizer keeps to; a new kind is a new row of KINDS."""

import pickle
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.tokenizers.training import TrainingSettings, train_tokenizer

EOS = "<|endoftext|>"
CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog does not mind.\n" * 5,
    "\r\n\t  don't stop   \u0301e\u0301 blåbærsyltetøy 안녕하세요 👩‍👩‍👧 \x00\x7f\u2028\ufeff",
    EOS,
    "",
]
TEXTS = [*CORPUS, "fox", "  fox ", "\r\n\r\n", "e\u0301", "👧", EOS * 2 + "x"]


def byte_level_bpe(texts: Iterator[str]) -> Tokenizer:
    return train_byte_level_bpe(texts, vocab_size=300)


def characters(texts: Iterator[str]) -> Tokenizer:
    return train_characters(texts, special_tokens=(EOS,))


def sentencepiece_with_bytes(texts: Iterator[str]) -> Tokenizer:
    """The one SentencePiece model that is given back as it was: nothing is normalized."""
    lines = [*texts, "the quick brown fox"]
    settings = TrainingSettings(
        kind="sentencepiece-bpe",
        vocab_size=330,
        byte_fallback=True,
        normalization_rule_name="identity",
        keep_whitespace=True,
        unk_id=1,
        bos_id=-1,
        eos_id=0,
        eos_piece=EOS,
    )
    return train_tokenizer(lines, settings)


KINDS = [byte_level_bpe, characters]
if find_spec("sentencepiece") is not None:
    KINDS.append(sentencepiece_with_bytes)
TRAINED = {build: build(iter(CORPUS)) for build in KINDS}


@pytest.fixture(params=KINDS, ids=lambda build: build.__name__)
def build(request: pytest.FixtureRequest) -> Callable[[Iterator[str]], Tokenizer]:
    return request.param


@pytest.fixture
def tokenizer(build: Callable[[Iterator[str]], Tokenizer]) -> Tokenizer:
    return TRAINED[build]


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode_batch([text]).ids.tolist()


def test_texts_come_back_exactly(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode_batch(TEXTS)
    assert encoded.ids.dtype == np.int32
    assert encoded.offsets.dtype == np.int64
    assert encoded.offsets[0] == 0 and encoded.offsets[-1] == len(encoded.ids)
    for text, start, stop in zip(TEXTS, encoded.offsets, encoded.offsets[1:], strict=False):
        assert tokenizer.decode(encoded.ids[start:stop]) == text
        assert encoded.ids[start:stop].tolist() == ids_of(tokenizer, text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(), max_size=5))
def test_byte_level_bpe_spells_every_text(texts: list[str]) -> None:
    tokenizer = TRAINED[byte_level_bpe]
    encoded = tokenizer.encode_batch(texts)
    lengths = tokenizer.token_byte_lengths()
    for text, start, stop in zip(texts, encoded.offsets, encoded.offsets[1:], strict=False):
        assert tokenizer.decode(encoded.ids[start:stop]) == text
        assert lengths[encoded.ids[start:stop]].sum() == len(text.encode())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet=sorted(set("".join(CORPUS)))), max_size=5))
def test_characters_spell_every_text_of_theirs(texts: list[str]) -> None:
    tokenizer = TRAINED[characters]
    encoded = tokenizer.encode_batch(texts)
    assert tokenizer.decode(encoded.ids) == "".join(texts)
    assert np.diff(encoded.offsets).tolist() == [len(text) for text in texts]


def test_byte_lengths_sum_to_the_texts_bytes(tokenizer: Tokenizer) -> None:
    lengths = tokenizer.token_byte_lengths()
    assert lengths.shape == (tokenizer.vocab_size,)
    assert lengths.dtype == np.int32
    for text in TEXTS:
        encoded = tokenizer.encode_batch([text])
        assert encoded.num_bytes.dtype == np.int32
        assert encoded.num_bytes.sum() == len(text.encode())
        assert (lengths[encoded.ids] == encoded.num_bytes)[1:].all()  # a space may lead the first
    assert {i for i in range(tokenizer.vocab_size) if lengths[i] == 0} == tokenizer.special_ids


def test_a_string_like_a_special_token_is_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.eos_id == 0
    assert tokenizer.special_ids in ({0}, {0, 1})
    assert 0 not in tokenizer.encode_batch(TEXTS).ids
    assert tokenizer.decode([0, *ids_of(tokenizer, "fox"), 0]) == "fox"


def test_nothing_is_nothing(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_batch([]).offsets.tolist() == [0]
    assert tokenizer.encode_batch(["", ""]).offsets.tolist() == [0, 0, 0]
    assert tokenizer.decode([]) == ""


def test_saved_and_loaded_and_pickled_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tok")
    written = {path.name for path in (tmp_path / "tok").iterdir()}
    assert written - {"tokenizer.model"} == {"tokenizer.json", "tokenizer_config.json"}
    copies = [
        load_tokenizer(tmp_path / "tok"),
        load_tokenizer(str(tmp_path / "tok" / "tokenizer.json")),
        pickle.loads(pickle.dumps(tokenizer)),
    ]
    for copy in copies:
        assert copy.fingerprint() == tokenizer.fingerprint()
        assert copy.encode_batch(TEXTS).ids.tolist() == tokenizer.encode_batch(TEXTS).ids.tolist()
        assert (copy.eos_id, copy.pad_id) == (0, None)
        assert copy.bos_id == tokenizer.bos_id


def test_training_is_deterministic(build: Callable[[Iterator[str]], Tokenizer]) -> None:
    assert build(iter(CORPUS)).fingerprint() == TRAINED[build].fingerprint()
    assert build(iter(CORPUS[:1])).fingerprint() != TRAINED[build].fingerprint()


def test_token_texts_are_printable(tokenizer: Tokenizer) -> None:
    texts = [tokenizer.token_text(i) for i in range(tokenizer.vocab_size)]
    assert all(text and text.isprintable() for text in texts)
    assert texts[0] == EOS
    assert "\\n" in texts


def test_transformers_loads_it_and_agrees(tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        if EOS in text:  # there a special token's name is the token, here it is text
            continue
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert ids == ids_of(tokenizer, text)
        assert theirs.decode(ids) == text
    assert len(theirs) == tokenizer.vocab_size
    assert (theirs.eos_token_id, theirs.bos_token_id) == (tokenizer.eos_id, tokenizer.bos_id)
