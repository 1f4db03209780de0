import json
from pathlib import Path

import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.documents.showing import document_lines
from jax_lm.documents.statistics import CorpusStatistics
from jax_lm.types import Document, Segment


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def call(*args: object) -> tuple[int, str, str]:
        code = main(["documents", *map(str, args)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def records(tmp_path: Path) -> Path:
    lines = [{"text": f"{i}" * i, "part": "AB"[i % 2]} for i in range(1, 10)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"no": 1}\n')
    return path


def test_info_tells_what_was_left_out_and_why(run, records: Path) -> None:
    spec = f"{records}?subset=part"
    flags = ("--on-bad-record", "skip", "--subsets", "A", "--min-characters", "5")
    code, out, _ = run("info", spec, *flags)
    assert code == 0
    assert "documents         2\n" in out
    assert "subsets           A  100.0 % of bytes, 2 documents\n" in out
    assert "left out          5 documents: of another subset\n" in out
    assert "                  2 documents: shorter than 5 characters\n" in out
    assert f"malformed         1 document skipped, the first at {records}:10\n" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--subsets", "Z"], "no document is left of it: 9 of another subset; 1 malformed, such"),
        (["--min-characters", "99"], "9 shorter than 99 characters"),
    ],
)
def test_a_corpus_of_which_nothing_is_left(run, records: Path, flags: list, message: str) -> None:
    code, out, err = run("info", f"{records}?subset=part", "--on-bad-record", "skip", *flags)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_show_counts_only_what_is_kept_and_names_the_limit(run, records: Path) -> None:
    flags = ("--on-bad-record", "skip", "--min-characters", "5")
    assert "55555" in run("show", records, *flags)[1]
    code, _, err = run("show", records, *flags, "-i", 7)
    assert code == 1
    assert "it holds 5 documents, counted from 0, 4 others being left out" in err
    _, _, err = run("show", records, "-i", 7, "--max-documents", 3)
    assert "it holds 3 documents, counted from 0, for --max-documents 3 ends it there" in err


def test_conversations_and_ready_made_ids_are_counted_apart() -> None:
    counted = CorpusStatistics()
    markup = Segment("User: ", 0.0, markup=True)
    counted.add(Document((markup, Segment("q", 0.0), Segment("añ")), id="1"))
    counted.add(Document((Segment("", ids=np.arange(7)),), id="2"))
    assert (counted.num_bytes, counted.context_bytes, counted.markup_bytes) == (10, 7, 6)
    assert counted.ids == 7


def test_ready_made_ids_and_markup_as_they_are_shown() -> None:
    segments = (Segment("<s>", 1.0, markup=True), Segment("", ids=np.arange(60)))
    lines = list(document_lines(Document(segments, id="x"), 0, styled=True))
    assert "--- segment 1 of 2, weight 1, markup" in lines
    assert "\x1b[2m<s>\x1b[0m" in lines
    assert lines[-1].startswith("60 ready-made ids: 0 1 2 ")
    assert lines[-1].endswith(" 49 ...")
    (*_, line) = document_lines(Document(segments[1:], id="x"), 0, styled=False)
    assert line.startswith("60 ready-made ids")


def test_a_mixture_on_the_command_line(run, tmp_path: Path) -> None:
    for name, count in (("a", 30), ("b", 30)):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}{i}\n" for i in range(count)))
    specs = (tmp_path / "a.txt", tmp_path / "b.txt", "--lines", "--weights", 0.75, 0.25)
    code, out, _ = run("info", *specs)
    assert code == 0
    documents = int(out.split("documents")[1].split()[0])
    assert 38 <= documents <= 42
    _, out, _ = run("info", *specs, "--mixture-stops", "all-exhausted")
    assert "documents         60\n" in out
    code, _, err = run("info", *specs[:3], "--weights", 1)
    assert code == 2
    assert "1 numbers for 2 SPECs" in err
