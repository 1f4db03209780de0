import json
import pickle
from pathlib import Path

import pytest

from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.types import Document, Segment

START = Cursor(0, 0)


def read(path: Path, options: str = "", **settings) -> list[Document]:
    return [d for _, d in open_source(f"{path}{options}", ReadingOptions(**settings)).read(START)]


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize(
    ("record", "segments"),
    [
        ({"text": "a"}, (Segment("a", 1.0),)),
        ({"text": ""}, (Segment("", 1.0),)),
        ({"in_text": "q", "out_text": "a"}, (Segment("q", 0.0), Segment("a", 1.0))),
        ([["q", 0], ["a", 0.5]], (Segment("q", 0.0), Segment("a", 0.5))),
        ({"text": [["q", 0], ["a", 1]]}, (Segment("q", 0.0), Segment("a", 1.0))),
        ([], ()),
        ({"text": "\ud83d\ude00 \\ud800"}, (Segment("😀 \\ud800", 1.0),)),
    ],
)
def test_what_a_record_may_hold(tmp_path: Path, record: object, segments: tuple) -> None:
    (document,) = read(write(tmp_path / "a.jsonl", record))
    assert document.segments == segments
    assert document.id == "a.jsonl@0"


def test_fields_by_dotted_path_subset_and_metadata(tmp_path: Path) -> None:
    record = {"body": {"text": "hi"}, "meta": {"pile_set_name": "Books"}, "lang": {"code": 7}}
    path = write(tmp_path / "a.jsonl", record)
    (document,) = read(path, "?text=body.text")
    assert (document.text, document.subset) == ("hi", "Books")
    assert document.metadata["lang"] == {"code": 7}
    (document,) = read(path, "?text=body.text&subset=lang.code")
    assert document.subset == "7"
    dotted = write(tmp_path / "b.jsonl", {"a.b": "literal", "s": None})
    (document,) = read(dotted, "?text=a.b&subset=s")
    assert (document.text, document.subset) == ("literal", "")


@pytest.mark.parametrize(
    ("line", "options", "reason"),
    [
        (b'{"text": "a"', "", "broken JSON, expecting ',' delimiter at character"),
        (b"[" * 100_000, "", "JSON that cannot be read"),
        (b'{"text": ' + b"9" * 5000 + b"}", "", "JSON that cannot be read"),
        (b'{"text": "\xe5"}', "", "byte 0xe5 at offset"),
        (b'"text"', "", "expected a JSON object or list, found text"),
        (b'{"text": 3}', "", "field 'text' should be text, found a number"),
        (b'{"text": null}', "", "found null"),
        (b'{"content": "a"}', "", "found 'content' (name the field with ?text=FIELD"),
        (b"{}", "", "found no field at all"),
        (b'{"in_text": "a"}', "", "a list of [text, weight] pairs; found 'in_text'"),
        (b'{"messages": []}', "", "field 'messages' is an empty conversation"),
        (b'{"text": "a"}', "?text=txt", "no field 'txt'; found 'text'; did you mean 'text'?"),
        (b'{"text": "a"}', "?subset=kind", "no field 'kind'"),
        (b'{"text": "a", "k": [1]}', "?subset=k", "should name a subset, found a list"),
        (b'[["a", 1], ["b"]]', "", "item 1 of the record should be a [text, weight] pair"),
        (b'[["a", -1]]', "", "weight -1; expected a finite number, 0 or more"),
        (b'[["a", NaN]]', "", "weight nan"),
        (b'[["a", true]]', "", "weight True"),
        (b'{"text": "ab\\ud800"}', "", "half a surrogate pair, \\ud800, at character 3"),
    ],
)
def test_a_malformed_line_7_is_named(
    tmp_path: Path, line: bytes, options: str, reason: str
) -> None:
    path = tmp_path / "bad.jsonl"
    good = json.dumps({"text": "x", "txt": "x", "kind": "", "k": ""}).encode()
    path.write_bytes(b"\n".join([good] * 5 + [b"", line, good]))
    with pytest.raises(BadRecord) as caught:
        read(path, options)
    assert str(caught.value).startswith(f"{path}:7: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_number_is_right_from_the_middle_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *({"text": f"{i}"} for i in range(10)), {"no": 1})
    source = open_source(str(path))
    middle = [cursor for cursor, _ in source.read(START, Cursor(0, 100))][4]
    with pytest.raises(BadRecord, match=r"a\.jsonl:11: "):
        list(source.read(middle))


def test_skipped_records_are_kept_and_reading_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"text": "1"}, {"no": 1}, {"text": "2"}, 5, {"text": "3"})
    source = open_source(str(path), ReadingOptions(on_bad_record="skip"))
    assert [d.text for _, d in source.read(START)] == ["1", "2", "3"]
    assert [record.line for record in source.rejects] == [2, 4]
    assert json.loads(source.rejects[0].raw) == {"no": 1}
    assert source.rejects[0].file == str(path)


def test_a_limit_does_not_count_rejects_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"no": 1}, {"text": "1"}, {"text": "2"}, {"text": "3"})
    source = open_source(str(path), ReadingOptions(on_bad_record="skip", max_documents=2))
    ranges = source.ranges(1)
    assert [d.text for cut in ranges for _, d in source.read(*cut[:2])] == ["1", "2"]
    assert len(source.rejects) == 1


def test_errors_come_back_from_worker_processes(tmp_path: Path) -> None:
    with pytest.raises(BadRecord) as caught:
        read(write(tmp_path / "a.jsonl", 5))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.record) == (str(caught.value), caught.value.record)


def test_a_byte_order_mark_opens_the_first_record(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}')
    assert [document.text for document in read(tmp_path)] == ["a", "b"]


def test_a_broken_line_names_the_remedy_and_a_skipped_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": \n{"text": "a"}\n')
    with pytest.raises(BadRecord, match="leave such records out with --on-bad-record skip"):
        read(path)
    source = open_source(str(path), ReadingOptions(on_bad_record="skip"))
    assert [document.text for _, document in source.read(START)] == ["a"]
    assert source.rejects[0].reason == "broken JSON, expecting value at character 11"
