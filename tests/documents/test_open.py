import os
import sys
import time
from pathlib import Path

import pytest

from jax_lm.cli.main import main
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
    for name in ("b.txt", "a/2.TXT", "a/1.txt", "a/.hidden.txt", ".git/x.txt", "a/table.xls"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "corpus"


def test_a_directory_is_read_in_the_order_of_names(corpus: Path) -> None:
    source = open_source(str(corpus))
    assert ids(source) == ["a/1.txt", "a/2.TXT", "b.txt"]
    assert source.passed_over == (str(corpus / "a/table.xls"),)
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
    (corpus / "a/table.xls").unlink()
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


def test_what_a_directory_holds_beside_its_corpus_is_passed_over(corpus: Path) -> None:
    for name in ("_c.rejected.jsonl", "dataset_info.json", "state.json", "model.bin"):
        (corpus / name).write_text("{")
    source = open_source(str(corpus))
    assert ids(source) == ["a/1.txt", "a/2.TXT", "b.txt"]
    assert len(source.passed_over) == 5
    with pytest.raises(JaxLMError, match="broken JSON"):
        ids(f"{corpus}/_c.rejected.jsonl")


OURS = (
    "a/_feat.manifest.json",
    "a/_feat.rejected.jsonl",
    "a/_feat.tokenizer/tokenizer.json",
    "a/_feat.rows/shape.json",
    "a/feat-00000-of-00002.parquet",
    "a/feat-00001-of-00002.parquet",
    "_begun.partial/plan.json",
    "_begun.partial/00000.rejected.jsonl",
    "begun-00000-of-00001.parquet",
)


def test_what_preprocess_writes_beside_a_corpus_is_passed_over(corpus: Path) -> None:
    before = open_source(str(corpus))
    for name in OURS:
        (corpus / name).parent.mkdir(exist_ok=True)
        (corpus / name).write_text("{}")
    source = open_source(str(corpus))
    assert ids(source) == ["a/1.txt", "a/2.TXT", "b.txt"]
    assert source.fingerprint() == before.fingerprint()
    others = {str(corpus / name) for name in (*OURS, "a/table.xls")}
    assert set(source.passed_over) == others
    assert ids(f"{corpus}/**/*.txt") == ["a/1.txt", "b.txt"]


def test_what_is_named_is_read_wherever_it_lies(corpus: Path) -> None:
    for name in ("_apart/x.txt", "_apart/_deep/y.txt", "feat-00000-of-00001.parquet"):
        (corpus / name).parent.mkdir(parents=True, exist_ok=True)
        (corpus / name).write_text("named")
    (corpus / "_feat.manifest.json").write_text("{}")
    assert ids(f"{corpus}/_apart") == ["x.txt"]
    assert ids(f"{corpus}/_apart/x.txt") == ["x.txt"]
    assert ids(f"{corpus}/_*/*.txt") == ["_apart/x.txt"]
    assert ids(f"{corpus}/*/*.txt") == ["a/1.txt"]
    assert ids(f"{corpus}/**/*.txt") == ["a/1.txt", "b.txt"]
    for spec in ("feat-00000-of-00001.parquet", "*.parquet"):
        with pytest.raises(JaxLMError, match=r"feat-0.*: cannot be read as Parquet"):
            ids(f"{corpus}/{spec}")


def test_other_tables_with_numbered_names_are_read(corpus: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("train-00000-of-00001", "feat-00000-of-00001"):
        pq.write_table(pa.table({"text": [name]}), corpus / f"{name}.parquet")
    (corpus / "a/_train.manifest.json").write_text("{}")
    (corpus / "_feat.manifest.json").write_text("{}")
    assert ids(str(corpus))[-1] == "train-00000-of-00001.parquet@0"


def test_a_directory_of_nothing_but_outputs_says_so(tmp_path: Path, capsys) -> None:
    for name in ("_f.manifest.json", "f-00000-of-00001.parquet"):
        (tmp_path / name).write_text("{}")
    assert main(["documents", "info", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"jax-lm: {tmp_path}: no corpus, only files such as {tmp_path}/_f.m")
    assert error.count("\n") == 1


def test_a_large_directory_with_other_files_is_opened_in_no_time(tmp_path: Path) -> None:
    for index in range(6000):
        (tmp_path / f"{index}.txt").touch()
    (tmp_path / "notes.xls").touch()
    began = time.process_time()
    assert len(open_source(str(tmp_path)).files) == 6000
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}/nope.txt", "nope.txt: no such file or directory"),
        ("{}/*.jsonl", "*.jsonl: no file matches"),
        ("{}/empty", "empty: an empty directory; expected .txt, .jsonl, .json, .csv, .parquet,"),
        ("{}/a.xls", "a.xls: a .xls file cannot be read; expected .txt, .jsonl,"),
        ("{}/*.xls", "a.xls: a .xls file cannot be read"),
        ("{}/README", "README: a file without a suffix cannot be read"),
        ("{}/others", "x.gz: a .gz file cannot be read"),
        ("{}/x.parquet.gz", "x.parquet.gz: a .parquet.gz file cannot be read"),
        ("{}/pipe.txt", "pipe.txt: not a regular file"),
        ("sqlite:{}/nope.db", "nope.db"),
        ("hf-dataset:{}/nope", "nope: cannot be loaded: Couldn't find any data file"),
        ("nowhere://user:secret@host/x.txt", "nowhere://host/x.txt: no such kind of place"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, spec: str, message: str) -> None:
    for name in ("a.xls", "README", "others/x.gz", "x.parquet.gz"):
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
        ("{}/a.txt?text=x", {}, "?text= is about .jsonl, .json, .csv, .parquet, .arrow files"),
        ("{}/a.jsonl?dtype=uint32", {}, "?dtype= is about .bin files; none here"),
        ("{}/a.jsonl?txt=x", {}, "unknown option 'txt'; did you mean 'text'?"),
        ("{}/a.jsonl?text=", {}, "option 'text' needs one value"),
        ("{}/a.jsonl?text=a&text=b", {}, "option 'text' needs one value"),
        ("{}/a.jsonl", {"lines": True}, "--lines reads .txt files line by line"),
        ("{}/a.jsonl", {"weights": (0.5, 0.5)}, "--weights has 2 numbers for 1 SPECs"),
        ("{}/a.jsonl", {"chat_template": "chatlm"}, "did you mean 'chatml'?"),
        ("", {}, "an empty SPEC"),
        ([], {}, "no SPEC given"),
        ("stdlib?splt=train", {}, "unknown option 'splt'; did you mean 'split'?"),
        ("stdlib?split=trian", {}, "no split 'trian'; did you mean 'train'?"),
        ("hf-dataset:{}?streaming=perhaps", {}, "streaming is 'perhaps', expected true or false"),
        ("hf-dataset:{}?sub=a", {}, "unknown option 'sub'; did you mean 'subset'?"),
        ("hf-dataset:", {}, "hf-dataset: needs a name"),
    ],
)
def test_usage_is_explained(tmp_path: Path, spec, settings: dict, message: str) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}')
    with pytest.raises(UsageError) as caught:
        open_source(spec.format(tmp_path) if spec else spec, ReadingOptions(**settings))
    assert message in str(caught.value)


