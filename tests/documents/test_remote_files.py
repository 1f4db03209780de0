import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jax_lm.cli.main import main
from jax_lm.documents.base import Cursor
from jax_lm.documents.files import locations
from jax_lm.documents.files.locations import open_filesystem, without_secrets
from jax_lm.documents.open import open_source
from jax_lm.errors import JaxLMError

START = Cursor(0, 0)


def texts(spec: str) -> list[str]:
    return [document.text for _, document in open_source(spec).read(START)]


def ids(spec: str) -> list[str]:
    return [document.id for _, document in open_source(spec).read(START)]


def lines(*values: str) -> bytes:
    return b"".join(json.dumps({"text": value}).encode() + b"\n" for value in values)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[str]:
    """A folder of its own in memory, with files of several kinds."""
    filesystem = fsspec.filesystem("memory")
    root = f"/remote{tmp_path}"
    table = pa.table({"text": ["p", "q"]})
    with filesystem.open(f"{root}/d/t.parquet", "wb") as file:
        pq.write_table(table, file)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    filesystem.pipe(f"{root}/d/u.arrow", stream.getvalue().to_pybytes())
    filesystem.pipe(f"{root}/b.jsonl", lines("one", "two"))
    filesystem.pipe(f"{root}/a.jsonl.gz", gzip.compress(lines("zero")))
    filesystem.pipe(f"{root}/.hidden.jsonl", lines("no"))
    filesystem.pipe(f"{root}/notes.xls", b"x")
    yield f"memory:/{root}"
    filesystem.rm(root, recursive=True)


def test_directories_globs_and_single_files(memory: str) -> None:
    assert texts(memory) == ["zero", "one", "two", "p", "q", "p", "q"]
    assert ids(memory)[:2] == ["a.jsonl.gz@0", "b.jsonl@0"]
    assert ids(f"{memory}/*.jsonl*") == ["a.jsonl.gz@0", "b.jsonl@0", "b.jsonl@16"]
    assert ids(f"{memory}/*/*.parquet") == ["d/t.parquet@0", "d/t.parquet@1"]
    assert texts(f"{memory}/b.jsonl?text=text") == ["one", "two"]
    assert texts(f"{memory}/d") == ["p", "q", "p", "q"]
    source = open_source(memory)
    assert [name.rsplit("/", 1)[-1] for name in source.passed_over] == ["notes.xls"]


def test_what_preprocess_writes_beside_a_remote_corpus_is_passed_over(memory: str) -> None:
    filesystem = fsspec.filesystem("memory")
    place = memory.removeprefix("memory:/")
    before, others = open_source(memory), ("_f.manifest.json", "f-00000-of-00001.parquet")
    for name in ("_f.tokenizer/tokenizer.json", "_f.partial/a.jsonl", *others):
        filesystem.pipe(f"{place}/{name}", lines("ours"))
    source = open_source(memory)
    assert source.fingerprint() == before.fingerprint()
    assert len(source.passed_over) == 5
    with pytest.raises(JaxLMError, match="no file matches"):
        ids(f"{memory}/*/*.jsonl")
    assert texts(f"{memory}/_f*/*.jsonl") == texts(f"{memory}/_f.partial") == ["ours"]


