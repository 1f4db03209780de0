"""What every source of documents keeps to; a new source is a new row of SOURCES."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from jax_lm.documents.base import Cursor, DocumentSource, iterate_texts
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.types import Document

START = Cursor(0, 0)
TEXTS = [
    "plain\n",
    "",
    "CRLF\r\nstays\rso",
    "blåbærsyltetøy e\u0301 안녕 👩‍👩‍👧",
    "\u2028 line\x85separators\x0b\x0c",
    "z" * 3000,
    *(f"document {i}\n" * i for i in range(1, 40)),
]


def text_files(folder: Path) -> DocumentSource:
    for index, text in enumerate(TEXTS):
        path = folder / f"{index // 10}" / f"{index:03}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    return open_source(str(folder))


def jsonl_file(folder: Path) -> DocumentSource:
    lines = [
        json.dumps({"text": text}, ensure_ascii=index % 2 == 0) for index, text in enumerate(TEXTS)
    ]
    (folder / "a.jsonl").write_bytes("\n".join(lines[:20]).encode())
    (folder / "b.jsonl").write_bytes(b"\n \r\n" + "\r\n\n".join(lines[20:]).encode() + b"\n\n")
    return open_source([str(folder / "a.jsonl"), str(folder / "b.jsonl")])


def mixed_kinds(folder: Path) -> DocumentSource:
    (folder / "1.txt").write_bytes(TEXTS[0].encode())
    (folder / "2.txt").write_bytes(b"")
    (folder / "3.jsonl").write_bytes(
        "".join(json.dumps([[t, 1]]) + "\n" for t in TEXTS[2:]).encode()
    )
    (folder / "empty.jsonl").write_bytes(b"")
    return open_source(str(folder))


def limited(folder: Path) -> DocumentSource:
    lines = [json.dumps({"text": text}) for text in [*TEXTS, "beyond", "the limit"]]
    (folder / "a.jsonl").write_text("\n".join(lines))
    return open_source(str(folder), ReadingOptions(max_documents=len(TEXTS)))


def limited_beyond_the_end(folder: Path) -> DocumentSource:
    text_files(folder)
    return open_source(str(folder), ReadingOptions(max_documents=1000))


SOURCES = [text_files, jsonl_file, mixed_kinds, limited, limited_beyond_the_end]


@pytest.fixture(params=SOURCES, ids=lambda build: build.__name__)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> DocumentSource:
    build: Callable[[Path], DocumentSource] = request.param
    return build(tmp_path)


def documents(source: DocumentSource) -> list[Document]:
    return [document for _, document in source.read(START)]


def test_texts_come_back_exactly_and_in_order(source: DocumentSource) -> None:
    assert [document.text for document in documents(source)] == TEXTS
    assert "".join(iterate_texts(source)) == "".join(TEXTS)


def test_ids_are_unique_and_cursors_ascend(source: DocumentSource) -> None:
    read = list(source.read(START))
    cursors = [cursor for cursor, _ in read]
    assert len({document.id for _, document in read}) == len(TEXTS)
    assert cursors == sorted(set(cursors))


@pytest.mark.parametrize("target_bytes", [1, 7, 100, 1000, 10**9])
def test_ranges_concatenated_are_the_whole(source: DocumentSource, target_bytes: int) -> None:
    ranges = source.ranges(target_bytes)
    joined = [pair for start, stop in ranges for pair in source.read(start, stop)]
    assert joined == list(source.read(START))
    assert all(cut.start < cut.stop for cut in ranges)
    assert [cut.stop for cut in ranges[:-1]] == [cut.start for cut in ranges[1:]]
    assert source.ranges(target_bytes) == ranges


def test_ranges_are_about_as_large_as_asked(source: DocumentSource) -> None:
    sizes = []
    for start, stop in source.ranges(1000):
        sizes.append(sum(len(document.text.encode()) for _, document in source.read(start, stop)))
    assert len(sizes) >= 5
    assert max(sizes) <= 1000 + 3000


def test_any_cursor_restarts_with_the_rest(source: DocumentSource) -> None:
    whole = list(source.read(START))
    for index, (cursor, _) in enumerate(whole):
        assert list(source.read(cursor)) == whole[index + 1 :]


def test_a_source_travels_to_a_worker(source: DocumentSource) -> None:
    copy = pickle.loads(pickle.dumps(source))
    assert documents(copy) == documents(source)
    assert copy.fingerprint() == source.fingerprint()
    assert copy.ranges(500) == source.ranges(500)


def test_the_fingerprint_changes_with_the_content(source: DocumentSource, tmp_path: Path) -> None:
    before = source.fingerprint()
    assert source.fingerprint() == before
    path = sorted(path for path in tmp_path.rglob("*") if path.is_file())[0]
    status = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert source.fingerprint() != before


def test_the_name_is_what_the_user_wrote(source: DocumentSource, tmp_path: Path) -> None:
    assert source.name.startswith(str(tmp_path))
    assert source.rejects == []
