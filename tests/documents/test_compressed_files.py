import gzip
import json
import lzma
import pickle
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from jax_lm.cli.main import main
from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions

START = Cursor(0, 0)
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def texts(spec: object, **settings) -> list[str]:
    source = open_source(str(spec), ReadingOptions(**settings))
    return [document.text for _, document in source.read(START)]


def random_lines(count: int) -> bytes:
    letters = random.Random(0)
    return b"".join(b"%032x\n" % letters.getrandbits(128) for _ in range(count))


@pytest.fixture(params=PACK)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def test_members_one_after_another_padded_or_not(tmp_path: Path, kind: str) -> None:
    data = [PACK[kind](f"line {i}\n".encode()) for i in range(3)]
    (tmp_path / f"a.txt.{kind}").write_bytes(b"".join(data) + b"\0" * 512)
    assert texts(tmp_path, lines=True) == ["line 0", "line 1", "line 2"]
    assert texts(tmp_path) == ["line 0\nline 1\nline 2\n"]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
def test_a_file_cut_short_is_named(tmp_path: Path, kind: str, share: float, capsys) -> None:
    path = tmp_path / f"a.txt.{kind}"
    whole = PACK[kind](random_lines(20_000))
    path.write_bytes(whole[: int(share * len(whole))])
    assert main(["documents", "info", "--lines", "--on-bad-record", "skip", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"jax-lm: {path}: the compressed file ends early, after ")
    assert error.count("\n") == 1


def test_a_corrupt_file_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.txt.{kind}"
    data = bytearray(PACK[kind](random_lines(20_000)))
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(Exception, match=rf"a\.txt\.{kind}: the compressed file is corrupt"):
        texts(path, lines=True)
    path.write_text("never compressed\n")
    with pytest.raises(Exception, match=f"is corrupt after 0 bytes of content, or no .{kind} file"):
        texts(path)


def test_line_numbers_count_unpacked_lines(tmp_path: Path, kind: str) -> None:
    lines = [json.dumps({"text": str(i)}) for i in range(10)]
    lines[3], lines[6] = "", "{"
    path = tmp_path / f"a.jsonl.{kind}"
    path.write_bytes(PACK[kind]("\n".join(lines).encode()))
    with pytest.raises(BadRecord, match=rf"a\.jsonl\.{kind}:7: broken JSON"):
        texts(path)
    assert texts(path, on_bad_record="skip") == [str(i) for i in range(10) if i not in (3, 6)]


def test_many_bad_lines_are_numbered_in_one_more_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n{}\n' * 20_000))
    source = open_source(str(path), ReadingOptions(on_bad_record="skip"))
    assert sum(1 for _ in source.read(START)) == 20_000
    assert [record.line for record in source.rejects] == [*range(2, 40_001, 2)]


def test_text_that_is_not_utf8_names_the_unpacked_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\nbl\xe5\n"))
    with pytest.raises(BadRecord, match=r":2: byte 0xe5 at offset 6 .* utf-8 a\.txt > utf8-a\.txt"):
        texts(tmp_path)


def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    letters = random.Random(0)
    with zstandard.open(path, "wb") as file:
        for _ in range(40_000):
            file.write(b'{"text": "%s"}\n' % letters.randbytes(500).hex().encode())
    source = open_source(str(path))
    tracemalloc.start()
    ranges = source.ranges(10_000_000)
    assert sum(1 for _ in source.read(ranges[1].start, ranges[1].stop)) > 9000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(ranges) == pytest.approx(40_000 * 1013 / 10_000_000, abs=1)
    assert peak < 20_000_000


def test_cuts_do_not_depend_on_the_compression(tmp_path: Path, kind: str) -> None:
    data = random_lines(1000)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.txt").write_bytes(data)
    (tmp_path / f"a.txt.{kind}").write_bytes(PACK[kind](data))
    lines = ReadingOptions(lines=True)
    plain = open_source(f"{tmp_path}/plain", lines).ranges(1000)
    packed = open_source(f"{tmp_path}/a.txt.{kind}", lines).ranges(1000)
    assert [cut[:2] for cut in packed] == [cut[:2] for cut in plain]
    assert len(packed) > 30


def test_a_real_compressed_corpus(shared_data: Path) -> None:
    folder = shared_data / "corpora/commoncrawl"
    assert len(texts(folder)) == 20
    found = texts(folder / "cc_en_head-0174.jsonl.gz")
    lines = gzip.decompress((folder / "cc_en_head-0174.jsonl.gz").read_bytes()).splitlines()
    assert found == [json.loads(line)["text"] for line in lines]


def test_ranges_read_in_order_unpack_the_file_once(tmp_path: Path, monkeypatch) -> None:
    from jax_lm.documents.files import stored

    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps({"text": f"text {i} " * 20}) + "\n\n" for i in range(400)]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    source = open_source(str(path))
    whole = list(source.read(Cursor(0, 0)))
    ranges = source.ranges(5000)
    assert len(ranges) > 8 and all(cut.follows for cut in ranges[1:])
    skipped = []
    monkeypatch.setattr(stored, "skip", lambda stream, count: skipped.append(count) or count)
    found = [pair for cut in ranges for pair in source.read(*cut[:2])]
    assert found == whole
    assert skipped == [0]
    copy = pickle.loads(pickle.dumps(source))
    monkeypatch.undo()
    assert list(copy.read(*ranges[3][:2])) == list(source.read(*ranges[3][:2]))