def test_the_fingerprint_follows_the_remote_content(memory: str) -> None:
    before = open_source(memory).fingerprint()
    assert open_source(memory).fingerprint() == before
    fsspec.filesystem("memory").pipe(f"{memory.removeprefix('memory:/')}/b.jsonl", lines("new"))
    assert open_source(memory).fingerprint() != before


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}/nope.jsonl", "nope.jsonl: no such file or directory"),
        ("{}/*.csv", "*.csv: no file matches"),
        ("{}/notes.xls", "notes.xls: a .xls file cannot be read"),
    ],
)
def test_what_is_not_there(memory: str, spec: str, message: str, capsys) -> None:
    assert main(["documents", "info", spec.format(memory)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_bad_line_is_named_by_its_url(memory: str) -> None:
    path = memory.removeprefix("memory:/")
    fsspec.filesystem("memory").pipe(f"{path}/x.jsonl.gz", gzip.compress(lines("a") + b"{"))
    with pytest.raises(JaxLMError, match=r"memory:/.*/x\.jsonl\.gz:2: broken JSON"):
        texts(f"{memory}/x.jsonl.gz")


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(url: str, **options: str) -> None:
        raise ImportError("Please install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", no_driver)
    with pytest.raises(JaxLMError, match=r"s3:// files needs s3fs: pip install 'jax-lm\[remote\]'"):
        open_source("s3://bucket/a.jsonl")


def test_google_credentials_of_jax_seq_reach_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def spy(url: str, **options: Any) -> tuple[None, str]:
        seen.append((url, options))
        return None, ""

    monkeypatch.setattr("fsspec.core.url_to_fs", spy)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")  # else it is seen whether it answers
    monkeypatch.setenv("GCLOUD_PROJECT", "mine")
    monkeypatch.setenv("GCLOUD_TOKEN_PATH", "/home/me/token.json")
    open_filesystem("gcs://bucket/a.jsonl")
    open_filesystem("s3://bucket/a.jsonl")
    monkeypatch.delenv("GCLOUD_TOKEN_PATH")
    open_filesystem("gs://bucket/a.jsonl")
    assert seen == [
        ("gcs://bucket/a.jsonl", {"project": "mine", "token": "/home/me/token.json"}),
        ("s3://bucket/a.jsonl", {}),
        ("gs://bucket/a.jsonl", {"project": "mine"}),
    ]


def test_secrets_are_taken_out_of_sentences() -> None:
    said = "GET https://u:pw@host/a.jsonl?token=abc&x=1 and 's3://key:secret@bucket/b' failed"
    shown = "GET https://host/a.jsonl and 's3://bucket/b' failed"
    assert without_secrets(said) == shown


class WebHandler(http.server.BaseHTTPRequestHandler):
    """Serves one file to whoever knows the token; in ranges only under /ranges/."""

    content = lines(*(f"line {i}" for i in range(1000)))

    def do_HEAD(self) -> None:
        self._answer(send=False)

    def do_GET(self) -> None:
        self._answer(send=True)

    def _answer(self, send: bool) -> None:
        if "token=secret" not in self.path:
            self.send_error(403)
            return
        data, status = self.content, 200
        wanted = self.headers.get("Range")
        if wanted and "/ranges/" in self.path:
            first, last = wanted.removeprefix("bytes=").split("-")
            data, status = data[int(first) : int(last or len(data)) + 1], 206
        self.send_response(status)
        if "/ranges/" in self.path:
            self.send_header("Accept-Ranges", "bytes")
            if status == 206:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.content)}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if send:
            self.wfile.write(data)

    def log_message(self, *message: object) -> None:
        """Says nothing."""


@pytest.fixture
def web() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), WebHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("place", ["ranges", "whole"])
def test_web_addresses(web: str, place: str) -> None:
    pytest.importorskip("aiohttp")
    source = open_source(f"{web}/{place}/a.jsonl?token=secret&text=text")
    assert "secret" not in source.name + repr(source)
    whole = list(source.read(START))
    assert [d.text for _, d in whole] == [f"line {i}" for i in range(1000)]
    ranges = source.ranges(5000)
    assert [cut.follows for cut in ranges[1:]] == [place == "whole"] * (len(ranges) - 1)
    joined = [pair for cut in ranges for pair in source.read(cut.start, cut.stop)]
    assert joined == whole


def test_the_same_file_without_ranges_is_another_source(
    web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    address = f"{web}/ranges/a.jsonl?token=secret"
    seekable = open_source(address)
    monkeypatch.setattr("jax_lm.documents.files.remote._serves_ranges", lambda *file: False)
    sequential = open_source(address)
    assert seekable.ranges(5000) != sequential.ranges(5000)
    assert seekable.fingerprint() != sequential.fingerprint()


def test_a_web_address_that_refuses_is_one_sentence_without_secrets(web: str, capsys) -> None:
    pytest.importorskip("aiohttp")
    assert main(["documents", "info", f"{web}/a.jsonl?token=wrong-pw"]) == 1
    error = capsys.readouterr().err
    assert f"jax-lm: {web}/a.jsonl: cannot be read: " in error
    assert "wrong-pw" not in error
    assert error.count("\n") == 1


def test_a_connection_that_breaks_is_one_sentence(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(f"{memory}/b.jsonl")

    class Breaking:
        def seek(self, *where: int) -> int:
            return 0

        def read(self, size: int) -> bytes:
            raise TimeoutError("timed out talking to memory://me:pw@host/x?key=1")

        def close(self) -> None:
            """Has nothing to close."""

    filesystem, _ = locations.open_filesystem(memory)
    monkeypatch.setattr(type(filesystem), "open", lambda *given, **settings: Breaking())
    with pytest.raises(JaxLMError) as caught:
        list(source.read(START))
    assert "b.jsonl: cannot be read: TimeoutError: timed out talking to memory://host/x" in str(
        caught.value
    )
