from pathlib import Path

import pytest

from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions

START = Cursor(0, 0)


def read(spec: Path, **settings) -> list[tuple[str, str]]:
    return [
        (d.id, d.text) for _, d in open_source(str(spec), ReadingOptions(**settings)).read(START)
    ]


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert read(tmp_path) == [("a.txt", "one\r\ntwo\r\n")]
    assert read(tmp_path, lines=True) == [("a.txt@0", "one"), ("a.txt@8", "two")]


def test_lines_skip_only_blank_ones_and_keep_spaces(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(" a \n\n \t\r\n\u3000\nlast".encode())
    assert [text for _, text in read(tmp_path, lines=True)] == [" a ", "\u3000", "last"]


def test_bytes_that_are_not_utf8_name_line_offset_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"\xef\xbb\xbffirst\nsecond\nbl\xe5b\xe6r\n")
    for lines in (False, True):
        with pytest.raises(BadRecord) as caught:
            read(path, lines=lines)
        assert str(caught.value).startswith(f"{path}:3: byte 0xe5 at offset 18 is not UTF-8")
        assert "iconv -f latin1 -t utf-8 latin.txt" in str(caught.value)


def test_utf16_is_recognised_in_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("hello".encode("utf-16"))
    with pytest.raises(BadRecord, match="iconv -f utf-16"):
        read(tmp_path)


def test_a_skipped_file_is_kept_with_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"bl\xe5")
    (tmp_path / "b.txt").write_bytes(b"fine")
    source = open_source(str(tmp_path), ReadingOptions(on_bad_record="skip"))
    assert [document.text for _, document in source.read(START)] == ["fine"]
    assert [(record.line, record.raw) for record in source.rejects] == [(1, "bl\\xe5")]
