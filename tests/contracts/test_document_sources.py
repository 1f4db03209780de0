"""What every source of documents keeps to; a new source is a new row of SOURCES."""

import csv
import gzip
import json
import lzma
import os
import pickle
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from jax_lm.documents.base import Cursor, DocumentSource, iterate_texts
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.types import Document
from tests.contracts.source_work import counted_work

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


def compressed(folder: Path) -> DocumentSource:
    """Three compressions, several members in one file, whole documents and lines of JSON."""
    lines = [json.dumps({"text": text}).encode() + b"\n" for text in TEXTS]
    members = [b"".join(lines[:10]), b"".join(lines[10:20])]
    (folder / "a.jsonl.gz").write_bytes(b"".join(map(gzip.compress, members)))
    (folder / "b.jsonl.xz").write_bytes(lzma.compress(b"".join(lines[20:30])))
    (folder / "c.jsonl.zst").write_bytes(zstandard.compress(b"".join(lines[30:-1])))
    (folder / "d.txt.gz").write_bytes(gzip.compress(TEXTS[-1].encode()))
    return open_source(str(folder))


def csv_file(folder: Path) -> DocumentSource:
    for name, rows in (("a.csv", TEXTS[:30]), ("b.csv", TEXTS[30:])):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["number", "text"])
            writer.writerows(enumerate(rows))
    return open_source(str(folder))


def compressed_csv(folder: Path) -> DocumentSource:
    csv_file(folder)
    for path in list(folder.glob("*.csv")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return open_source(str(folder))


def json_files(folder: Path) -> DocumentSource:
    """A list, a list in an object, records one after another, and one record alone."""
    records = [{"text": text, "n": [{"deep": 1}]} for text in TEXTS]
    (folder / "a.json").write_text(json.dumps(records[:15], indent=2))
    boxed = {"about": {"a": [1]}, "data": records[15:30], "end": ["x", []]}
    (folder / "b.json").write_text(json.dumps(boxed, ensure_ascii=False))
    (folder / "c.json").write_text("\n".join(map(json.dumps, records[30:-1])))
    (folder / "d.json").write_text(json.dumps(records[-1]))
    return open_source(str(folder))


def compressed_json(folder: Path) -> DocumentSource:
    records = json.dumps({"train": [{"text": text} for text in TEXTS], "eval": [{"text": "no"}]})
    (folder / "a.json.zst").write_bytes(zstandard.compress(records.encode()))
    return open_source(f"{folder}?records=train")


def parquet_files(folder: Path) -> DocumentSource:
    """Small groups of rows in one file, one large group in the other."""
    for name, texts, rows in (("a.parquet", TEXTS[:20], 3), ("b.parquet", TEXTS[20:], 1000)):
        table = pa.table({"k": range(len(texts)), "text": texts})
        pq.write_table(table, folder / name, row_group_size=rows)
    return open_source(str(folder))


def one_group(folder: Path) -> DocumentSource:
    """A table whose rows are all stored together."""
    pq.write_table(pa.table({"text": TEXTS}), folder / "a.parquet", row_group_size=1000)
    return open_source(str(folder))


def arrow_files(folder: Path) -> DocumentSource:
    """A stream, as ``datasets`` writes it, and a file."""
    table = pa.table({"text": TEXTS})
    with pa.ipc.new_stream(str(folder / "a.arrow"), table.schema) as writer:
        writer.write_table(table.slice(0, 30), max_chunksize=7)
    with pa.ipc.new_file(str(folder / "b.arrow"), table.schema) as writer:
        writer.write_table(table.slice(30), max_chunksize=7)
    return open_source(str(folder))


def memory_files(folder: Path) -> DocumentSource:
    """Remote files, found by a directory's URL, plain and compressed."""
    import fsspec

    filesystem = fsspec.filesystem("memory")
    place = f"/contract{folder}"
    if filesystem.exists(place):
        filesystem.rm(place, recursive=True)
    lines = [json.dumps({"text": text}).encode() + b"\n" for text in TEXTS]
    filesystem.pipe(f"{place}/a.jsonl", b"".join(lines[:20]))
    filesystem.pipe(f"{place}/b/c.jsonl.gz", gzip.compress(b"".join(lines[20:])))
    return open_source(f"memory:/{place}")


def saved_dataset(folder: Path) -> DocumentSource:
    import datasets

    datasets.Dataset.from_dict({"text": TEXTS}).save_to_disk(str(folder / "saved"))
    return open_source(f"hf-dataset:{folder}/saved")


def streamed_dataset(folder: Path) -> DocumentSource:
    (folder / "ds").mkdir()
    pq.write_table(pa.table({"text": TEXTS}), folder / "ds/train-0.parquet")
    return open_source(f"hf-dataset:{folder}/ds?streaming=true")


def chained(folder: Path) -> DocumentSource:
    """Two kinds after each other, the files on both sides of the other kind."""
    import datasets

    (folder / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS[:9]))
    datasets.Dataset.from_dict({"text": TEXTS[9:30]}).save_to_disk(str(folder / "saved"))
    pq.write_table(pa.table({"text": TEXTS[30:]}), folder / "z.parquet")
    specs = [f"{folder}/a.jsonl", f"hf-dataset:{folder}/saved", f"{folder}/z.parquet"]
    return open_source(specs)


