import json

import pytest

from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.open import open_source
from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters


def test_special_tokens_take_the_first_ids_and_their_parts() -> None:
    specials = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    for tokenizer in (
        train_byte_level_bpe(["ab ab"], vocab_size=300, special_tokens=specials),
        train_characters(["ab ab"], special_tokens=specials),
    ):
        assert [tokenizer.token_text(i) for i in range(5)] == list(specials)
        assert (tokenizer.bos_id, tokenizer.pad_id, tokenizer.eos_id) == (0, 1, 2)
        assert tokenizer.mask_id == 4
        assert tokenizer.special_ids == set(range(5))


def test_without_special_tokens_there_is_no_end() -> None:
    tokenizer = train_characters(["ba"])
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.vocab_size) == (None, None, 2)
    assert [tokenizer.token_text(i) for i in range(2)] == ["a", "b"]


def test_merges_are_the_frequent_pairs() -> None:
    tokenizer = train_byte_level_bpe(["low low low lot lower"], vocab_size=259, special_tokens=())
    tokens = [tokenizer.token_text(i) for i in range(256, tokenizer.vocab_size)]
    assert tokens == ["lo", " lo", " low"]


@pytest.mark.parametrize("token", ["pad", "x", "", "é", "<|>"])
def test_a_special_token_like_text_is_refused(token: str) -> None:
    # It would be learned as a piece of a text, whose ids would then spell nothing.
    for train in (
        lambda: train_byte_level_bpe(["pad"] * 9, vocab_size=300, special_tokens=(token,)),
        lambda: train_characters(["x"], special_tokens=(token,)),
    ):
        with pytest.raises(JaxLMError, match="looks like ordinary text"):
            train()


def test_impossible_settings_and_empty_corpora() -> None:
    with pytest.raises(JaxLMError, match="--vocab-size 256 is too small"):
        train_byte_level_bpe(["a"], vocab_size=256)
    with pytest.raises(JaxLMError, match="given twice"):
        train_characters(["a"], special_tokens=("<s>", "<s>"))
    for texts in ([], ["", ""]):
        with pytest.raises(JaxLMError, match="no text to learn from"):
            train_byte_level_bpe(texts, vocab_size=300)
        with pytest.raises(JaxLMError, match="no text to learn from"):
            train_characters(texts)


def test_a_malformed_record_stops_training_with_its_own_error(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "a"}) + "\n{\n")
    source = open_source(str(path))
    texts = (document.text for _, document in source.read(Cursor(0, 0)))
    with pytest.raises(BadRecord, match=r"a\.jsonl:2"):
        train_byte_level_bpe(texts, vocab_size=300)


def test_partial_utf8_and_ids_beyond_the_vocabulary() -> None:
    tokenizer = train_byte_level_bpe(["a"], vocab_size=257)
    first, *_ = tokenizer.encode_batch(["é"]).ids.tolist()
    assert tokenizer.decode([first]) == "\ufffd"
    assert tokenizer.decode([first, 9999]) == "\ufffd"
    assert tokenizer.token_text(first) == "\\xc3"
    for missing in (-1, 257):
        with pytest.raises(JaxLMError, match=f"no token has id {missing}; ids go from 0 to 256"):
            tokenizer.token_text(missing)


def test_texts_that_cannot_be_spelled() -> None:
    letters = train_characters(["abc", "d"])
    with pytest.raises(JaxLMError, match=r"'é' \(U\+00E9\), character 1 of text 2,"):
        letters.encode_batch(["abc", "", "aéb"])
    with pytest.raises(JaxLMError, match=r"U\+D800"):
        letters.encode_batch(["\ud800"])
    pieces = train_byte_level_bpe(["a"], vocab_size=257)
    with pytest.raises(JaxLMError, match=r"text 1 is not Unicode.*U\+D800, at character 1"):
        pieces.encode_batch(["a", "a\ud800"])


def test_a_long_text_is_cut_as_the_library_cuts_characters(shared_data) -> None:
    text = (shared_data / "corpora/tinyshakespeare/input.txt").read_text()
    tokenizer = train_characters([text])
    alphabet = sorted(set(text))
    assert tokenizer.vocab_size == 65
    expected = [alphabet.index(character) for character in text[:20_000]]
    assert tokenizer.encode_batch([text]).ids[:20_000].tolist() == expected
    assert tokenizer._library.encode(text[:20_000]).ids == expected
