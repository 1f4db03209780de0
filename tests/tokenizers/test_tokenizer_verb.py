import json
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.tokenizers.pretrained import load_tokenizer

TEXT = "Det var en gang en konge som hadde en gang tre døtre. " * 30


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def call(*args: object) -> tuple[int, str, str]:
        code = main(["tokenizer", *map(str, args)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "a.txt"


def listed(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_train_writes_and_says_what_was_learned(run, corpus: Path) -> None:
    output = corpus.parent / "deep" / "tok"
    code, out, _ = run("train", corpus, "--vocab-size", 280, "--output", output)
    assert code == 0
    assert f"learned from {len(TEXT):,} characters" in out
    assert "vocabulary       280 tokens" in out
    assert "longest tokens   '" in out
    assert "bytes per token" in out.splitlines()[-1]
    assert listed(output) == ["tokenizer.json", "tokenizer_config.json"]
    assert load_tokenizer(output).vocab_size == 280


def test_a_small_corpus_gives_fewer_tokens_and_says_so(run, corpus: Path) -> None:
    _, out, _ = run("train", corpus, "--output-path", corpus.parent / "tok")
    assert "fewer than the 8,192 asked for" in out


def test_train_characters_of_the_first_documents(run, corpus: Path) -> None:
    corpus.write_text("ab\nxyz\n")
    output = corpus.parent / "tok"
    args = ["train", corpus, "--lines", "--max-documents", 1, "--kind", "characters"]
    code, out, _ = run(*args, "--output", output)
    assert code == 0
    assert load_tokenizer(output).vocab_size == 3
    assert "1.00 bytes per token" in out


def test_an_existing_tokenizer_is_kept_unless_told(run, corpus: Path) -> None:
    output = corpus.parent / "tok"
    run("train", corpus, "--vocab-size", 270, "--output", output)
    (output / "notes.md").write_text("mine")
    before = load_tokenizer(output).fingerprint()
    code, _, err = run("train", corpus, "--vocab-size", 280, "--output", output)
    assert (code, load_tokenizer(output).fingerprint()) == (1, before)
    assert "add --overwrite" in err
    code, _, _ = run("train", corpus, "--vocab-size", 280, "--output", output, "--overwrite")
    assert (code, load_tokenizer(output).vocab_size) == (0, 280)
    assert listed(output) == ["notes.md", "tokenizer.json", "tokenizer_config.json"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["{}/nope.txt"], 1, "no such file or directory"),
        (["{}/empty.jsonl"], 1, "no text to learn from"),
        (["{}/bad.jsonl"], 1, "bad.jsonl:7: broken JSON"),
        (["{}/latin.txt"], 1, "latin.txt:1: byte 0xe5 at offset 2"),
        (["{}/a.txt", "--vocab-size", "100"], 1, "--vocab-size 100 is too small"),
        (["{}/a.txt", "--special-tokens", "konge"], 1, "looks like ordinary text"),
        (["{}/a.txt", "--vocab", "300"], 2, "did you mean --vocab-size?"),
        (["{}/a.txt", "--kind", "characters", "--vocab-size", "9"], 2, "--vocab-size is for"),
        ([], 2, "no SPEC given"),
    ],
)
def test_failures_leave_nothing_behind(run, corpus: Path, args, code: int, message: str) -> None:
    folder = corpus.parent
    (folder / "empty.jsonl").write_text('{"text": ""}\n')
    (folder / "bad.jsonl").write_text('{"text": "a"}\n' * 6 + "{broken\n")
    (folder / "latin.txt").write_bytes(b"bl\xe5")
    before = listed(folder)
    output = folder / "out" / "tok"
    got, out, err = run("train", *(arg.format(folder) for arg in args), "--output", output)
    assert (got, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1
    assert listed(folder) == before


def test_a_failed_write_leaves_no_directory(run, corpus: Path, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    code, _, err = run("train", corpus, "--vocab-size", 260, "--output", corpus.parent / "tok")
    assert code == 1
    assert "No space left on device" in err
    assert listed(corpus.parent) == ["a.txt"]


def test_a_file_in_the_way(run, corpus: Path) -> None:
    code, _, err = run("train", corpus, "--output", corpus)
    assert code == 1
    assert "is a file; --output names a directory" in err


def test_show_cuts_a_text(run, corpus: Path) -> None:
    output = corpus.parent / "tok"
    run("train", corpus, "--vocab-size", 290, "--output", output)
    code, out, _ = run("show", output, "--text", " konge\nå<|endoftext|>")
    assert code == 0
    assert out.startswith(" konge│\\n│\\xc3│\\xa5│<│|│")
    code, out, _ = run("show", output, "--text", " konge", "--ids")
    konge = load_tokenizer(output).encode_batch([" konge"]).ids[0]
    assert out.splitlines()[1].split() == [str(konge), "6", "'", "konge'"]
    assert "1 tokens, 6 bytes: 6.00 bytes per token" in out
    assert "0 tokens, 0 bytes" in run("show", output, "--text", "")[1]


def test_show_describes_the_vocabulary(run, corpus: Path) -> None:
    output = corpus.parent / "tok"
    run("train", corpus, "--kind", "characters", "--special-tokens", "<s>", "--output", output)
    code, out, _ = run("show", output)
    assert code == 0
    assert "<s> (0)" in out
    assert "bos 0, eos none, pad none" in out
    assert "median 1" in out


def test_show_explains_mistakes(run, corpus: Path) -> None:
    output = corpus.parent / "tok"
    run("train", corpus, "--kind", "characters", "--output", output)
    code, _, err = run("show", output, "--text", "Ω")
    assert code == 1
    assert "'Ω' (U+03A9)" in err
    (output / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece"}}))
    code, _, err = run("show", output)
    assert code == 1
    assert "a WordPiece model of a kind not read here" in err
    assert run("show", corpus.parent / "nope")[0] == 1
