import csv
from pathlib import Path

import pytest

from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError
from jax_lm.types import Document

START = Cursor(0, 0)


def read(path: Path, options: str = "", **settings) -> list[Document]:
    return [d for _, d in open_source(f"{path}{options}", ReadingOptions(**settings)).read(START)]


def test_header_quotes_newlines_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(
        b'\xef\xbb\xbfkind, text \r\n\r\nx,"a ""quoted"", one\r\n\r\nline"\r\ny,5" disk\n\nz,last'
    )
    documents = read(path, "?subset=kind")
    assert [d.text for d in documents] == ['a "quoted", one\r\n\r\nline', '5" disk', "last"]
    assert [d.subset for d in documents] == ["x", "y", "z"]
    assert documents[0].id == "a.csv@18"


def test_a_named_field_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"body,n\n{'x' * 300_000},1\n")
    (document,) = read(path, "?text=body")
    assert len(document.text) == 300_000
    assert document.metadata == {"n": "1"}


@pytest.mark.parametrize(
    ("rows", "line", "reason"),
    [
        (b"1,a\n1,a,b\n", 3, "3 fields, expected 2 as in the header"),
        (b'1,"a\nb"\n1\n', 4, "1 fields, expected 2 as in the header"),
        (b'1,a\n1,"a" b\n', 3, "a broken row (',' expected after '\"')"),
        (b'1,a\n1,"a\nb\n', 3, "a broken row (unexpected end of data)"),
        (b"1,a\n1,bl\xe5\n", 3, "byte 0xe5 at offset"),
        (b"1,a\rb\n", 2, "a broken row (new-line character seen in unquoted field"),
    ],
)
def test_broken_rows_are_named_by_line(tmp_path: Path, rows: bytes, line: int, reason: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"n,text\n" + rows)
    with pytest.raises(BadRecord) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in str(caught.value)
    assert "--on-bad-record skip" in str(caught.value)


def test_reading_goes_on_after_a_skipped_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'n,text\n1,a\n2,"b" c\n3,\xe5\n4\n5,e\n')
    source = open_source(str(path), ReadingOptions(on_bad_record="skip"))
    assert [d.text for _, d in source.read(START)] == ["a", "e"]
    assert [(r.line, r.raw) for r in source.rejects] == [
        (3, '2,"b" c\n'),
        (4, "3,\\xe5\n"),
        (5, "4\n"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a,b,a\n", ":1: expected a header that names every column once, found 'a', 'b', 'a'"),
        (b"text,\n", "found 'text', ''"),
        (b'te"xt,"a" b\n', ":1: the header is a broken row"),
        (b"q;a\n1;2\n", "found 'q;a'"),
    ],
)
def test_a_header_that_cannot_be_used(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(JaxLMError) as caught:
        read(tmp_path / "a.csv")
    assert reason in str(caught.value)


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"")
    (tmp_path / "b.csv").write_bytes(b"text\n")
    assert read(tmp_path) == []
    assert len(open_source(str(tmp_path)).ranges(100)) == 1


def test_a_korean_corpus_of_questions_and_answers(shared_data: Path) -> None:
    path = shared_data / "corpora/korean_chatbot/ChatbotData.csv"
    documents = read(path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(documents) == len(rows)
    assert all(
        row["Q"] in document.text and row["A"] in document.text
        for row, document in zip(rows, documents, strict=True)
    )


def test_a_byte_order_mark_before_a_quoted_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes('"text","id"\r\n"blå, bær","1"\r\n'.encode("utf-8-sig"))
    source = open_source(str(path))
    assert [(d.text, d.id, d.metadata) for _, d in source.read(START)] == [
        ("blå, bær", "a.csv@16", {"id": "1"})
    ]
