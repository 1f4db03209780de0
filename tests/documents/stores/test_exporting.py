import json
from collections import Counter
from pathlib import Path

import pytest

from jax_lm.documents.base import Cursor
from jax_lm.documents.open import open_source

START = Cursor(0, 0)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text(
        "".join(json.dumps({"text": f"document {n}", "n": n}) + "\n" for n in range(99))
    )
    return path


def lines_of(folder: Path) -> list[str]:
    return [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


def test_a_sample_is_the_same_from_a_store_and_from_files(run, corpus: Path, tmp_path) -> None:
    run("build", corpus, "--output", tmp_path / "a.db")
    flags = ["--sample", 20, "--seed", 3, "--files", 3]
    for name, spec in (("files", corpus), ("store", f"sqlite:{tmp_path / 'a.db'}")):
        code, out, _ = run("export", spec, *flags, "--output", tmp_path / name)
        assert (code, out) == (0, f"20 of 99 documents in 3 files of {tmp_path / name}\n")
    for path in (tmp_path / "files").iterdir():
        assert (tmp_path / "store" / path.name).read_bytes() == path.read_bytes()
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert names == [f"documents-{n:05}-of-00003.txt" for n in range(3)]
    lines = lines_of(tmp_path / "store")
    assert len(set(lines)) == 20
    assert lines == sorted(lines, key=lambda line: int(line.split()[1]))
    assert run("export", corpus, "--sample", 20, "--output", tmp_path / "other")[0] == 0
    assert lines_of(tmp_path / "other") != lines


def test_every_document_is_drawn_about_as_often(run, corpus: Path, tmp_path: Path) -> None:
    drawn: Counter[str] = Counter()
    for seed in range(60):
        flags = ["--sample", 33, "--seed", seed, "--overwrite", "--output", tmp_path / "out"]
        assert run("export", corpus, *flags)[0] == 0
        drawn.update(lines_of(tmp_path / "out"))
    assert len(drawn) == 99
    assert 6 <= min(drawn.values()) <= max(drawn.values()) <= 36


def test_all_documents_and_more_than_there_are(run, corpus: Path, tmp_path: Path) -> None:
    for index, flags in enumerate(([], ["--sample", 1000])):
        folder = tmp_path / str(index)
        assert run("export", corpus, *flags, "--output", folder)[1].startswith("99 of 99 documents")
        assert lines_of(folder) == [f"document {n}" for n in range(99)]


def test_line_breaks_stay_unambiguous(run, tmp_path: Path) -> None:
    texts = ["plain", "two\nlines\r\n", "a \\n that is none", "", "\u2028 stays"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    code, out, _ = run("export", path, "--output", tmp_path / "out")
    assert code == 0
    assert "in 2 of them line breaks became \\n" in out
    written = (tmp_path / "out" / "documents-00000-of-00001.txt").read_text().split("\n")
    assert written == ["plain", "two\\nlines\\r\\n", "a \\\\n that is none", "", "\u2028 stays", ""]


def test_jsonl_keeps_weights_subsets_and_metadata(run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = [
        {"text": "a\nb", "meta": {"pile_set_name": "A"}, "n": 1},
        {"in_text": "q", "out_text": "a"},
        {"text": [["x", 0.5], ["y", 0]]},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run("export", path, "--format", "jsonl", "--output", tmp_path / "out")[0] == 0
    before, after = (
        [document for _, document in open_source(str(place)).read(START)]
        for place in (path, tmp_path / "out")
    )
    assert [document.segments for document in after] == [document.segments for document in before]
    assert [document.subset for document in after] == ["A", "", ""]
    assert after[0].metadata["n"] == 1


def test_skipped_records_are_counted_once_and_kept(run, corpus: Path, tmp_path: Path) -> None:
    corpus.write_text(corpus.read_text() + "{broken\n")
    flags = ["--on-bad-record", "skip", "--min-characters", 11, "--sample", 3]
    code, out, _ = run("export", corpus, *flags, "--output", tmp_path / "out")
    assert code == 0
    assert out.startswith("3 of 89 documents")
    assert "left out: 1 malformed" in out
    kept = (tmp_path / "_out.rejected.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in kept] == [100]


def test_mistakes(run, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", corpus, "--output", out)[0] == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    code, _, err = run("export", corpus, "--sample", 5, "--output", out)
    assert (code, "--overwrite replaces it" in err) == (1, True)
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    code, _, err = run("export", corpus, "--output", tmp_path, "--overwrite")
    assert (code, "holds corpus.jsonl, which is no export" in err) == (1, True)
    code, _, err = run("export", corpus, "--output", corpus)
    assert (code, "expected a directory" in err) == (1, True)
    assert run("export", corpus, "--sample", 0, "--output", tmp_path / "x")[0] == 2
    corpus.write_text('{"text": "a"}\n{broken\n')
    assert run("export", corpus, "--output", tmp_path / "y")[0] == 1
    assert not (tmp_path / "y").exists()
    corpus.write_text("\n")
    code, _, err = run("export", corpus, "--output", tmp_path / "z")
    assert (code, "nothing to export" in err) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "out"]
