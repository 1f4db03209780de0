"""``tokenizer show``: the vocabulary, the encoder, and how a corpus is cut."""

from pathlib import Path

import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.statistics import count_tokens, histogram_lines, statistics_lines
from jax_lm.tokenizers.training import TrainingSettings, train_tokenizer

TEXT = "Det var en gang en konge. "


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]):
    def call(*args: object) -> tuple[int, str, str]:
        code = main(["tokenizer", "show", *map(str, args)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    train_byte_level_bpe([TEXT * 9], vocab_size=280).save(tmp_path / "tok")
    (tmp_path / "a.txt").write_text(f"{TEXT}\n{TEXT * 5}\n\nkonge\n")
    return tmp_path


def test_the_vocabulary_and_its_encoder(show, saved: Path) -> None:
    code, out, err = show(saved / "tok")
    assert (code, err) == (0, "")
    assert "kind             byte-level-bpe" in out
    assert "special tokens   <|endoftext|> (0)" in out
    assert out.splitlines()[-1].startswith("encoder  ")


def test_statistics_of_a_corpus(show, saved: Path) -> None:
    code, out, err = show(saved / "tok", "--spec", saved / "a.txt", "--lines")
    assert (code, err) == (0, "")
    num_bytes = len((TEXT + TEXT * 5 + "konge").encode())
    assert out.startswith("encoding with ")
    assert f"with {num_bytes} UTF-8 bytes" in out
    assert "unknown          none" in out
    assert "round trip       every document comes back exactly" in out
    assert "most frequent" in out and "least frequent" in out and "vocabulary used" in out
    assert "longest" in out.splitlines()[-1]
    told = show(saved / "tok", "--spec", saved / "a.txt", "--lines", "--encoder", "tokenizers")[1]
    assert told.splitlines()[1:] == out.splitlines()[1:]


def test_what_a_lossy_vocabulary_loses_is_said() -> None:
    pytest.importorskip("sentencepiece")
    settings = TrainingSettings(kind="sentencepiece-bpe", vocab_size=30)
    tokenizer = train_tokenizer([TEXT * 3], settings)
    found = count_tokens(tokenizer, ["en  konge", "en ΩΩ", "en konge"])
    lines = "\n".join(statistics_lines(tokenizer, found))
    assert "1 tokens" in lines and "stand for 4 bytes" in lines
    assert "2 of 3 documents come back changed, the first 'en  konge'" in lines
    assert found.num_bytes == 9 + 7 + 8


def test_the_histogram_counts_every_text() -> None:
    lengths = [0, 1, 2, 3, 3, 4, 7, 8, 1000]
    lines = [*histogram_lines(lengths)]
    counts = [int(line.split(" %")[0].split()[-2]) for line in lines[:-1]]
    assert sum(counts) == len(lengths)
    assert counts == [1, 1, 3, 2, 1, 1]
    assert f"mean {np.mean(lengths):,.1f}" in lines[-1]


def test_documents_without_text(show, saved: Path) -> None:
    (saved / "empty.jsonl").write_text('{"text": ""}\n')
    code, out, _ = show(saved / "tok", "--spec", saved / "empty.jsonl")
    assert code == 0
    assert "none: the documents have no text" in out
    code, _, err = show(saved / "tok", "--spec", saved / "nope.txt")
    assert code == 1
    assert "nope.txt: no such file" in err
