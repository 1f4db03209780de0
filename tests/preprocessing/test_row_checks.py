"""What `features verify` finds in the columns of every mode, and in what lies beside them."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest

from jax_lm.cli.main import main
from jax_lm.preprocessing.manifest import (
    feature_files,
    manifest_path,
    read_manifest,
    rejected_path,
    tokenizer_directory,
)
from jax_lm.preprocessing.verify import verify_features
from tests.preprocessing.altered_sets import change, rewrite
from tests.preprocessing.preprocessing_fakes import ByteTokenizer, ListSource, document

TEXT = "Blåbær på brødskiva. 고양이! "
PLAIN = [document(TEXT) for _ in range(6)]
PAIRS = [document((f"{place} + 1? ", 0.0), (TEXT[:place], 1.0)) for place in range(1, 9)]
WEIGHTED = [document(("ask: ", 0.0), (TEXT, 0.5), ("!", 1.0), subset="qa")] * 3
MODES = {
    "packed": (PLAIN, {"segment_ids": True}),
    "packed shift": (PLAIN, {"mode": "packed", "sentences": True}),
    "packed weighted": (WEIGHTED, {"mode": "packed"}),
    "windows": (PLAIN, {"stride": 3, "min_sequence_length": 4}),
    "windows by the original": (
        [document("\x00!\x00" * 9)],
        {"mode": "windows", "seed_compatible": True, "sentences": True},
    ),
    "rolling": (PLAIN, {"context_length": 3}),
    "documents": (PLAIN, {"sentences": True}),
    "pairs": (PAIRS, {"max_input_length": 5, "max_output_length": 7}),
}


def made(make, name):
    documents, options = MODES[name]
    make(ListSource(documents), **{"mode": name, **options})
    return feature_files(make.prefix)[0]


@pytest.fixture(autouse=True)
def every_sixth_byte_ends_a_sentence(monkeypatch):
    monkeypatch.setattr(
        "jax_lm.preprocessing.shard_writing.sentence_ends",
        lambda text: [*range(6, len(text.encode()), 6), len(text.encode())],
    )


@pytest.mark.parametrize("name", MODES)
def test_every_mode_passes(make, name):
    made(make, name)
    found = verify_features(make.prefix)
    assert found.problems == ()
    assert found.rows == read_manifest(make.prefix).totals.rows > 0


def changed(path, column, alter):
    values = pq.read_table(path)[column].to_pylist()
    rewrite(path, **{column: alter(values)})


def first(value):
    """Puts ``value`` in the first place of the first row."""
    return lambda rows: [[value, *rows[0][1:]], *rows[1:]]


@pytest.mark.parametrize(
    ("name", "column", "alter", "problem"),
    [
        ("packed", "segment_ids", first(2), "segment ids that do not count"),
        ("packed", "segment_ids", lambda rows: [[0] * 8 for _ in rows], "segment ids that do not"),
        ("packed", "subset", lambda rows: ["other"] * len(rows), "subset 'other', which"),
        ("packed shift", "sentence_ends", first(0), "sentence ends that are not ascending"),
        ("packed shift", "sentence_ends", first(10), "sentence ends that are not ascending"),
        ("documents", "sentence_ends", lambda rows: [[3, 3]] * len(rows), "sentence ends that"),
        ("documents", "num_bytes", lambda rows: [-1] * len(rows), "a negative number of bytes"),
        ("pairs", "target_ids", first(300), "an id outside the vocabulary of 258"),
        ("pairs", "target_mask", first(0), "a target mask that is not ones"),
        ("pairs", "target_ids", lambda rows: [[9] * 7 for _ in rows], "padding that is not id"),
        ("pairs", "input_ids", first(-1), "an id outside the vocabulary of 258"),
        ("windows", "labels", first(3), "a label that is not the next token"),
        ("rolling", "attention_mask", first(0), "an attention mask that is not ones"),
        ("windows by the original", "attention_mask", lambda rows: [[1] * 8 for _ in rows],
         "an attention mask that is not where ids are above 0"),
        ("windows by the original", "labels",
         lambda rows: [[0 if i == -100 else i for i in row] for row in rows], "a label"),
    ],
)  # fmt: skip
def test_rows_that_break_a_promise_are_found(make, name, column, alter, problem):
    path = made(make, name)
    changed(path, column, alter)
    (found,) = verify_features(make.prefix).problems
    assert found.startswith(f"{path.name}: {problem}")


def test_a_label_scored_or_not_changes_the_count(make):
    path = made(make, "windows")
    changed(path, "labels", lambda rows: [[-100, *rows[0][1:]], *rows[1:]])
    targets = read_manifest(make.prefix).totals.targets
    assert verify_features(make.prefix).problems == (
        f"_set.manifest.json: targets {targets}, but the files hold {targets - 1}",
    )


def test_every_flipped_byte_of_the_manifest_is_found(make, capsys):
    made(make, "windows")
    path = manifest_path(make.prefix)
    kept = path.read_bytes()
    for place in range(0, len(kept), 11):
        for bit in (1, 128):
            path.write_bytes(kept[:place] + bytes([kept[place] ^ bit]) + kept[place + 1 :])
            assert main(["features", "verify", make.prefix]) == 1
            error = capsys.readouterr().err
            assert path.name in error and error.count("\n") == 1
    path.write_bytes(kept.replace(b"\n ", b"\n\t", 1))
    assert main(["features", "verify", make.prefix]) == 1
    assert "its sha256 is not the one" in capsys.readouterr().err


def test_what_lies_beside_is_checked(make):
    bad = [document("bad", name="bad:1"), document("bad", name="bad:2")]
    make(ListSource([*PLAIN, *bad]), on_bad_record="skip")
    assert verify_features(make.prefix).problems == ()
    rejected = rejected_path(make.prefix)
    rejected.write_text(rejected.read_text().splitlines(keepends=True)[0])
    assert verify_features(make.prefix).problems == (
        "_set.rejected.jsonl: 1 rejected records, expected 2",
    )
    rejected.write_text("\n\n")
    ByteTokenizer(eos=False).save(tokenizer_directory(make.prefix))
    assert verify_features(make.prefix).problems == (
        "_set.tokenizer: not the tokenizer that cut the rows",
    )
    manifest = read_manifest(make.prefix)
    fingerprint = ByteTokenizer(eos=False).fingerprint()
    change(make.prefix, tokenizer_fingerprint=fingerprint)
    assert verify_features(make.prefix).problems == (
        "_set.tokenizer: another BOS or EOS than the rows have",
    )
    special = dataclasses.replace(manifest.special_ids, eos=None)
    change(make.prefix, special_ids=special)
    assert verify_features(make.prefix).problems == ()


def test_a_tokenizer_that_cannot_be_loaded_is_named(make, monkeypatch):
    from jax_lm.preprocessing import verify
    from jax_lm.tokenizers.pretrained import load_tokenizer

    made(make, "windows")
    monkeypatch.setattr(verify, "load_tokenizer", load_tokenizer)
    (found,) = verify_features(make.prefix).problems
    assert found.startswith("_set.tokenizer: ") and "tokenizer" in found


def test_arrays_of_the_columns_have_the_promised_types(make):
    path = made(make, "pairs")
    schema = pq.read_schema(path)
    assert [str(schema.field(name).type.value_type) for name in schema.names[:4]] == [
        "int32", "int8", "int32", "int8"
    ]  # fmt: skip
    assert schema.names == [
        "input_ids", "attention_mask", "target_ids", "target_mask", "num_bytes", "subset"
    ]  # fmt: skip
    assert np.array(pq.read_table(path)["target_ids"].to_pylist()).shape[1] == 7
