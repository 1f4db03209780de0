import os
from pathlib import Path

import pytest

from jax_lm.documents.base import Cursor
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError, UsageError

START = Cursor(0, 0)


def ids(spec, **settings) -> list[str]:
    return [
        document.id for _, document in open_source(spec, ReadingOptions(**settings)).read(START)
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name in ("b.txt", "a/2.TXT", "a/1.txt", "a/.hidden.txt", ".git/x.txt", "a/table.csv"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "corpus"


def test_a_directory_is_read_in_the_order_of_names(corpus: Path) -> None:
    source = open_source(str(corpus))
    assert ids(source) == ["a/1.txt", "a/2.TXT", "b.txt"]
    assert source.passed_over == (str(corpus / "a/table.csv"),)
    assert ids(corpus) == ids(str(corpus))


def test_links_in_circles_end(corpus: Path) -> None:
    (corpus / "a/up").symlink_to(corpus)
    (corpus.parent / "elsewhere").mkdir()
    (corpus.parent / "elsewhere/c.txt").write_text("c")
    (corpus / "linked").symlink_to(corpus.parent / "elsewhere")
    assert ids(str(corpus)) == ["a/1.txt", "a/2.TXT", "b.txt", "linked/c.txt"]


def test_globs_are_sorted_and_see_directories(corpus: Path) -> None:
    assert ids(f"{corpus}/a/*.[tT]*[tT]") == ["1.txt", "2.TXT"]
    assert ids(f"{corpus}/**/*.txt") == ["a/1.txt", "b.txt"]
    (corpus / "a/table.csv").unlink()
    assert ids(f"{corpus}/*") == ["a/1.txt", "a/2.TXT", "b.txt"]
    assert ids(f"{corpus}/?.txt") == ["b.txt"]


def test_several_specs_follow_each_other(corpus: Path) -> None:
    assert ids([f"{corpus}/b.txt", f"{corpus}/a"]) == ["b.txt", "1.txt", "2.TXT"]
    (corpus / "a/b.txt").write_text("same name")
    both = [f"{corpus}/b.txt", f"{corpus}/a/b.txt"]
    assert ids(both) == both
    assert open_source(both).name == " ".join(both)


def test_a_limit_counts_over_files_and_changes_the_fingerprint(corpus: Path) -> None:
    assert ids(str(corpus), max_documents=2) == ["a/1.txt", "a/2.TXT"]
    assert ids(open_source(str(corpus)), max_documents=1) == ["a/1.txt"]
    prints = {
        open_source(str(corpus), ReadingOptions(max_documents=n)).fingerprint()
        for n in (None, 1, 2)
    }
    assert len(prints) == 3


def test_readers_settings_are_in_the_fingerprint_but_not_the_place(corpus: Path) -> None:
    source = open_source(str(corpus))
    assert (
        source.fingerprint() != open_source(str(corpus), ReadingOptions(lines=True)).fingerprint()
    )
    moved = corpus.with_name("moved")
    before = source.fingerprint()
    corpus.rename(moved)
    assert open_source(str(moved)).fingerprint() == before


def test_a_path_with_a_question_mark_that_exists_is_that_path(tmp_path: Path) -> None:
    (tmp_path / "why?text=a.txt").write_text("because")
    assert ids(f"{tmp_path}/why?text=a.txt") == ["why?text=a.txt"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}/nope.txt", "nope.txt: no such file or directory"),
        ("{}/*.jsonl", "*.jsonl: no file matches"),
        ("{}/empty", "empty: an empty directory; expected .txt and .jsonl files"),
        ("{}/a.csv", "a.csv: a .csv file cannot be read; this version reads .txt and .jsonl"),
        ("{}/*.csv", "a.csv: a .csv file cannot be read"),
        ("{}/README", "README: a file without a suffix cannot be read"),
        ("{}/others", "x.gz: a .gz file cannot be read"),
        ("{}/pipe.txt", "pipe.txt: not a regular file"),
        ("gs://bucket/a.txt", "gs: sources are not read by this version"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, spec: str, message: str) -> None:
    for name in ("a.csv", "README", "others/x.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(JaxLMError) as caught:
        open_source(spec.format(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "settings", "message"),
    [
        ("{}/a.txt?text=x", {}, "names a field of .jsonl records"),
        ("{}/a.jsonl?txt=x", {}, "unknown option 'txt'; did you mean 'text'?"),
        ("{}/a.jsonl?text=", {}, "option 'text' needs one value"),
        ("{}/a.jsonl?text=a&text=b", {}, "option 'text' needs one value"),
        ("{}/a.jsonl", {"lines": True}, "--lines reads .txt files line by line"),
        ("{}/a.txt", {"max_documents": 0}, "--max-documents should be 1 or more, not 0"),
        ("", {}, "an empty SPEC"),
        ([], {}, "no SPEC given"),
        ("stdlib?splt=train", {}, "unknown option 'splt'; did you mean 'split'?"),
        ("stdlib?split=trian", {}, "no split 'trian'; did you mean 'train'?"),
    ],
)
def test_usage_is_explained(tmp_path: Path, spec, settings: dict, message: str) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}')
    with pytest.raises(UsageError) as caught:
        open_source(spec.format(tmp_path) if spec else spec, ReadingOptions(**settings))
    assert message in str(caught.value)


def test_secrets_of_other_places_are_not_shown() -> None:
    with pytest.raises(JaxLMError) as caught:
        open_source("mongodb://user:secret@host/db?collections=a")
    assert "secret" not in str(caught.value)
    assert "host" not in str(caught.value)


def test_a_range_of_no_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(JaxLMError, match="1 or more"):
        open_source(str(tmp_path)).ranges(0)
