"""What a person is told beside the numbers, and of mistakes that Beam would only name."""

import pytest

from jax_lm.cli.main import main
from jax_lm.preprocessing.notes import template_notes
from jax_lm.types import Segment
from tests.conftest import TinyFeatures
from tests.preprocessing.preprocessing_fakes import ByteTokenizer, ListSource, document


def test_template_tokens_that_the_tokenizer_lacks() -> None:
    segments = [Segment("<|user|>\n", 0, markup=True), Segment("<|written|>", 1)]
    (note,) = template_notes(segments, ByteTokenizer())
    assert "<|user|>" in note and "written" not in note
    assert list(template_notes([Segment("<eos>", 0, markup=True)], ByteTokenizer())) == []
    assert list(template_notes([Segment("User: ", 0, markup=True)], ByteTokenizer())) == []


def test_a_subset_that_nothing_is_of(make) -> None:
    source = ListSource([document("some text here", subset="a"), document("more", subset="b")])
    make(source, subsets="a,c")
    assert "note: --subsets: no document is of subset 'c'" in make.said


def test_rolling_without_anything_to_begin_with(make) -> None:
    source = ListSource([document("some text here")])
    make(source, tokenizer=ByteTokenizer(eos=False), mode="rolling")
    assert any("first token of each document is context only" in line for line in make.said)
    make(source, prefix=make.prefix + "2", mode="rolling")
    assert "context only" not in make.said[-1]


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--runner", "NoRunner"), 2, "Apache Beam: "),
        (("--subsets", "none"), 1, "no document of"),
        (("--min-characters", "99999"), 1, "shorter than 99,999 characters"),
    ],
)
def test_mistakes_are_told(
    tiny_features: TinyFeatures, tmp_path, capsys, flags: tuple[str, ...], code: int, message: str
) -> None:
    command = ["preprocess", str(tiny_features.held_out_text), "--output", str(tmp_path / "set")]
    assert main([*command, "--tokenizer", str(tiny_features.tokenizer), *flags]) == code
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1


def test_a_store_is_written_to_a_path_of_its_own(tmp_path, capsys) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("text")
    for output, message in (
        ("gs://bucket/x.db", "not a URL"),
        (tmp_path / "corpus", "other files"),
    ):
        assert main(["documents", "build", str(tmp_path / "corpus"), "--output", str(output)]) == 1
        assert message in capsys.readouterr().err
