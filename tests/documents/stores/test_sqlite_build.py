import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.documents.base import Cursor
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.stores.making import StoreOptions, make_sqlite_store
from jax_lm.documents.stores.partial_files import PartialFiles
from jax_lm.documents.stores.payload import decode_document, encode_document
from jax_lm.documents.stores.sqlite import open_sqlite
from jax_lm.errors import JaxLMError
from jax_lm.types import Document, Segment

START = Cursor(0, 0)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = [
        json.dumps({"text": f"document {n} " * (n % 50), "meta": {"pile_set_name": "AB"[n % 2]}})
        for n in range(2000)
    ]
    lines.insert(100, "{broken")
    lines.append('{"txt": "wrong field"}')
    path.write_text("\n".join(lines))
    return path


def read_all(spec: str, options: ReadingOptions | None = None) -> list[Document]:
    source = open_source(spec, options or ReadingOptions())
    return [document for _, document in source.read(START)]


def test_what_goes_in_comes_out(run, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "corpus.db"
    code, out, err = run("build", corpus, "--on-bad-record", "skip", "--output", output)
    assert (code, err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith(" "))
    assert rows["documents"] == "2,000"
    assert rows["left"] == "out          2 malformed"
    assert "A   49.0 % of bytes, 1,000 documents" in out
    assert f"rejected records  {tmp_path / '_corpus.db.rejected.jsonl'}" in out
    assert "x smaller" in rows["stored"]
    skip = ReadingOptions(on_bad_record="skip")
    assert read_all(f"sqlite:{output}") == read_all(str(corpus), skip)
    rejected = (tmp_path / "_corpus.db.rejected.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in rejected] == [101, 2002]
    assert json.loads(rejected[0])["raw"] == "{broken\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "_corpus.db.rejected.jsonl",
        "corpus.db",
        "corpus.jsonl",
    ]


def test_cleaning_and_choice_are_counted(run, corpus: Path, tmp_path: Path) -> None:
    flags = ["--on-bad-record", "skip", "--subsets", "A", "--min-characters", 100]
    code, out, _ = run("build", corpus, *flags, "--output", tmp_path / "a.db")
    assert code == 0
    left_out = next(line for line in out.splitlines() if line.startswith("left out"))
    assert "1,000" in left_out
    assert "2 malformed" in left_out
    store = open_sqlite(str(tmp_path / "a.db"))
    assert {document.subset for _, document in store.read(START)} == {"A"}
    assert min(len(document.text.strip()) for _, document in store.read(START)) >= 100


def test_info_and_show_use_random_access(run, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    output = tmp_path / "corpus"
    flags = ["--on-bad-record", "skip", "--shard-documents", 300, "--output", output]
    assert run("build", corpus, *flags)[0] == 0
    assert len(list(output.iterdir())) == 7
    monkeypatch.setattr("jax_lm.documents.stores.sqlite.SqliteStore.read", None)
    code, out, _ = run("info", f"sqlite:{output}")
    assert code == 0
    assert "documents         2,000\n" in out
    assert "bytes in 7 files" in out
    code, out, err = run("show", f"sqlite:{output}", "-i", 1999, "--show-characters", 30)
    assert (code, err) == (0, "")
    assert "document 1999 document 1999" in out
    code, _, err = run("show", f"sqlite:{output}", "-i", 2000)
    assert code == 1
    assert "there is no document 2000; it holds 2,000 documents" in err
    assert run("show", f"sqlite:{output}", "-i", -1)[0] == 2
    assert "7 files, 2,000 documents verified" in run("verify", f"sqlite:{output}")[1]
    (output / "documents-00003.db").write_bytes(b"x" * 200)
    code, _, err = run("verify", f"sqlite:{output}")
    assert code == 1
    assert f"{output / 'documents-00003.db'}: not an SQLite file" in err


def test_an_output_that_is_there(run, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.db"
    build = ["build", corpus, "--on-bad-record", "skip", "--output", output]
    assert run(*build, "--max-documents", 10)[0] == 0
    before = output.read_bytes()
    code, out, _ = run(*build, "--max-documents", 10)
    assert (code, "holds these documents already" in out) == (0, True)
    code, _, err = run(*build)
    assert code == 1
    assert "--overwrite replaces" in err
    assert output.read_bytes() == before
    assert run(*build, "--overwrite")[0] == 0
    assert len(open_sqlite(str(output))) == 2000
    assert run(*build, "--overwrite", "--shard-documents", 1500)[0] == 0
    assert len(open_sqlite(str(output))) == 2000
    assert output.is_dir()
    assert run(*build, "--overwrite")[0] == 0
    assert output.is_file()
    code, _, err = run("build", corpus, "--output", corpus, "--overwrite")
    assert code == 1
    assert "not an SQLite file" in err


def test_builds_are_the_same_and_do_not_depend_on_the_place(corpus: Path, tmp_path: Path) -> None:
    source = open_source(str(corpus), ReadingOptions(on_bad_record="skip"))
    for name in ("a.db", "b.db"):
        list(make_sqlite_store(source, str(tmp_path / name), StoreOptions(), say=str))
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()


def test_an_unfinished_build_of_something_else_is_discarded(
    run, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    output = tmp_path / "a.db"
    build = ["build", corpus, "--output", output]
    monkeypatch.setattr("jax_lm.documents.stores.dictionary.DOCUMENTS_A_PLACE", 60)
    monkeypatch.setattr("jax_lm.documents.stores.building.STEP_DOCUMENTS", 50)
    assert run(*build)[0] == 1  # stops at the broken line, two steps in
    partial = tmp_path / "_a.db.partial" / "documents-00000.db"
    assert partial.exists()
    code, _, err = run("info", f"sqlite:{partial}")
    assert (code, "not finished" in err) == (1, True)
    code, out, _ = run(*build, "--on-bad-record", "skip")
    assert "going on after 100 documents" in out
    assert code == 0
    output.unlink()
    assert run(*build)[0] == 1
    code, out, _ = run(*build, "--on-bad-record", "skip", "--level", 9)
    assert code == 0
    assert "discarding an unfinished store" in out
    assert "level was 3, is 9" in out
    output.unlink()
    assert run(*build)[0] == 1
    partial.write_bytes(b"no database" * 100)
    code, out, _ = run(*build, "--on-bad-record", "skip")
    assert (code, "discarding a damaged unfinished store" in out) == (0, True)


def test_two_builds_of_one_output_do_not_mix(run, corpus: Path, tmp_path: Path) -> None:
    other = PartialFiles(tmp_path / "a.db")
    other.take()
    code, _, err = run("build", corpus, "--output", tmp_path / "a.db")
    other.release()
    assert code == 1
    assert "another process is building" in err


def test_a_source_that_changed_is_not_continued(run, corpus: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("jax_lm.documents.stores.dictionary.DOCUMENTS_A_PLACE", 60)
    monkeypatch.setattr("jax_lm.documents.stores.building.STEP_DOCUMENTS", 50)
    assert run("build", corpus, "--output", tmp_path / "a.db")[0] == 1
    corpus.write_text('{"text": "other"}\n')
    code, out, _ = run("build", corpus, "--output", tmp_path / "a.db")
    assert code == 0
    assert "another source" in out
    assert len(open_sqlite(str(tmp_path / "a.db"))) == 1


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["build", "stdlib"], 2, "--output"),
        (["build", "stdlib", "--output", "a.db", "--level", "40"], 2, "expected 1 to 19"),
        (["build", "stdlib", "--output", "a.db", "--shard-documents", "0"], 2, "1 or more"),
        (["info", "sqlite:nowhere.db"], 1, "no such file; make one with"),
        (["info", "sqlite:."], 1, "no .db file in this directory"),
        (["info", "sqlite:a.db?text=b"], 2, ""),
        (["verify", "stdlib"], 2, "not a store"),
        (["buidl", "stdlib"], 2, "did you mean 'build'"),
    ],
)
def test_mistakes(run, tmp_path: Path, monkeypatch, args, code: int, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    got, _, err = run(*args)
    assert got == code
    assert message in err


def test_files_of_others_are_refused(run, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    code, _, err = run("info", f"sqlite:{path}")
    assert code == 1
    assert "an SQLite file of another program" in err


def test_a_damaged_document_is_named_when_it_is_read(run, tmp_path: Path) -> None:
    corpus = tmp_path / "a.txt"
    corpus.write_text("\n".join("".join(chr(97 + i * j % 26) for j in range(90)) for i in range(9)))
    assert run("build", corpus, "--lines", "--output", tmp_path / "a.db")[0] == 0
    store = open_sqlite(str(tmp_path / "a.db"))
    with sqlite3.connect(tmp_path / "a.db") as connection:
        body = bytearray(
            connection.execute("SELECT body FROM documents WHERE id = 4").fetchone()[0]
        )
        whole = bytes(body)
        body[len(body) // 2] ^= 1
    connection.close()
    data = (tmp_path / "a.db").read_bytes()
    assert data.count(whole) == 1
    (tmp_path / "a.db").write_bytes(data.replace(whole, bytes(body)))
    assert store[3].text == store.read_batch([3])[0].text
    with pytest.raises(JaxLMError, match=r"a\.db: document 4 of this file is damaged"):
        store[4]


def test_a_file_that_is_replaced_is_noticed(run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    flags = ["--lines", "--output", tmp_path / "a.db", "--overwrite"]
    run("build", tmp_path / "a.txt", *flags)
    store = open_sqlite(str(tmp_path / "a.db"))
    before = store.fingerprint()
    (tmp_path / "a.txt").write_text("two")
    run("build", tmp_path / "a.txt", *flags)
    assert store.fingerprint() != before
    with pytest.raises(JaxLMError, match="another file than the one that was opened"):
        store[0]


def test_what_json_cannot_say_becomes_text() -> None:
    metadata = {"bytes": b"x", "half": "\ud800", "n": 1}
    document = Document((Segment("text"),), "a", metadata=metadata)
    decoded = decode_document(encode_document(document))
    assert decoded.metadata == {"bytes": "b'x'", "half": "\ud800", "n": 1}
    assert decoded.text == "text"


def test_progress_is_said_now_and_then(run, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("jax_lm.documents.stores.building.STEP_DOCUMENTS", 1000)
    monkeypatch.setattr("jax_lm.documents.stores.making.PLAIN_SECONDS", 0.0)
    out = run("build", corpus, "--on-bad-record", "skip", "--output", tmp_path / "a.db")[1]
    assert "2,000 documents, 0.7 MB of text, " in out
    assert "MB/s, " in out


def test_importing_stores_imports_no_server_library() -> None:
    code = (
        "import sys, jax_lm.documents.stores.making, jax_lm.cli.documents\n"
        "print([name for name in ('pymongo', 'jax', 'beam') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_real_corpora(run, shared_data: Path, tmp_path: Path) -> None:
    corpora = shared_data / "corpora"
    spec = [corpora / "english100", corpora / "commoncrawl", corpora / "norwegian_ud"]
    given = [path for path in spec if path.is_dir()]
    output = tmp_path / "real.db"
    code, _, err = run("build", *given, "--output", output)
    assert (code, err) == (0, "")
    assert read_all(f"sqlite:{output}") == [
        document for _, document in open_source(list(map(str, given))).read(START)
    ]
    assert run("verify", f"sqlite:{output}")[0] == 0


def test_ctrl_c_can_be_continued(run, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("jax_lm.documents.stores.building.STEP_DOCUMENTS", 50)
    flags = ["build", corpus, "--on-bad-record", "skip", "--output", tmp_path / "a.db"]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("jax_lm.documents.stores.sqlite_writer._marks", interrupt)
        code, _, err = run(*flags)
    assert code == 130
    assert "give the same command again" in err
    code, out, _ = run(*flags)
    assert code == 0
    assert "going on after 0 documents" in out


def test_a_missing_package_is_named(run, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    code, _, err = run("build", tmp_path / "a.txt", "--output", tmp_path / "a.db")
    assert code == 1
    assert "pip install 'jax-lm[zstd]'" in err
    monkeypatch.setitem(sys.modules, "pymongo", None)
    code, _, err = run("info", "mongodb://h/db?collections=a")
    assert code == 1
    assert "pip install 'jax-lm[mongodb]'" in err
