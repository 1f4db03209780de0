"""Flags that belong to one mode, and rows that are as long as their objective needs."""

import pytest

from jax_lm.cli.main import main
from jax_lm.errors import JaxLMError
from jax_lm.objectives.span_corruption import SpanCorruptionConfig
from jax_lm.preprocessing.cache import features_for
from jax_lm.preprocessing.manifest import read_manifest
from tests.preprocessing.preprocessing_fakes import ListSource, document

TEXT = "Blåbær på brødskiva. " * 60


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--mode", "windows", "--segment-ids"], "--segment-ids is for --mode packed"),
        (["--mode", "rolling", "--sentences"], "--sentences is for --mode packed, windows, doc"),
        (["--mode", "pairs", "--sentences"], "--sentences is for --mode packed, windows, doc"),
        (["--mode", "pairs", "--labels"], "--labels has no meaning in --mode pairs"),
        (["--mode", "rolling", "--objective", "span-corruption"], "--objective is for --mode"),
        (["--objective", "span-corruption", "--max-sequence-length", "2"],
         "--max-sequence-length: an input of 2 tokens is too short for span corruption"),
        (["--stride", "4"], "--stride is for --mode windows; this is --mode packed"),
        (["--seed-compatible"], "--seed-compatible is for --mode windows"),
        (["--num-special-tokens", "1"], "--num-special-tokens is for --mode windows"),
        (["--context-length", "4"], "--context-length is for --mode rolling"),
        (["--max-input-length", "4"], "--max-input-length is for --mode pairs"),
        (["--mode", "windows", "--stride", "0"], "--stride is 0, expected 1 or more"),
        (["--mode", "windows", "--num-special-tokens", "-1"], "is -1, expected 0 or more"),
        (["--mode", "rolling", "--max-sequence-length", "8", "--context-length", "9"],
         "--context-length 9 is more than --max-sequence-length 8"),
    ],
)  # fmt: skip
def test_flags_that_would_do_nothing_are_refused(tmp_path, capsys, flags, message):
    given = ["text.txt", "--tokenizer", "t", "--output", str(tmp_path / "x")]
    assert main(["preprocess", *given, *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_rows_for_span_corruption_are_as_long_as_they_must_be(make):
    manifest = make(
        ListSource([document(TEXT)] * 2), objective="span-corruption", max_sequence_length=512
    )
    assert (manifest.sequence_length, manifest.row_length) == (568, 568)
    assert read_manifest(make.prefix).settings["objective"] == "span-corruption"
    given = {"tokenizer": None, "objective": SpanCorruptionConfig()}
    assert features_for(make.prefix, sequence_length=512, **given) == make.prefix
    with pytest.raises(JaxLMError, match=r"rows of 568, but rows of 284 give 256 inputs .*256 --o"):
        features_for(make.prefix, sequence_length=256, **given)
    with pytest.raises(
        JaxLMError, match=r"set was made with --objective span-.* which causal-lm needs"
    ):
        features_for(make.prefix, tokenizer=None, sequence_length=512)


def test_other_rows_are_refused_for_span_corruption(make):
    make(ListSource([document(TEXT)]), max_sequence_length=512)
    with pytest.raises(JaxLMError, match=r"rows of 512, but rows of 568 give 512 inputs"):
        features_for(
            make.prefix, tokenizer=None, sequence_length=512, objective=SpanCorruptionConfig()
        )


def test_every_shard_has_the_same_columns_whatever_its_weights(make):
    plain, weighted = document("abcdefghij" * 4), document(("ask", 0.0), ("answer" * 6, 0.5))
    for mode in ("documents", "windows", "rolling"):
        manifest = make(ListSource([plain, weighted, plain]), mode=mode, overwrite=True)
        assert manifest.target_kind == "weights" and "loss_weights" in manifest.columns


def test_a_set_of_which_nothing_is_left_says_why(make):
    source = ListSource([document("plain text")])
    with pytest.raises(JaxLMError, match=r"nothing|no row with anything to score \(left out: 1 "):
        make(source, mode="pairs")
    with pytest.raises(JaxLMError, match="1 windows shorter than 100"):
        make(source, mode="windows", max_sequence_length=128, min_sequence_length=100)
