"""Rows for objectives that draw their targets: T ids, none of them in two rows, no labels."""

import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.errors import JaxLMError
from jax_lm.loading.rows import open_rows
from jax_lm.objectives.causal_lm import CausalLMConfig, causal_lm
from jax_lm.objectives.denoising import DenoisingConfig
from jax_lm.objectives.dialogue import DialogueConfig
from jax_lm.objectives.masked_lm import MaskedLMConfig
from jax_lm.objectives.seq2seq import Seq2SeqConfig
from jax_lm.objectives.span_corruption import SpanCorruptionConfig
from jax_lm.preprocessing.cache import features_for
from jax_lm.preprocessing.describe import describe
from jax_lm.preprocessing.features import open_features, read_row
from jax_lm.preprocessing.show import show_row
from jax_lm.preprocessing.verify import verify_features
from jax_lm.preprocessing.wanted import options_for
from tests.preprocessing.cutting_fakes import BOS, PAD, cut, special_ids
from tests.preprocessing.preprocessing_fakes import EOS, ByteTokenizer, ListSource, document

TEXTS = ["Blåbær på brødskiva. Og syltetøy.", "", "En.", "안녕하세요 세계"]


def stream() -> list[int]:
    return [EOS, *(one for text in TEXTS for one in [*text.encode(), EOS])]


@pytest.mark.parametrize("length", [1, 5, 16, 1000])
def test_packed_rows_hold_every_id_once(length):
    features = cut("packed", *map(document, TEXTS), length=length, kind="drawn")
    rows = features.rows
    assert rows.input_ids.shape[1] == length and rows.labels is None
    whole = [i for row, n in zip(rows.input_ids, rows.lengths, strict=True) for i in row[:n]]
    assert whole == stream()
    assert (rows.lengths[:-1] == length).all() and 0 < rows.lengths[-1] <= length
    assert features.kind == "drawn"
    assert features.tokens == features.targets == len(whole)
    assert features.num_bytes.sum() == sum(len(text.encode()) for text in TEXTS)


def test_weights_are_no_matter_and_segments_and_sentences_go_along():
    features = cut(
        "packed", document(("a.", 0.0), ("b", 0.5)), document("c."), length=4, kind="drawn",
        segment_ids=True, find=lambda text: [len(text)], sentences=True,
    )  # fmt: skip
    assert features.rows.input_ids.tolist() == [[EOS, 97, 46, 98], [EOS, 99, 46, EOS]]
    assert features.rows.segment_ids.tolist() == [[1, 1, 1, 1], [1, 1, 1, 2]]
    assert features.rows.sentence_ends.tolist() == [[3, 4], [3, -1]]
    assert features.rows.loss_weights is None and features.kind == "drawn"


def test_documents_and_windows_are_framed_within_t():
    texts = ["ab", "abc", "abcdef"]
    whole = cut("documents", *map(document, texts), length=5, kind="drawn")
    assert whole.rows.input_ids.tolist() == [
        [BOS, 97, 98, EOS, PAD],
        [BOS, 97, 98, 99, EOS],
        [BOS, 97, 98, 99, 100],
    ]
    assert (whole.cut_off, whole.targets, whole.num_bytes.tolist()) == (2, 14, [2, 3, 4])
    windows = cut("windows", document("abcdef"), length=5, kind="drawn", min_sequence_length=5)
    assert windows.rows.input_ids.tolist() == [[BOS, 97, 98, 99, EOS], [BOS, 100, 101, 102, EOS]]
    bare = cut(
        "windows", document("abcdef"), length=3, kind="drawn",
        special=special_ids(None, None, separator=None),
    )  # fmt: skip
    assert bare.rows.input_ids.tolist() == [[97, 98, 99], [100, 101, 102]]


SOURCE = ListSource([document("Blåbærsyltetøy. ", name=f"here:{i}") for i in range(8)])


def test_a_set_is_told_shown_and_verified(make):
    manifest = make(SOURCE, objective="masked-lm")
    assert (manifest.target_kind, manifest.row_length, manifest.sequence_length) == ("drawn", 8, 8)
    assert list(manifest.columns)[:3] == ["input_ids", "attention_mask", "num_bytes"]
    assert manifest.totals.targets == manifest.totals.tokens
    assert verify_features(make.prefix).problems == ()
    told = "\n".join(describe(make.prefix, manifest, ByteTokenizer()))
    assert "drawn by the objective when rows are read" in told
    shown = show_row(read_row(make.prefix, manifest, 1), manifest, ByteTokenizer(), color=False)
    assert "8 tokens, 8 scored, 0 padding" in shown[-1] and "⟦" not in shown[0]
    rows = open_rows(make.prefix, say=lambda line: None).take(np.arange(2))
    assert rows.input_ids.shape == (2, 8) and rows.labels is None


def test_exactly_one_row_is_enough(make):
    assert make(ListSource([document("abcdef")]), objective="masked-lm").totals.rows == 1
    with pytest.raises(JaxLMError, match="gives 5 tokens, fewer than one row of 8: give"):
        make(ListSource([document("abc")]), objective="masked-lm", overwrite=True)


