"""What is refused when a set is opened, what a check finds, and how rows look."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.describe import describe, details
from jax_lm.preprocessing.features import open_features, read_row, schema_of
from jax_lm.preprocessing.manifest import (
    feature_files,
    manifest_path,
    read_manifest,
    tokenizer_directory,
)
from jax_lm.preprocessing.show import show_row
from jax_lm.preprocessing.verify import verify_features
from tests.preprocessing.altered_sets import adopt, rewrite
from tests.preprocessing.preprocessing_fakes import ByteTokenizer, ListSource, document

TEXT = "Blåbær på brødskiva, 고양이. "


@pytest.fixture
def prefix(make):
    make(ListSource([document(TEXT) for _ in range(8)]))
    return make.prefix


def test_a_missing_set_says_what_to_run(tmp_path):
    with pytest.raises(JaxLMError, match=r"no features at .*nothing: run jax-lm preprocess"):
        read_manifest(str(tmp_path / "nothing"))


def test_a_manifest_of_another_version_or_shape_is_refused(prefix):
    content = json.loads(manifest_path(prefix).read_text())
    manifest_path(prefix).write_text(json.dumps({**content, "format_version": 99}))
    with pytest.raises(JaxLMError, match="format version 99, expected 2"):
        read_manifest(prefix)
    for broken in ({**content, "surprise": 1}, {k: content[k] for k in content if k != "files"}):
        manifest_path(prefix).write_text(json.dumps(broken))
        with pytest.raises(JaxLMError, match="broken manifest"):
            read_manifest(prefix)
    manifest_path(prefix).write_text("[1]")
    with pytest.raises(JaxLMError, match="format version None"):
        read_manifest(prefix)


def test_missing_extra_and_shortened_files_are_refused_and_named(prefix):
    first, second = feature_files(prefix)[:2]
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(JaxLMError, match=f"{first.name} missing"):
        open_features(prefix)
    assert verify_features(prefix).problems == (f"{first.name}: missing",)
    first.write_bytes(kept)
    extra = first.with_name("set-00000-of-99999.parquet")
    extra.write_bytes(kept)
    with pytest.raises(JaxLMError, match=f"{extra.name} not in the manifest"):
        open_features(prefix)
    assert verify_features(prefix).problems == (f"{extra.name}: not in the manifest",)
    extra.unlink()
    pq.write_table(pq.read_table(second).slice(1), second)
    with pytest.raises(JaxLMError, match=f"{second.name} holds 9 rows, expected 10"):
        open_features(prefix)
    second.write_bytes(b"PAR1")
    with pytest.raises(JaxLMError, match=f"{second.name} is not a readable"):
        open_features(prefix)


def test_another_set_with_a_longer_name_is_not_mixed_in(make, prefix):
    make(ListSource([document(TEXT * 2)]), prefix + "-b")
    assert len(feature_files(prefix)) == len(read_manifest(prefix).files)
    assert open_features(prefix)


def test_every_flipped_byte_is_found(prefix):
    path = feature_files(prefix)[1]
    kept = path.read_bytes()
    for place in range(0, len(kept), 97):
        path.write_bytes(kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :])
        assert verify_features(prefix).problems == (
            f"{path.name}: its sha256 is not the manifest's",
        )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"input_ids": [[1] * 8 + [258]] * 10}, "an id outside the vocabulary of 258"),
        ({"input_ids": [[1] * 8] * 10}, "it cannot be read (a row is not of length 9)"),
        ({"input_ids": [None] * 10}, "it cannot be read (a row is not of length 9)"),
        ({"attention_mask": [[0] + [1] * 8] * 10}, "an attention mask that is not ones"),
        ({"attention_mask": [[1] * 3 + [0] * 6] * 10}, "padding that is not id 256"),
        ({"num_bytes": [1] * 10}, "rows spell 10 bytes, expected"),
    ],
)
def test_rows_that_break_the_promise_are_found(prefix, changes, problem):
    path = feature_files(prefix)[1]
    rewrite(path, **changes)
    (found,) = verify_features(prefix).problems
    assert found.startswith(f"{path.name}: {problem}")


@pytest.mark.parametrize(
    ("column", "change", "problem"),
    [
        ("labels", lambda v: np.where(v > 0, 300, v), "a label outside the vocabulary"),
        ("labels", lambda v: np.where(v > 0, 3, v), "a label that is not the next token"),
        ("labels", lambda v: np.where(v < 0, 256, v), "a label"),
        ("loss_weights", lambda v: v * 0, "loss weights that disagree"),
    ],
)
def test_labels_that_break_the_promise_are_found(make, column, change, problem):
    make(ListSource([document(("ask", 0.0), (TEXT, 0.5)) for _ in range(4)]))
    path = feature_files(make.prefix)[0]
    values = np.array(pq.read_table(path)[column].to_pylist())
    rewrite(path, **{column: change(values).tolist()})
    (found,) = verify_features(make.prefix).problems
    assert found.startswith(f"{path.name}: {problem}")


def test_other_columns_are_found(prefix):
    path = feature_files(prefix)[0]
    pq.write_table(pq.read_table(path).drop_columns(["num_bytes"]), path)
    adopt(path)
    assert "its columns are not input_ids" in verify_features(prefix).problems[0]
    with pytest.raises(JaxLMError, match="other columns"):
        open_features(prefix)


def test_rows_are_read_across_files(prefix):
    manifest = read_manifest(prefix)
    whole = [row for path in feature_files(prefix) for row in pq.read_table(path).to_pylist()]
    assert len(whole) == manifest.totals.rows
    for index in (0, 4, 5, len(whole) - 1):
        row = read_row(prefix, manifest, index)
        assert row["input_ids"].tolist() == whole[index]["input_ids"]
    with pytest.raises(JaxLMError, match=f"rows 0 to {len(whole) - 1}, there is no row 999"):
        read_row(prefix, manifest, 999)


def test_the_columns_are_of_the_promised_types(make):
    make(ListSource([document(("a", 0.0), (TEXT, 0.5), subset="news")]))
    table = pq.read_table(feature_files(make.prefix)[0])
    types = [pa.list_(pa.int32()), pa.list_(pa.int8()), pa.list_(pa.int32())]
    types += [pa.list_(pa.float32()), pa.int32(), pa.dictionary(pa.int32(), pa.string())]
    assert table.schema.types == types
    assert table.schema == schema_of(read_manifest(make.prefix).columns)
    assert list(read_manifest(make.prefix).columns.values()) == [
        "list<int32>", "list<int8>", "list<int32>", "list<float32>", "int32", "dictionary<string>",
    ]  # fmt: skip


def test_a_row_shows_its_text_and_what_is_not_scored(make):
    source = ListSource([document(("ask ", 0.0), ("yes", 1.0), ("?!", 0.5), subset="qa")])
    manifest = make(source, max_sequence_length=8)
    rows = [read_row(make.prefix, manifest, index) for index in range(2)]
    text, _, counts, weights = show_row(rows[0], manifest, ByteTokenizer(), color=False)
    assert text == "⟦‹<eos>›ask ⟧yes?"
    assert counts == "9 tokens, 4 scored, 0 padding, 4 bytes spelled by the scored, subset qa"
    assert weights == "weights: 0 on 5, 0.5 on 1, 1 on 3"
    text, _, counts, *_ = show_row(rows[1], manifest, ByteTokenizer(), color=True)
    assert text == "\x1b[2m?\x1b[0m!\x1b[1;36m‹<eos>›\x1b[0m"
    assert counts.startswith("3 tokens, 2 scored, 5 padding, 1 bytes")


def test_a_row_of_a_set_without_separator_says_so(make):
    tokenizer = ByteTokenizer(eos=False)
    manifest = make(ListSource([document(TEXT)]), None, tokenizer)
    lines = show_row(read_row(make.prefix, manifest, 0), manifest, tokenizer, color=False)
    assert lines[0] == "⟦B⟧låbær "
    assert "no separator" in lines[-1]


def test_a_description_has_the_numbers_people_ask_for(make):
    documents = [document(TEXT) for _ in range(3)] + [document("x", name="bad")]
    manifest = make(ListSource(documents), on_bad_record="skip")
    size = len(TEXT.encode())
    text = "\n".join(describe(make.prefix, manifest, ByteTokenizer()))
    assert re.search(rf"documents +3 \({3 * size} bytes\) of list", text)
    assert re.search(r"separator +'<eos>' \(id 256, EOS\)", text)
    assert re.search(r"rejected +1 records: .*_set.rejected.jsonl", text)
    assert str(tokenizer_directory(make.prefix)) in text and "warning" not in text
    listed = "\n".join(details(manifest))
    assert all(entry.sha256 in listed and entry.name in listed for entry in manifest.files)
    assert manifest.source_fingerprint in listed


def test_a_tokenizer_that_loses_text_is_told(make):
    class Lossy(ByteTokenizer):
        def token_byte_lengths(self):
            return super().token_byte_lengths() // 2

    manifest = make(ListSource([document(TEXT) for _ in range(3)]))
    import dataclasses

    totals = dataclasses.replace(manifest.totals, spelled_bytes=1)
    changed = dataclasses.replace(manifest, totals=totals)
    assert "this tokenizer changes the text" in describe(make.prefix, changed, ByteTokenizer())[-1]


def test_datasets_reads_the_columns_and_nothing_else(make, tmp_path):
    datasets = pytest.importorskip("datasets")
    manifest = make(ListSource([document(("a", 0.0), (TEXT, 0.5), subset="news")] * 3))
    assert Path(make.prefix).parent.joinpath("_set.manifest.json").exists()
    table = datasets.Dataset.from_parquet(make.prefix + "*", cache_dir=str(tmp_path / "cache"))
    assert table.num_rows == manifest.totals.rows
    expected = read_row(make.prefix, manifest, 1)
    assert table[1]["subset"] == "news"
    for name in ("input_ids", "attention_mask", "labels", "loss_weights"):
        assert table[1][name] == expected[name].tolist()