def selected_documents(folder: Path) -> DocumentSource:
    """Documents of another subset before, between and after those that are kept."""
    kept = [{"text": text, "part": "kept"} for text in TEXTS]
    records = [{"text": f"other {i}", "part": "other"} for i in range(3 * len(TEXTS))]
    records[1::3] = kept
    (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return open_source(f"{folder}/a.jsonl?subset=part", ReadingOptions(subsets="kept"))


def mixture(folder: Path) -> DocumentSource:
    """Two files into which the texts are dealt in the order in which the mixture draws them."""
    options = ReadingOptions(weights=(0.7, 0.3), mixture_stops="all-exhausted")
    specs = [f"{folder}/{name}.jsonl" for name in "ab"]
    for name, count in (("a", 32), ("b", len(TEXTS) - 32)):
        lines = [json.dumps({"text": name}) + "\n"] * count
        (folder / f"{name}.jsonl").write_text("".join(lines))
    order = [document.text for document in documents(open_source(specs, options))]
    for name in "ab":
        dealt = [text for text, drawn in zip(TEXTS, order, strict=True) if drawn == name]
        lines = [json.dumps({"text": text}) + "\n" for text in dealt]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return open_source(specs, options)


SOURCES = [
    text_files,
    jsonl_file,
    mixed_kinds,
    compressed,
    csv_file,
    compressed_csv,
    json_files,
    compressed_json,
    parquet_files,
    one_group,
    arrow_files,
    memory_files,
    saved_dataset,
    streamed_dataset,
    chained,
    selected_documents,
    mixture,
    limited,
    limited_beyond_the_end,
]
ANYWHERE = {text_files, jsonl_file, mixed_kinds, csv_file, json_files, saved_dataset}
ANYWHERE |= {selected_documents, mixture, limited, limited_beyond_the_end}
"""Sources whose every range can be reached without reading the one before."""


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
    joined = [pair for cut in ranges for pair in source.read(cut.start, cut.stop)]
    assert joined == list(source.read(START))
    assert all(cut.start < cut.stop for cut in ranges)
    assert [cut.stop for cut in ranges[:-1]] == [cut.start for cut in ranges[1:]]
    assert source.ranges(target_bytes) == ranges


def test_ranges_are_about_as_large_as_asked(source: DocumentSource) -> None:
    sizes = []
    for start, stop, _ in source.ranges(1000):
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


def test_the_fingerprint_changes_with_the_content(
    request: pytest.FixtureRequest, source: DocumentSource, tmp_path: Path
) -> None:
    before = source.fingerprint()
    assert source.fingerprint() == before
    if request.node.callspec.params["source"] is memory_files:
        return  # test_remote_files.py changes those
    path = sorted(path for path in tmp_path.rglob("*") if path.is_file())[0]
    status = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    assert source.fingerprint() != before


def test_a_run_of_ranges_that_follow_is_told(
    request: pytest.FixtureRequest, source: DocumentSource
) -> None:
    ranges = source.ranges(500)
    assert not ranges[0].follows
    follows = any(cut.follows for cut in ranges)
    assert follows == (request.node.callspec.params["source"] not in ANYWHERE)


@pytest.mark.parametrize("target_bytes", [1, 500])
def test_ranges_read_in_order_by_one_reader_cost_one_reading(
    source: DocumentSource, target_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = source.ranges(target_bytes)
    work = counted_work(monkeypatch)
    whole = list(source.read(START))
    once = dict(work)
    for _ in range(2):
        work.clear()
        assert [pair for cut in ranges for pair in source.read(*cut[:2])] == whole
        assert {kind: count for kind, count in work.items() if count > 2 * once[kind]} == {}
    assert sum(once.values()) >= len(TEXTS) or source.name.startswith("memory:")


def test_equal_fingerprints_mean_equal_ranges(tmp_path: Path) -> None:
    for name in (saved_dataset, streamed_dataset, jsonl_file):
        (tmp_path / name.__name__).mkdir()
        name(tmp_path / name.__name__)
    saved = f"hf-dataset:{tmp_path}/saved_dataset/saved"
    named = f"hf-dataset:{tmp_path}/streamed_dataset/ds"
    lines = f"{tmp_path}/jsonl_file"
    specs = [f"{saved}?streaming=true", f"{named}?split=train", f"{named}?streaming=true"]
    specs += [saved, named, lines, f"{lines}/*.jsonl", f"{lines}?text=text"]
    sources = [open_source(spec) for spec in specs]
    pairs = [
        (one, other)
        for one, other in combinations(sources, 2)
        if one.fingerprint() == other.fingerprint()
    ]
    assert len(pairs) >= 2
    for one, other in pairs:
        for target_bytes in (1, 700, 10**6):
            assert one.ranges(target_bytes) == other.ranges(target_bytes)
        assert documents(one) == documents(other)


def test_the_name_is_what_the_user_wrote(source: DocumentSource, tmp_path: Path) -> None:
    assert str(tmp_path) in source.name
    assert source.rejects == []
