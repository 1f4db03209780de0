"""From documents to a complete set, and what happens when that is interrupted."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from jax_lm.documents.base import BadRecord, RejectedRecord
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.preprocessing import making
from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.manifest import feature_files, manifest_path, read_manifest
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.verify import verify_features
from tests.preprocessing.preprocessing_fakes import EOS, READS, ByteTokenizer, ListSource, document

TEXT = "Det var en gang en katt som satt på matta. 고양이가 앉았다. "


def corpus(count=12, **fields):
    return ListSource([document(TEXT[: 20 + place], **fields) for place in range(count)])


def contents(prefix):
    folder = Path(prefix).parent
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rows(prefix, column="input_ids"):
    tables = [pq.read_table(path) for path in feature_files(prefix)]
    return [row for table in tables for row in table[column].to_pylist()]


def test_a_set_is_its_files_a_manifest_and_the_tokenizer(make):
    source = corpus()
    manifest = make(source)
    count = len(source.ranges(40))
    names = [f"set-{place:05d}-of-{count:05d}.parquet" for place in range(count)]
    assert sorted(contents(make.prefix)) == [
        "_set.manifest.json", "_set.tokenizer/bytes.txt", *names,
    ]  # fmt: skip
    assert open_features(make.prefix) == manifest == read_manifest(make.prefix)
    assert verify_features(make.prefix).problems == ()


def test_totals_are_exact(make):
    source = corpus()
    totals = make(source).totals
    size = sum(len(d.text.encode()) for d in source.documents)
    shards = len(source.ranges(40))
    assert (totals.documents, totals.text_bytes, totals.spelled_bytes) == (12, size, size)
    assert totals.num_bytes == size == sum(rows(make.prefix, "num_bytes"))
    assert totals.targets == size + 12
    assert totals.tokens == size + 12 + shards
    masks = np.array(rows(make.prefix, "attention_mask"))
    assert totals.padding == (masks == 0).sum()
    assert totals.rows == len(masks)


def test_the_same_input_gives_the_same_bytes(make, tmp_path):
    make(corpus(), str(tmp_path / "a" / "set"))
    make(corpus(), str(tmp_path / "b" / "set"))
    assert contents(str(tmp_path / "a" / "set")) == contents(str(tmp_path / "b" / "set"))


def test_a_complete_set_is_not_made_again(make):
    made = make(corpus())
    READS.clear()
    assert make(corpus()) == made
    assert READS == []
    assert "already done" in make.said[-1]


def test_other_settings_are_refused_and_named_until_overwrite(make):
    make(corpus())
    with pytest.raises(JaxLMError, match=r"max_sequence_length was 8, is 4.*--overwrite"):
        make(corpus(), max_sequence_length=4)
    with pytest.raises(JaxLMError, match="another source"):
        make(corpus(11))
    with pytest.raises(JaxLMError, match="another tokenizer"):
        make(corpus(), None, ByteTokenizer(eos=False))
    stranger = Path(make.prefix).parent / "other-00000-of-00001.parquet"
    stranger.write_bytes(b"not ours")
    make(corpus(3), overwrite=True, max_sequence_length=4)
    assert stranger.read_bytes() == b"not ours"
    assert open_features(make.prefix).sequence_length == 4
    assert verify_features(make.prefix).problems == ()


def test_a_failed_overwrite_leaves_the_old_set_whole(make):
    make(corpus())
    before = contents(make.prefix)
    with pytest.raises(JaxLMError, match=r"^disk$"):
        make(replaced(corpus(), 0, OSError("disk")), overwrite=True, max_sequence_length=4)
    assert {name: data for name, data in contents(make.prefix).items() if name in before} == before


def replaced(source, place, error):
    return ListSource(source.documents, error_at=(place, error))


def test_an_interrupted_run_continues_with_what_is_missing(make, tmp_path):
    whole = str(tmp_path / "whole" / "set")
    make(corpus(), whole)
    READS.clear()
    with pytest.raises(KeyboardInterrupt):
        make(replaced(corpus(), 7, KeyboardInterrupt()))
    assert not feature_files(make.prefix) and not manifest_path(make.prefix).exists()
    done = [cut for cut in corpus().ranges(40) if cut.stop.offset <= 7]
    assert done
    READS.clear()
    make(corpus())
    assert list(range(done[-1].stop.offset, 12)) == READS
    assert contents(make.prefix) == contents(whole)


def test_an_unfinished_run_of_another_plan_is_discarded_and_said(make):
    with pytest.raises(KeyboardInterrupt):
        make(replaced(corpus(), 7, KeyboardInterrupt()))
    READS.clear()
    make(corpus(), max_sequence_length=5)
    assert list(range(12)) == READS
    assert "max_sequence_length was 8, is 5" in "\n".join(make.said)


@pytest.mark.parametrize("moves", range(6))
@pytest.mark.parametrize("replacing", [False, True])
def test_a_kill_while_files_get_their_final_names_loses_nothing(
    make, tmp_path, monkeypatch, moves, replacing
):
    """Stop after so many renames, then run again: the same bytes, and no shard read twice."""
    whole = str(tmp_path / "whole" / "set")
    make(corpus(9), whole)
    if replacing:
        make(corpus(12))
    left = [moves]
    rename = Path.replace

    def rename_some(path, target):
        if "partial" in str(path.parent) and Path(target).parent.name == "out":
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", rename_some)
        with pytest.raises(KeyboardInterrupt):
            make(corpus(9), overwrite=replacing)
    assert not manifest_path(make.prefix).exists()
    READS.clear()
    make(corpus(9))
    assert READS == []
    assert contents(make.prefix) == contents(whole)


@pytest.mark.parametrize(
    ("second", "kind", "columns"),
    [
        ((("in", 1.0), ("out", 1.0)), "shift", 4),
        ((("in", 0.0), ("out", 1.0)), "labels", 5),
        ((("in", 0.25), ("out", 1.0)), "weights", 6),
    ],
)
def test_the_kind_of_targets_is_one_for_the_whole_set(make, second, kind, columns):
    plain = [document(TEXT) for _ in range(3)]
    manifest = make(ListSource([*plain, document(*second), *plain]))
    assert manifest.target_kind == kind
    assert manifest.row_length == (9 if kind == "shift" else 8)
    assert len(manifest.columns) == columns
    assert verify_features(make.prefix).problems == ()
    scored = len(second[1][0]) + (0 if kind == "labels" else len(second[0][0])) + 1
    assert manifest.totals.targets == 6 * (len(TEXT.encode()) + 1) + scored


def test_rewriting_for_labels_does_not_depend_on_an_interruption(make, tmp_path):
    documents = [document(TEXT)] * 4 + [document(("a", 0.0), (TEXT, 1.0))]
    whole = str(tmp_path / "whole" / "set")
    make(ListSource(documents), whole)
    with pytest.raises(KeyboardInterrupt):
        make(ListSource(documents, error_at=(3, KeyboardInterrupt())))
    make(ListSource(documents))
    assert contents(make.prefix) == contents(whole)
    assert any("rewriting with labels" in line for line in make.said)


def test_labels_can_be_asked_for(make):
    manifest = make(corpus(), labels=True)
    assert manifest.target_kind == "labels"
    labels, ids = rows(make.prefix, "labels"), rows(make.prefix)
    assert all(a[:-1] == b[1:] for a, b in zip(labels, ids, strict=True) if -100 not in a)
    assert manifest.totals.targets == sum(label != -100 for row in labels for label in row)


def test_rows_belong_to_one_subset(make):
    documents = [document(TEXT, subset="no" if place % 2 else "ko") for place in range(4)]
    make(ListSource(documents), shard_size=10_000)
    subsets = rows(make.prefix, "subset")
    assert set(subsets) == {"no", "ko"}
    assert subsets == sorted(subsets, key=["ko", "no"].index)


def test_a_shard_without_rows_has_no_file(make):
    bad = [document(TEXT, name="bad") for _ in range(4)]
    source = ListSource([*bad, *corpus(4).documents])
    manifest = make(source, on_bad_record="skip")
    assert len(manifest.files) < len(source.ranges(40))
    assert [entry.name for entry in manifest.files] == [p.name for p in feature_files(make.prefix)]
    kept = (Path(make.prefix).parent / "_set.rejected.jsonl").read_text().splitlines()
    assert manifest.totals.rejected == len(kept) == 4
    assert json.loads(kept[0]) == {"file": "list", "line": 1, "reason": "bad record", "raw": TEXT}
    with pytest.raises(JaxLMError, match="4 bad records were skipped"):
        make(source)


def test_a_bad_record_is_told_and_leaves_nothing_if_nothing_was_done(make):
    error = BadRecord(RejectedRecord("a.jsonl", 3, "no text", "{}"))
    with pytest.raises(JaxLMError, match=r"^a\.jsonl:3: no text$"):
        make(replaced(corpus(), 0, error))
    assert contents(make.prefix) == {}
    with pytest.raises(JaxLMError, match="no text"):
        make(replaced(corpus(), 9, error))
    assert "are done and kept" in make.said[-1]
    READS.clear()
    make(corpus(), on_bad_record="skip")
    assert READS and READS[0] > 0


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "list holds no documents"),
        ([document("x", name="bad")], "1 records were rejected, the first was list:1: bad record"),
        ([document("abc")], "list gives 5 tokens, fewer than one row of 9"),
    ],
)
def test_too_little_text_is_one_sentence_and_leaves_nothing(make, documents, message):
    with pytest.raises(JaxLMError, match=re.escape(message)):
        make(ListSource(documents), on_bad_record="skip")
    assert contents(make.prefix) == {}
    assert not (Path(make.prefix).parent / "_set.partial").exists()


def test_files_of_no_set_are_not_touched(make):
    stray = Path(make.prefix).parent / "set-00000-of-00001.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"somebody's")
    with pytest.raises(JaxLMError, match="belongs to no feature set"):
        make(corpus(), overwrite=True)
    assert contents(make.prefix) == {stray.name: b"somebody's"}


def test_a_broken_manifest_can_be_overwritten(make):
    make(corpus())
    manifest_path(make.prefix).write_text("{")
    with pytest.raises(JaxLMError, match="broken manifest"):
        make(corpus())
    make(corpus(), overwrite=True)
    assert verify_features(make.prefix).problems == ()


def test_workers_that_write_elsewhere_are_found_out(make, monkeypatch):
    monkeypatch.setattr(making, "run_on_beam", lambda shards, write, flags: None)
    with pytest.raises(JaxLMError, match="share this folder"):
        make(corpus())


@pytest.mark.parametrize(
    ("prefix", "message"),
    [("out/", "is a directory"), ("gs://bucket/x", "not to a URL"), ("out/_x", "must not begin")],
)
def test_prefixes_that_name_no_file(make, prefix, message):
    with pytest.raises(JaxLMError, match=message):
        make(corpus(), prefix)


@pytest.mark.parametrize("name", ["max_sequence_length", "shard_size", "context_length"])
def test_numbers_below_one_are_usage_errors(name):
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} is 0"):
        PreprocessOptions(**{name: 0})


def test_separator_and_padding_choices(make, tmp_path):
    special = make(corpus()).special_ids
    assert (special.separator, special.pad, special.all) == (EOS, EOS, (256, 257))
    special = make(corpus(), separator_token="<other>", overwrite=True).special_ids
    assert special.separator == 257
    special = make(corpus(), separator_token="\n", overwrite=True).special_ids
    assert special.separator == 10
    other = make(corpus(), str(tmp_path / "none" / "set"), ByteTokenizer(eos=False)).special_ids
    assert (other.separator, other.pad) == (None, 0)
    with pytest.raises(JaxLMError, match=r"<eo> or|'<eo>'.*<eos>.*did you mean '<eos>'"):
        make(corpus(), separator_token="<eo>", overwrite=True)


def test_a_full_disk_is_raised_where_it_cannot_be_recorded(make, monkeypatch):
    def no_space(*args):
        raise OSError(28, "No space left on device", "shard")

    monkeypatch.setattr("jax_lm.preprocessing.shard_writing.write_features", no_space)
    with pytest.raises(JaxLMError, match=r"^shard: No space left on device$"):
        make(corpus())
    monkeypatch.setattr("jax_lm.preprocessing.shard_work.write_failure", no_space)
    with pytest.raises(OSError, match="No space left"):
        make(corpus())


def test_after_a_failure_no_more_shards_are_read(make):
    with pytest.raises(JaxLMError, match="first"):
        make(replaced(corpus(), 5, JaxLMError("first")))
    assert max(READS) == 5
