"""``gs://`` against a server that speaks Google Cloud Storage's protocol."""

import gzip
import json
import os
import pickle
from collections.abc import Iterator

import pytest

from jax_lm.cli.main import main
from jax_lm.documents.base import Cursor
from jax_lm.documents.open import open_source

# Read when gcsfs is imported; without it, writing to the fake server hangs.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
START = Cursor(0, 0)
BUCKET = "corpora"


@pytest.fixture
def bucket(google_storage: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", google_storage)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    gcsfs = pytest.importorskip("gcsfs")
    monkeypatch.setenv("GCLOUD_PROJECT", "test")
    filesystem = gcsfs.GCSFileSystem(project="test", token="anon", skip_instance_cache=True)
    if not filesystem.exists(BUCKET):
        filesystem.mkdir(BUCKET)
    records = [json.dumps({"text": f"text {i}"}).encode() + b"\n" for i in range(3000)]
    filesystem.pipe(f"{BUCKET}/news/a.jsonl", b"".join(records[:1500]))
    filesystem.pipe(f"{BUCKET}/news/b.jsonl.gz", gzip.compress(b"".join(records[1500:])))
    yield f"gs://{BUCKET}"
    gcsfs.GCSFileSystem.clear_instance_cache()


def test_a_directory_of_plain_and_compressed_files(bucket: str) -> None:
    source = open_source(f"{bucket}/news")
    whole = list(source.read(START))
    assert [document.text for _, document in whole] == [f"text {i}" for i in range(3000)]
    ranges = pickle.loads(pickle.dumps(source)).ranges(10_000)
    assert [pair for cut in ranges for pair in source.read(cut.start, cut.stop)] == whole
    assert len(ranges) > 5
    assert list(source.read(whole[700][0], whole[705][0])) == whole[701:706]


def test_the_alias_and_a_glob(bucket: str) -> None:
    alias = bucket.replace("gs://", "gcs://")
    found = [document.id for _, document in open_source(f"{alias}/*/*.gz").read(START)]
    assert found[0] == "news/b.jsonl.gz@0"
    assert len(found) == 1500


def test_the_fingerprint_follows_the_generation(bucket: str) -> None:
    import gcsfs

    before = open_source(f"{bucket}/news").fingerprint()
    assert open_source(f"{bucket}/news").fingerprint() == before
    filesystem = gcsfs.GCSFileSystem(project="test", token="anon", skip_instance_cache=True)
    content = filesystem.cat(f"{BUCKET}/news/a.jsonl")
    filesystem.pipe(f"{BUCKET}/news/a.jsonl", content.replace(b"text 0", b"text O"))
    assert open_source(f"{bucket}/news").fingerprint() != before


def test_what_is_not_there_is_one_sentence(bucket: str, capsys) -> None:
    for place in (f"{bucket}/nope.jsonl", "gs://no-such-bucket/a.jsonl"):
        assert main(["documents", "info", place]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"jax-lm: {place}: no such file or directory")
        assert error.count("\n") == 1
