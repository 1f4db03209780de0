import json
from pathlib import Path

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.pretrained import PretrainedTokenizer, load_tokenizer
from jax_lm.tokenizers.special import SpecialTokens

EOS = "<|endoftext|>"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    train_byte_level_bpe(["the cat the cat"] * 3, vocab_size=280).save(tmp_path / "tok")
    return tmp_path / "tok"


def change(path: Path, **entries: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def test_settings_that_would_lose_or_change_text_are_off(saved: Path) -> None:
    before = load_tokenizer(saved)
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    model = json.loads((saved / "tokenizer.json").read_text())["model"]
    change(saved / "tokenizer.json", truncation=truncation, model={**model, "dropout": 0.9})
    after = load_tokenizer(saved)
    text = ["the cat sat on the cat"]
    assert after.encode_batch(text).ids.tolist() == before.encode_batch(text).ids.tolist()
    assert after.fingerprint() == before.fingerprint()


def test_parts_come_from_the_config_then_the_map_then_the_names(saved: Path) -> None:
    config = saved / "tokenizer_config.json"
    config.write_text(json.dumps({"pad_token": {"content": EOS}, "model_max_length": 512}))
    tokenizer = load_tokenizer(saved)
    assert (tokenizer.eos_id, tokenizer.pad_id) == (None, 0)
    tokenizer.save(saved)
    assert json.loads(config.read_text())["model_max_length"] == 512
    config.write_text("{}")
    (saved / "special_tokens_map.json").write_text(json.dumps({"eos_token": EOS}))
    assert (load_tokenizer(saved).eos_id, load_tokenizer(saved).bos_id) == (0, None)
    (saved / "special_tokens_map.json").unlink()
    assert (load_tokenizer(saved).eos_id, load_tokenizer(saved).bos_id) == (0, 0)


def test_a_part_played_by_an_ordinary_token_makes_it_special(saved: Path) -> None:
    change(saved / "tokenizer_config.json", pad_token="\u0120the")
    tokenizer = load_tokenizer(saved)
    assert tokenizer.pad_id in tokenizer.special_ids


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tokenizer.json", "{", "tokenizer.json: broken JSON"),
        ("tokenizer.json", "[]", "tokenizer.json: no `model` in it"),
        ("tokenizer.json", '{"model": {"type": "Unigram"}}', "a Unigram model of a kind not read"),
        ("tokenizer.json", '{"model": {"type": "BPE"}}', "a BPE model of a kind not read"),
        ("tokenizer.json", "\udce5", "tokenizer.json: not UTF-8"),
        ("tokenizer_config.json", "{", "tokenizer_config.json: broken JSON"),
        ("tokenizer_config.json", "[]", "tokenizer_config.json: expected a JSON object"),
        ("tokenizer_config.json", '{"eos_token": "<nope>"}', "eos_token '<nope>' is not in the"),
    ],
)
def test_broken_files_are_one_sentence(saved: Path, name: str, text: str, message: str) -> None:
    (saved / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(JaxLMError) as caught:
        load_tokenizer(saved)
    assert message in str(caught.value)
    assert str(saved) in str(caught.value)


def test_vocabularies_that_could_lose_text_are_refused(saved: Path) -> None:
    path = saved / "tokenizer.json"
    model = json.loads(path.read_text())["model"]
    change(path, model={**model, "end_of_word_suffix": "</w>"})
    with pytest.raises(JaxLMError, match="subword marks"):
        load_tokenizer(saved)
    change(path, model={**model, "merges": [["no", "such"]]})
    with pytest.raises(JaxLMError, match="the tokenizers library refuses it"):
        load_tokenizer(saved)
    del model["vocab"]["a"]
    change(path, model=model)
    with pytest.raises(JaxLMError, match="1 of 256 single bytes are not in the vocabulary"):
        load_tokenizer(saved)


def test_missing_places(tmp_path: Path) -> None:
    with pytest.raises(JaxLMError, match="nope: no such file or directory"):
        load_tokenizer(tmp_path / "nope")
    with pytest.raises(JaxLMError, match=r"no tokenizer\.json in it"):
        load_tokenizer(tmp_path)


def test_gpt2s_own_files_and_llama_cpps_expected_ids(shared_data: Path) -> None:
    folder = shared_data / "tokenizers"
    tokenizer = load_tokenizer(folder / "gpt2/gpt2_tokenizer.json")
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.bos_id) == (50257, 50256, 50256)
    separator = "\n__ggml_vocab_test__\n"
    inputs = (folder / "llamacpp/ggml-vocab-gpt-2.gguf.inp").read_bytes().decode().split(separator)
    outputs = (folder / "llamacpp/ggml-vocab-gpt-2.gguf.out").read_text().splitlines()
    checked = 0
    for text, expected in zip(inputs, outputs, strict=False):
        assert tokenizer.encode_batch([text]).ids.tolist() == [int(i) for i in expected.split()]
        checked += 1
    assert checked > 30


def test_gpt_neoxs_added_spaces_are_text(shared_data: Path) -> None:
    tokenizer = load_tokenizer(shared_data / "tokenizers/gpt-neox/20B_tokenizer.json")
    text = "def f():\n        return 1" + " " * 24
    ids = tokenizer.encode_batch([text]).ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.token_byte_lengths()[ids].sum() == len(text)
    assert (tokenizer.eos_id, tokenizer.pad_id) == (0, 1)


def test_the_fingerprint_knows_which_token_ends_a_text(tmp_path: Path) -> None:
    tokenizer = train_byte_level_bpe(["a b"], vocab_size=258, special_tokens=("<|a|>", "<|b|>"))
    prints = set()
    for name in ("<|a|>", "<|b|>"):
        special = SpecialTokens(eos=name)
        prints.add(PretrainedTokenizer(tokenizer.description, special).fingerprint())
    assert len(prints) == 2
