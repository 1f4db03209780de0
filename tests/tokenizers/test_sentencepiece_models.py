import dataclasses
import io
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.pretrained import PretrainedTokenizer, load_tokenizer
from jax_lm.tokenizers.sentencepiece.convert import to_description
from jax_lm.tokenizers.sentencepiece.model import Piece, PieceKind, read_model
from jax_lm.tokenizers.sentencepiece.wire import integer, raw, read_fields, real
from tests.conftest import SHARED_DATA
from tests.tokenizers.tokenizer_texts import ADVERSARIAL, corpora

sentencepiece = pytest.importorskip("sentencepiece")

SHARED = [
    "llama2/tokenizer.model",
    "axlearn/sentencepiece/bpe_32k_c4.model",
    "sentencepiece/test_model.model",
    "seqio/sentencepiece.model",
]
LINES = ["the cat sat on the mat.", "blåbær og bringebær, 12 345!", "안녕하세요 고양이"] * 40
SETTINGS = {
    "bpe": {"model_type": "bpe"},
    "bpe with bytes": {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "user_defined_symbols": ["<n>", "<n><n>"],
    },
    "unigram": {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "unigram with bytes": {"model_type": "unigram", "byte_fallback": True},
    "no space before": {"model_type": "unigram", "add_dummy_prefix": False},
}
TEXTS = [*LINES[:3], *ADVERSARIAL[:3], *ADVERSARIAL[4:], "한국어 cat mat 고양", "<n><n><n>the"]


def train(path: Path, **settings: object) -> Path:
    model = io.BytesIO()
    size = 340 if settings.get("byte_fallback") else 80
    given = {"hard_vocab_limit": False} if settings["model_type"] == "unigram" else {}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        minloglevel=2,
        **{"vocab_size": size, **given, **settings},
    )
    path.write_bytes(model.getvalue())
    return path


def theirs(path: Path) -> Callable[[list[str]], list[list[int]]]:
    return sentencepiece.SentencePieceProcessor(model_file=str(path)).encode


def ours(tokenizer: PretrainedTokenizer, texts: list[str]) -> list[list[int]]:
    ids, offsets, _ = tokenizer.encode_batch(texts)
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_ids_are_sentencepieces_on_every_corpus(name: str, shared_data: Path) -> None:
    path = shared_data / "tokenizers" / name
    texts = [*corpora(shared_data), *ADVERSARIAL]
    assert ours(load_tokenizer(path), texts) == theirs(path)(texts)


@pytest.mark.parametrize("name", SHARED[2:])
def test_ids_are_sentencepieces_on_awkward_texts(name: str, shared_data: Path) -> None:
    path = shared_data / "tokenizers" / name
    texts = [text[:20_000] for text in ADVERSARIAL]
    assert ours(load_tokenizer(path), texts) == theirs(path)(texts)


@pytest.mark.parametrize("name", SETTINGS)
def test_ids_are_sentencepieces_for_every_setting(name: str, tmp_path: Path) -> None:
    path = train(tmp_path / "m.model", **SETTINGS[name])
    tokenizer = load_tokenizer(path)
    assert ours(tokenizer, TEXTS) == theirs(path)(TEXTS)
    sums = [int(tokenizer.encode_batch([text]).num_bytes.sum()) for text in TEXTS]
    left = [text for text in TEXTS if ours(tokenizer, [text])[0]]
    assert [n for n in sums if n] == [len(text.encode()) for text in left if text]


@pytest.mark.parametrize("name", SETTINGS)
def test_saved_it_is_loaded_here_and_by_transformers(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    path = train(tmp_path / "m.model", **SETTINGS[name])
    tokenizer = load_tokenizer(path)
    tokenizer.save(tmp_path / "saved")
    assert (tmp_path / "saved/tokenizer.model").read_bytes() == path.read_bytes()
    again = load_tokenizer(tmp_path / "saved")
    assert again.fingerprint() == tokenizer.fingerprint()
    assert ours(again, TEXTS) == ours(tokenizer, TEXTS)
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for text in LINES[:3]:
        assert auto(text, add_special_tokens=False)["input_ids"] == ours(tokenizer, [text])[0]
        if "with bytes" in name:
            assert auto.decode(ours(tokenizer, [text])[0]) == text
    assert (auto.eos_token_id, auto.unk_token_id) == (tokenizer.eos_id, tokenizer.unk_id)


@pytest.fixture(scope="module")
def llama() -> PretrainedTokenizer:
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the sample tokenizers")
    return load_tokenizer(SHARED_DATA / "tokenizers/llama2")


def test_llama_cpps_expected_ids(llama: PretrainedTokenizer, shared_data: Path) -> None:
    tokenizer = llama
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 0)
    folder = shared_data / "tokenizers/llamacpp"
    inputs = (folder / "ggml-vocab-llama-spm.gguf.inp").read_bytes().decode()
    outputs = (folder / "ggml-vocab-llama-spm.gguf.out").read_text().splitlines()
    texts = inputs.split("\n__ggml_vocab_test__\n")
    expected = [[int(i) for i in line.split()] for line in outputs]
    assert len(expected) > 30
    assert ours(tokenizer, texts[: len(expected)]) == expected