@pytest.mark.parametrize(
    ("made", "objective", "message"),
    [
        ({"objective": "masked-lm"}, CausalLMConfig(), "--objective masked-lm, whose rows lack"),
        ({"objective": "masked-lm"}, DenoisingConfig(), "where sentences end, .* --sentences, or"),
        ({"objective": "denoising"}, MaskedLMConfig(), None),
        ({"objective": "denoising"}, DenoisingConfig(permute_ratio=0.0), None),
        ({}, MaskedLMConfig(), None),
        ({"labels": True}, DenoisingConfig(permute_ratio=0.0), None),
        ({"segment_ids": True}, MaskedLMConfig(), None),
        ({"segment_ids": True}, DenoisingConfig(permute_ratio=0.0), "without --segment-ids"),
        ({"mode": "rolling"}, MaskedLMConfig(), "--mode rolling, whose rows are for causal-lm"),
        ({}, SpanCorruptionConfig(), "rows of 8, but rows of 7 give 8 inputs .* --objective span"),
        ({"max_sequence_length": 7}, SpanCorruptionConfig(), None),
        ({}, Seq2SeqConfig(), "--mode packed and the objective trains on pairs"),
        ({"objective": "masked-lm", "max_sequence_length": 9}, MaskedLMConfig(), "holds rows of 9"),
    ],
)  # fmt: skip
def test_features_of_another_objective_are_refused(make, made, objective, message):
    make(SOURCE, **made)
    given = {"tokenizer": None, "sequence_length": 8, "objective": objective}
    if message is None:
        assert features_for(make.prefix, **given) == make.prefix
        return
    with pytest.raises(JaxLMError, match=message) as error:
        features_for(make.prefix, **given)
    assert str(error.value).startswith(make.prefix) and "preprocess again" in str(error.value)


def test_pairs_fit_where_they_are_no_wider(make):
    source = ListSource([document(("q", 0.0), ("answer", 1.0))])
    make(source, mode="pairs", max_input_length=6, max_output_length=4)
    given = {"tokenizer": None, "sequence_length": 8, "objective": Seq2SeqConfig()}
    assert features_for(make.prefix, target_length=4, **given) == make.prefix
    assert features_for(make.prefix, **{**given, "objective": DialogueConfig()}) == make.prefix
    with pytest.raises(JaxLMError, match=r"--max-output-length 4, more than the 3 .*-length 3, or"):
        features_for(make.prefix, target_length=3, **given)
    with pytest.raises(JaxLMError, match="holds pairs, which objectives seq2seq and dialogue"):
        features_for(make.prefix, tokenizer=None, sequence_length=6)


def test_a_spec_is_preprocessed_as_its_objective_wants():
    spans = SpanCorruptionConfig(noise_density=0.5, mean_noise_span_length=2.0)
    options = options_for(spans, sequence_length=64, max_documents=5)
    assert (options.row_length, options.max_documents) == (spans.lengths(64).raw, 5)
    assert options_for(DenoisingConfig(), sequence_length=8).sentences
    assert not options_for(DenoisingConfig(permute_ratio=0.0), sequence_length=8).sentences
    lines = options_for(MaskedLMConfig(), sequence_length=8, mode="documents")
    assert (lines.mode, lines.least_kind) == ("documents", "drawn")
    pairs = options_for(Seq2SeqConfig(), sequence_length=8, target_length=5)
    assert (pairs.mode, pairs.max_input_length, pairs.target_length) == ("pairs", 8, 5)
    assert options_for(DialogueConfig(), sequence_length=8).chat_template == "bare"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--objective", "masked-lm", "--labels"], "--labels does not go with --objective masked"),
        (["--objective", "denoising", "--segment-ids"], "--segment-ids does not go with --obj"),
        (["--noise-density", "0.3"], "--noise-density does not go with --objective causal-lm"),
        (["--objective", "span-corruption", "--noise-density", "1"], "noise_density is 1.0, exp"),
        (["--objective", "masked-lm", "--mode", "windows", "--seed-compatible"], "not go with"),
    ],
)  # fmt: skip
def test_flags_without_meaning_are_refused(tmp_path, capsys, flags, message):
    given = ["text.txt", "--tokenizer", "t", "--output", str(tmp_path / "x")]
    assert main(["preprocess", *given, *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_conversation_is_learned_at_the_assistants_turns(make):
    turns = [("Hei? ", 0.0), ("Ja! ", 1.0), ("Og? ", 0.0), ("Nei.", 1.0)]
    make(ListSource([document(*turns)]), max_sequence_length=18)
    assert open_features(make.prefix).target_kind == "labels"
    rows = open_rows(make.prefix, say=lambda line: None)
    batch = causal_lm(rows.take(np.array([0])))
    scored = batch.targets[0][batch.loss_mask[0] > 0]
    assert scored.tolist() == [*b"Ja! Nei.", EOS]