def test_several_kinds_are_chained_and_selected_and_limited(tmp_path: Path) -> None:
    import datasets

    (tmp_path / "a.jsonl").write_text('{"text": "1"}\n{"no": 1}\n{"text": "long"}\n')
    datasets.Dataset.from_dict({"text": ["2", None, "3"]}).save_to_disk(str(tmp_path / "saved"))
    specs = [f"{tmp_path}/a.jsonl", f"hf-dataset:{tmp_path}/saved"]
    options = ReadingOptions(on_bad_record="skip", max_characters=3, max_documents=3)
    source = open_source(specs, options)
    assert [document.text for _, document in source.read(START)] == ["1", "2", "3"]
    assert [(record.file, record.line) for record in source.rejects] == [
        (f"{tmp_path}/a.jsonl", 2),
        (specs[1], 2),
    ]
    assert sum(source.dropped.values()) == 1
    assert source.name == " ".join(specs)


def test_sources_are_mixed_by_weights(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name}\n" * 300)
    specs = [f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"]
    options = ReadingOptions(lines=True, weights=(0.7, 0.3), max_documents=200)
    texts = [document.text for _, document in open_source(specs, options).read(START)]
    assert 0.6 < texts.count("a") / 200 < 0.8
    again = open_source(specs, ReadingOptions(lines=True, weights=(0.7, 0.3), max_documents=200))
    assert [document.text for _, document in again.read(START)] == texts


def test_secrets_of_a_database_are_not_shown() -> None:
    with pytest.raises(JaxLMError) as caught:
        open_source("mongodb://user:secret@127.0.0.1:1/db?collections=a&serverSelectionTimeoutMS=9")
    assert "secret" not in str(caught.value)


def test_a_range_of_no_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(JaxLMError, match="1 or more"):
        open_source(str(tmp_path)).ranges(0)


@pytest.mark.parametrize(
    ("spec", "package", "message"),
    [
        ("{}/a.jsonl.zst", "zstandard", "reading .zst files needs zstandard: pip install"),
        ("s3://bucket/a.jsonl", "s3fs", "reading s3:// files needs s3fs: pip install"),
        ("gs://bucket/a.jsonl", "fsspec.core", "reading gs:// files needs fsspec: pip install"),
        ("hf-dataset:{}", "datasets", "reading hf-dataset: sources needs datasets: pip install"),
    ],
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, package: str, message: str
) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(JaxLMError) as caught:
        ids(spec.format(tmp_path))
    assert message in str(caught.value)


def test_a_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("at home")
    assert ids("~/a.txt") == ["a.txt"]