def test_llama_spells_and_counts(llama: PretrainedTokenizer) -> None:
    tokenizer = llama
    lengths = tokenizer.token_byte_lengths()
    for text in ["the cat", " the cat", "  x", "blåbær 안녕 \n\x00", "▁a▁", "\t"]:
        encoded = tokenizer.encode_batch([text])
        assert tokenizer.decode(encoded.ids.tolist()) == text.replace("▁", " ")
        assert encoded.num_bytes.sum() == len(text.encode())
    assert lengths[tokenizer.encode_batch(["the"]).ids].sum() == 4  # as it reads after a space
    assert tokenizer.token_text(3 + 0x0A) == "\\n"
    parsed = tokenizer.encode_batch(["<s>hei</s>", "<unk>\ue000"], parse_special=True)
    assert parsed.ids[0] == 1 and parsed.ids[2:4].tolist().count(2) == 1
    assert parsed.num_bytes.tolist()[: parsed.offsets[1]][0] == 0
    assert parsed.num_bytes.sum() == len("hei") + len("\ue000".encode())


def test_bytes_of_text_that_is_normalized(shared_data: Path) -> None:
    tokenizer = load_tokenizer(shared_data / "tokenizers/sentencepiece/test_model.model")
    text = "  ﬁne   Ｗord ½ 안녕!  "
    encoded = tokenizer.encode_batch([text])
    assert encoded.num_bytes.sum() == len(text.encode())
    assert encoded.num_bytes.min() >= 0
    assert tokenizer.unk_id in encoded.ids
    assert tokenizer.decode(encoded.ids.tolist()).startswith("fine Word")
    nothing = tokenizer.encode_batch(["   "])
    assert len(nothing.ids) == 0


def test_neox_counts_the_bytes_of_text_in_another_normal_form(shared_data: Path) -> None:
    tokenizer = load_tokenizer(shared_data / "tokenizers/gpt-neox/20B_tokenizer.json")
    texts = ["e\u0301te\u0301", "\u1112\u1161\u11ab", "K", "plain été"]
    counts = tokenizer.encode_batch(texts)
    sums = [
        counts.num_bytes[a:b].sum()
        for a, b in zip(counts.offsets, counts.offsets[1:], strict=False)
    ]
    assert sums == [len(text.encode()) for text in texts]


def test_a_control_symbol_in_a_text_is_text(tmp_path: Path) -> None:
    for given in SETTINGS.values():
        settings = {**given, "control_symbols": ["[eod]"]}
        tokenizer = load_tokenizer(train(tmp_path / "m.model", **settings))
        eod = next(i for i in tokenizer.special_ids if tokenizer.token_text(i) == "[eod]")
        assert eod not in tokenizer.encode_batch(["the [eod] cat", "[eod]"]).ids
        parsed = tokenizer.encode_batch(["the [eod] cat"], parse_special=True)
        assert eod in parsed.ids
        assert parsed.num_bytes.sum() == len("the  cat")


def key(number: int, wire_type: int) -> bytes:
    return bytes([number << 3 | wire_type])


def test_the_wire_format() -> None:
    fields = read_fields(key(1, 0) + b"\xac\x02" + key(2, 2) + b"\x02hi" + key(3, 5) + b"\0\0\x80?")
    assert (integer(fields, 1), raw(fields, 2), real(fields, 3)) == (300, b"hi", 1.0)
    assert integer(read_fields(key(1, 0) + b"\xff" * 9 + b"\x01"), 1) == -1
    assert read_fields(key(4, 1) + b"12345678")[4] == [b"12345678"]
    with pytest.raises(ValueError, match="expected a number"):
        integer(fields, 2)
    with pytest.raises(ValueError, match="expected bytes"):
        raw(fields, 1)
    with pytest.raises(ValueError, match="32-bit"):
        real(fields, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "without pieces"),
        (b"not a model at all", "not a SentencePiece model"),
        (key(1, 2) + b"\x05ab", "cut off inside field 1"),
        (key(1, 0) + b"\xff", "no number at byte 2"),
        (key(1, 0) + b"\x01", "a piece is a number"),
        (key(1, 3), "wire type 3"),
    ],
)
def test_files_that_are_no_model(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(data)
    with pytest.raises(JaxLMError, match=message) as caught:
        load_tokenizer(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "word"}, "of type word"),
        ({"space_after_word": True}, "the space after the word"),
        ({"escape_whitespaces": False}, "keeps spaces as they are"),
        ({"unk": None}, "without an unknown piece"),
        ({"pieces": (Piece("<unk>", 0, PieceKind.UNUSED),)}, "pieces marked unused"),
    ],
)
def test_features_that_cannot_be_said_are_refused(change, message: str, tmp_path: Path) -> None:
    model = read_model(train(tmp_path / "m.model", model_type="bpe").read_bytes(), "m")
    with pytest.raises(JaxLMError, match=f"m: a SentencePiece model.*{message}"):
        to_description(dataclasses.replace(model, **change), "m")


def test_a_saved_model_says_what_sentencepiece_said(tmp_path: Path) -> None:
    path = train(tmp_path / "m.model", **SETTINGS["bpe with bytes"])
    model = read_model(path.read_bytes(), "m")
    assert model.algorithm == "bpe" and model.byte_fallback and not model.character_map
    description = json.loads(load_tokenizer(path).description)
    assert description["normalizer"]["normalizers"][-1]["content"] == "▁"
    assert len(description["model"]["vocab"]) == len(model.pieces)
