import json
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.documents.showing import document_lines
from jax_lm.types import Document, Segment


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def call(*args: object) -> tuple[int, str, str]:
        code = main(["documents", *map(str, args)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    lines = [{"text": "blåbær", "meta": {"pile_set_name": "Books"}}] * 3
    lines += [{"in_text": "q\x1b[31m", "out_text": "a" * 50, "n": "x"}, {"text": ""}]
    path.write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "README").write_text("not a corpus")
    return path


def test_info_counts(run, records: Path) -> None:
    code, out, _ = run("info", records.parent)
    rows = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith(" "))
    assert code == 0
    assert rows["documents"] == "5"
    assert rows["characters"] == str(6 * 3 + 6 + 50)
    assert rows["UTF-8"] == f"bytes       {8 * 3 + 6 + 50}"
    assert "6 bytes, context only" in out
    assert "median document   8 bytes" in out
    assert "longest document  56 bytes: a.jsonl@" in out
    assert "empty documents   1" in out
    assert "(none)   70.0 % of bytes, 2 documents" in out
    assert "Books    30.0 % of bytes, 3 documents" in out
    assert f"1 file of another kind: {records.parent / 'README'}" in out


def test_info_of_plain_text_has_no_subsets_and_respects_the_limit(run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    code, out, _ = run("info", tmp_path / "a.txt", "--lines", "--max-documents", 2)
    assert code == 0
    assert "documents         2\n" in out
    assert "subsets" not in out


def test_many_subsets_are_cut_short(run, tmp_path: Path) -> None:
    lines = (json.dumps({"text": "x", "s": f"s{i}"}) for i in range(30))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    _, out, _ = run("info", f"{tmp_path}/a.jsonl?subset=s")
    assert "and 10 more" in out


def test_show_marks_segments_and_disarms_control_characters(run, records: Path) -> None:
    code, out, _ = run("show", records, "-i", 3, "--show-characters", 20)
    assert code == 0
    assert "--- segment 1 of 2, weight 0\nq\\x1b[31m\n" in out
    assert "--- segment 2 of 2, weight 1\n" + "a" * 20 + "\n... 30 more characters" in out
    assert 'metadata  n: "x"' in out
    assert "subset    Books" in run("show", records)[1]


def test_weight_0_is_dim_on_a_terminal() -> None:
    document = Document((Segment("context", 0.0), Segment("scored", 0.5)), id="a")
    lines = list(document_lines(document, 0, styled=True))
    assert "\x1b[2mcontext\x1b[0m" in lines
    assert "scored" in lines


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["show", "{}", "-i", "5"], 1, "there is no document 5; it holds 5 documents"),
        (["show", "{}", "-i", "-1"], 2, "-i counts from 0"),
        (["info", "{}x"], 1, "no such file or directory"),
        (["info", "{}?txt=a"], 2, "did you mean 'text'?"),
        (["info"], 2, "no SPEC given"),
        (["info", "{}", "--max-document", "3"], 2, "did you mean --max-documents?"),
        (
            ["inf", "{}"],
            2,
            "expected info or show or build or export or verify, found 'inf'; did you mean 'info'?",
        ),
        ([], 2, "found nothing"),
    ],
)
def test_mistakes_are_one_sentence(run, records: Path, args, code: int, message: str) -> None:
    got, out, err = run(*(arg.format(records) for arg in args))
    assert (got, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


def test_broken_line_7_is_named(run, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "a"}\n' * 6 + '{"text": \n{"text": "a"}\n')
    code, _, err = run("info", path)
    assert code == 1
    assert err.startswith(f"jax-lm: {path}:7: broken JSON")


def test_an_empty_corpus_is_one_sentence(run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n\n")
    code, _, err = run("info", tmp_path)
    assert code == 1
    assert "no document in it" in err


def test_help_shows_an_example(run) -> None:
    assert "Example: jax-lm documents info" in run("--help")[1]
    code, out, _ = run("info", "--help")
    assert code == 0
    assert "--max-documents" in out


def test_real_corpora(run, shared_data: Path) -> None:
    corpora = shared_data / "corpora"
    code, out, _ = run("info", corpora / "english100", corpora / "commoncrawl")
    assert code == 0
    assert "documents         30\n" in out
    code, out, _ = run("info", corpora / "conversation/sgd/sgd_dev_messages.jsonl")
    assert code == 0
    assert "documents         2,098\n" in out
    assert "bytes around what was said" in out
