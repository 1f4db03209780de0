"""``tokenizer train`` for every kind and set of special tokens."""

import json
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.tokenizers.pretrained import PretrainedTokenizer, load_tokenizer
from jax_lm.tokenizers.sampling import Sample, SampleSettings
from jax_lm.tokenizers.settings import DSGPT2_TOKENS
from jax_lm.tokenizers.training import TrainingSettings, train_tokenizer

TEXT = "Det var en gang en konge som hadde tre døtre, 안녕하세요 12 345.\n" * 9
BPE, UNIGRAM = "sentencepiece-bpe", "sentencepiece-unigram"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "a.txt"


@pytest.fixture
def train(corpus: Path, capsys: pytest.CaptureFixture[str]):
    def call(*args: object) -> tuple[int, str, str]:
        output = ("--output", corpus.parent / "tok")
        code = main(["tokenizer", "train", str(corpus), *map(str, (*args, *output))])
        return code, *capsys.readouterr()

    return call


def loaded(corpus: Path) -> PretrainedTokenizer:
    return load_tokenizer(corpus.parent / "tok")


def test_the_piles_sentencepiece_line(train, corpus: Path) -> None:
    """spm_train's flags, in its own spelling."""
    pytest.importorskip("sentencepiece")
    code, out, err = train(
        *("--kind", BPE, "--vocab_size", 70, "--pad_id=0", "--unk_id=1", "--bos_id=-1"),
        *("--eos_id=-1", "--pad_piece=[PAD]", "--unk_piece=[UNK]"),
        *("--input_sentence_size=100000000", "--control_symbols", "[eod]"),
    )
    assert (code, err) == (0, "")
    assert "special tokens   [PAD] (0), [UNK] (1), [eod] (2)" in out
    assert "bos none, eos none, pad 0, unk 1" in out
    tokenizer = loaded(corpus)
    assert tokenizer.vocab_size == 70
    assert 2 not in tokenizer.encode_batch(["[eod]"]).ids
    assert tokenizer.encode_batch(["a[eod]"], parse_special=True).ids[-1] == 2
    assert (corpus.parent / "tok/tokenizer.model").stat().st_size > 500


def test_t5s_unigram_with_its_sentinels(train, corpus: Path) -> None:
    pytest.importorskip("sentencepiece")
    code, _, err = train("--kind", UNIGRAM, "--preset", "t5", "--vocab-size", 34)
    assert (code, err) == (0, "")
    tokenizer = loaded(corpus)
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2)
    assert tokenizer.bos_id is None
    size = tokenizer.vocab_size
    assert size == 134
    assert tokenizer.token_text(size - 1) == "<extra_id_0>"
    assert tokenizer.token_text(size - 100) == "<extra_id_99>"
    assert set(range(size - 100, size)) <= tokenizer.special_ids
    assert size - 1 not in tokenizer.encode_batch(["en <extra_id_0> gang"]).ids
    parsed = tokenizer.encode_batch(["en <extra_id_0> gang"], parse_special=True)
    assert size - 1 in parsed.ids
    assert parsed.num_bytes.sum() == len("en  gang")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(corpus.parent / "tok")
    assert theirs.convert_tokens_to_ids("<extra_id_0>") == size - 1


def test_dsgpt2s_special_tokens(train, corpus: Path) -> None:
    code, _, err = train("--preset", "dsgpt2", "--unused-tokens", 3, "--vocab-size", 300)
    assert (code, err) == (0, "")
    tokenizer = loaded(corpus)
    names = [*DSGPT2_TOKENS, "<unused0>", "<unused1>", "<unused2>"]
    assert [tokenizer.token_text(i) for i in range(10)] == names
    assert (tokenizer.bos_id, tokenizer.pad_id, tokenizer.eos_id) == (0, 1, 2)


def test_robertas_byte_level_bpe(train, corpus: Path) -> None:
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    code, _, _ = train("--vocab-size", 300, "--min-frequency", 2, "--special-tokens", *special)
    assert code == 0
    assert [loaded(corpus).token_text(i) for i in range(5)] == list(special)


def test_sentinels_go_with_any_kind() -> None:
    for kind in ("byte-level-bpe", "characters"):
        tokenizer = train_tokenizer([TEXT], TrainingSettings(kind=kind, sentinels=2))
        size = tokenizer.vocab_size
        assert tokenizer.token_text(size - 1) == "<extra_id_0>"
        encoded = tokenizer.encode_batch(["en gang"])
        assert tokenizer.decode([size - 1, *encoded.ids.tolist()]) == "en gang"
        assert encoded.num_bytes.sum() == 7


