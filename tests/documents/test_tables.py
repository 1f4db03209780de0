import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.files import table_formats, tables
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError
from jax_lm.types import Document

START = Cursor(0, 0)


def read(path: Path, options: str = "", **settings) -> list[Document]:
    return [d for _, d in open_source(f"{path}{options}", ReadingOptions(**settings)).read(START)]


def write(path: Path, table: pa.Table, **options) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, **options)
    else:
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.fixture(params=["a.parquet", "a.arrow"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def test_only_the_columns_that_are_needed_are_read(path: Path) -> None:
    table = pa.table(
        {
            "url": ["u", "v"],
            "text": ["a", "b"],
            "meta": [{"pile_set_name": "Books"}, {"pile_set_name": "Web"}],
        }
    )
    write(path, table)
    documents = read(path)
    assert [(d.id, d.text, d.subset) for d in documents] == [
        (f"{path.name}@0", "a", "Books"),
        (f"{path.name}@1", "b", "Web"),
    ]
    assert "url" not in documents[0].metadata
    assert [d.text for d in read(path, "?text=url&subset=text")] == ["u", "v"]
    assert read(path, "?text=meta.pile_set_name")[1].text == "Web"


def test_record_shapes_of_columns(path: Path) -> None:
    messages = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]]
    for columns, text in (
        ({"in_text": ["q"], "out_text": ["a"]}, "qa"),
        ({"messages": messages}, "User: hi\nAssistant: yo\n"),
        ({"Q": ["q"], "A": ["a"], "label": [1]}, "User: q\nAssistant: a\n"),
        ({"instruction": ["do"], "input": ["it"], "output": ["ok"]}, "User: do\n\nit\nAssistant: "),
    ):
        write(path, pa.table(columns))
        assert read(path)[0].text.startswith(text)


def test_ids_of_text_that_is_already_tokenised(path: Path) -> None:
    table = pa.table(
        {
            "input_ids": [[1, 2, 0], [], [7]],
            "attention_mask": [[1, 1, 0], [], None],
            "labels": [[1, 2, -100], [], [7]],
        }
    )
    write(path, table)
    documents = read(path)
    assert [d.segments[0].ids.tolist() for d in documents] == [[1, 2], [], [7]]
    assert documents[0].segments[0].ids.dtype == np.int32
    assert documents[0].text == ""


def test_bad_rows_are_named_and_skipped(path: Path) -> None:
    write(path, pa.table({"text": ["a", None, "b"]}))
    with pytest.raises(BadRecord) as caught:
        read(path)
    assert str(caught.value) == f"{path}:2: row: field 'text' should be text, found null"
    assert [d.text for d in read(path, on_bad_record="skip")] == ["a", "b"]
    write(path, pa.table({"input_ids": [[1], None, [2, 3]], "attention_mask": [[1], [1], [1]]}))
    with pytest.raises(BadRecord, match="row: no 'input_ids'"):
        read(path)
    source = open_source(str(path), ReadingOptions(on_bad_record="skip"))
    assert len(list(source.read(START))) == 1
    assert "2 'input_ids' but 1 'attention_mask'" in source.rejects[1].reason


def test_text_that_is_not_utf8_is_one_bad_row(path: Path) -> None:
    raw = pa.array([b"good", b"bl\xe5", b"fine"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    write(path, pa.table({"text": text}))
    with pytest.raises(BadRecord, match=r"2: row: text that is not UTF-8 \(byte 0xe5\)"):
        read(path)
    assert [d.text for d in read(path, on_bad_record="skip")] == ["good", "fine"]


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ({"body": ["a"]}, "", "no column of text; found 'body' (name it with ?text=COLUMN"),
        ({"text": ["a"]}, "?text=txt", "no column 'txt'; found 'text'; did you mean 'text'?"),
        ({"text": ["a"]}, "?subset=kind", "no column 'kind'"),
        ({"input_ids": [1]}, "", "column 'input_ids' holds int64, expected lists of integers"),
    ],
)
def test_columns_that_are_not_there(path: Path, columns, options: str, reason: str) -> None:
    write(path, pa.table(columns))
    with pytest.raises(JaxLMError) as caught:
        read(path, options)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)


def test_a_file_cut_short_is_named(path: Path) -> None:
    write(path, pa.table({"text": [str(i) for i in range(10_000)]}))
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(JaxLMError, match=r"cannot be read as (Parquet|Arrow) \(.*\); is it whole"):
        read(path)
    path.write_bytes(b"")
    with pytest.raises(JaxLMError, match="cannot be read as"):
        read(path)


def test_a_large_group_is_cut_inside_and_small_ones_between(tmp_path: Path) -> None:
    letters = np.random.default_rng(0).integers(97, 123, (1000, 100), dtype=np.uint8)
    table = pa.table({"text": [row.tobytes().decode() for row in letters]})
    path = write(tmp_path / "one.parquet", table, use_dictionary=False)
    ranges = open_source(str(path)).ranges(10_000)
    assert [cut.follows for cut in ranges] == [False] + [True] * (len(ranges) - 1)
    assert 10 <= len(ranges) <= 12
    write(path, table, row_group_size=100, use_dictionary=False)
    ranges = open_source(str(path)).ranges(25_000)
    assert [cut.start.offset for cut in ranges] == [0, 300, 600, 900]
    assert not any(cut.follows for cut in ranges)


@pytest.mark.parametrize("target_bytes", [5_000, 40_000])
def test_a_large_group_is_decoded_once_over_all_ranges(
    path: Path, monkeypatch: pytest.MonkeyPatch, target_bytes: int
) -> None:
    rows = []
    original = table_formats._from_row

    def counting(batches, *given):
        return original((rows.append(one.num_rows) or one for one in batches), *given)

    monkeypatch.setattr(table_formats, "_from_row", counting)
    letters = np.random.default_rng(0).integers(97, 123, (8000, 100), dtype=np.uint8)
    write(path, pa.table({"text": [row.tobytes().decode() for row in letters]}))
    source = open_source(str(path))
    ranges = source.ranges(target_bytes)
    assert len(ranges) >= 20 and all(cut.follows for cut in ranges[1:])
    assert sum(1 for cut in ranges for _ in source.read(cut.start, cut.stop)) == 8000
    assert sum(rows) == 8000


def test_rows_are_taken_a_few_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = tables.row_values

    def counting(batch, columns):
        sizes.append(batch.num_rows)
        return original(batch, columns)

    monkeypatch.setattr(tables, "row_values", counting)
    monkeypatch.setattr(tables, "BATCH_BYTES", 20_000)
    write(path, pa.table({"text": [f"{i:01000}" for i in range(100)]}))
    assert [d.text for d in read(path)] == [f"{i:01000}" for i in range(100)]
    assert max(sizes) < 50


def test_a_table_without_rows_holds_nothing(path: Path) -> None:
    write(path, pa.table({"text": pa.array([], pa.string())}))
    assert read(path) == []
    assert len(open_source(str(path)).ranges(10)) == 1


def test_values_of_other_types_in_metadata_can_be_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"text": ["a"], "meta": [{"n": [1, 2]}]}))
    assert json.dumps(read(path)[0].metadata) == '{"meta": {"n": [1, 2]}}'