def test_special_tokens_and_bytes_with_sentencepiece(train, corpus: Path) -> None:
    pytest.importorskip("sentencepiece")
    settings = ("--byte-fallback", "--normalization-rule-name", "identity", "--keep-whitespace")
    symbols = ("--special-tokens", "<sys>", "<usr>", "--user-defined-symbols", "<n>")
    code, _, err = train("--kind", BPE, "--vocab-size", 340, *settings, *symbols)
    assert (code, err) == (0, "")
    tokenizer = loaded(corpus)
    assert [tokenizer.token_text(i) for i in range(3, 5)] == ["<sys>", "<usr>"]
    for text in (TEXT, "  x <n>\n\t Ω", "<usr>"):
        encoded = tokenizer.encode_batch([text])
        assert tokenizer.decode(encoded.ids.tolist()) == text
        assert encoded.num_bytes.sum() == len(text.encode())


def test_a_sample_is_taken_and_said(train, corpus: Path) -> None:
    corpus.write_text("".join(f"linje {i}\n" for i in range(100)))
    code, out, _ = train("--lines", "--kind", "characters", "--sample-documents", 10)
    assert code == 0
    assert "a sample: 10 of 100 texts, chosen at random" in out


@pytest.mark.parametrize(
    ("settings", "most"), [({"sample_documents": 7}, 7), ({"sample_bytes": 60}, 10)]
)
def test_samples_are_bounded_ordered_and_decided_by_their_seed(settings, most: int) -> None:
    texts = [f"tekst {i:03}" for i in range(500)]

    def taken(seed: int) -> list[str]:
        return [*Sample(iter(texts), SampleSettings(sample_seed=seed, **settings))]

    first = taken(1)
    assert 0 < len(first) <= most
    assert first == sorted(first) == taken(1) != taken(2)
    everywhere = [text for seed in range(200) for text in taken(seed)]
    assert len(set(everywhere)) > 400


def test_long_lines_are_cut_not_left_out() -> None:
    pytest.importorskip("sentencepiece")
    word = "ord " * 3000 + "\n" + "x" * 5000
    tokenizer = train_tokenizer([word, "å" * 3000], TrainingSettings(kind=BPE, vocab_size=20))
    assert "å" in {tokenizer.token_text(i) for i in range(tokenizer.vocab_size)}


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--kind", BPE, "--vocab-size", 9000], 1, "(--vocab-size must fit the corpus)"),
        (["--kind", BPE, "--pad-id", 0], 2, "two parts have the same id in --pad-id 0"),
        (["--kind", BPE, "--unk-id", -1], 2, "--unk-id must be 0 or more"),
        (["--kind", BPE, "--min-frequency", 2], 2, "--min-frequency is for byte-level-bpe"),
        (["--pad-id", 0], 2, "--pad-id is for SentencePiece's kinds"),
        (["--preset", "t5"], 2, "--preset t5 is for --kind sentencepiece"),
        (["--preset", "dsgpt2", "--kind", BPE], 2, "--preset dsgpt2 is for --kind byte-level"),
        (["--preset", "dsgpt2", "--special-tokens", "<a>"], 2, "drop --special-tokens"),
        (["--sample-bytes", 0], 2, "--sample-bytes is 0, expected 1 or more"),
        (["--sentinels", -1], 2, "--sentinels is -1, expected 0 or more"),
        (["--max-documents", 0], 2, "--max-documents"),
        (["--kind", "wordpiece"], 2, "byte-level-bpe"),
    ],
)
def test_mistakes_are_told(train, corpus: Path, args, code: int, message: str) -> None:
    got, out, err = train(*args)
    assert (got, out) == (code, "")
    assert message in err
    assert not (corpus.parent / "tok").exists()


def test_sentencepiece_stops_at_a_bad_record(tmp_path: Path, capsys) -> None:
    pytest.importorskip("sentencepiece")
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT}) + "\n{\n")
    args = ["--kind", BPE, "--vocab-size", "60", "--output", str(tmp_path / "tok")]
    assert main(["tokenizer", "train", str(tmp_path / "a.jsonl"), *args]) == 1
    assert "a.jsonl:2: broken JSON" in capsys.readouterr().err
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n')
    assert main(["tokenizer", "train", str(tmp_path / "a.jsonl"), *args]) == 1
    assert "no text to learn from" in capsys.readouterr().err


def test_without_sentencepiece_one_sentence_says_what_to_install(train, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    code, _, err = train("--kind", UNIGRAM)
    assert code == 1
    assert "pip install 'jax-lm[sentencepiece]'" in err
