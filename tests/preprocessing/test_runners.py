"""The same bytes whatever runs the shards: any Beam runner, any number and kind of workers."""

import gzip
import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jax_lm.cli.main import main
from jax_lm.documents.base import Cursor, DocumentRange
from jax_lm.preprocessing.beam import beam_flags, local_threads
from jax_lm.preprocessing.manifest import feature_files
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.shards import Shard, plan_runs
from tests.conftest import TinyFeatures

WAYS = {
    "bundles": ("--runner", "BundleBasedDirectRunner"),
    "old name": ("--runner", "FnApiRunner"),
    "flags passed on": ("--num-workers", "1", "--beam-options=--direct_num_workers=2"),
}


def digest(prefix: str) -> str:
    digest = hashlib.sha256()
    for path in feature_files(prefix):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, ...]]:
    """Sources that keep something from one shard to the next, and the flags they are read with."""
    folder = tmp_path_factory.mktemp("corpora")
    texts = [f"{i} blåbær " + "fisk og katt " * (i % 9) for i in range(150)]
    lines = [json.dumps({"text": text}) + "\n" for text in [*texts, *texts[::5]]]
    (folder / "plain.jsonl").write_text("".join(lines))
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress("".join(lines[::-1]).encode()))
    pq.write_table(pa.table({"text": texts}), folder / "table.parquet")
    paths = {path.name.split(".")[0]: str(path) for path in folder.iterdir()}
    cleaned = ("--remove-urls", "--min-characters", "20", "--deduplicate", "exact")
    return {
        "plain": (paths["plain"],),
        "compressed": (paths["packed"], *cleaned),
        "one row group": (paths["table"], "--mode", "rolling"),
        "a mixture": (paths["plain"], paths["packed"], "--weights", "0.5", "0.5"),
    }


@pytest.fixture(scope="module")
def make(tiny_features: TinyFeatures, tmp_path_factory: pytest.TempPathFactory):
    """Preprocess a corpus in small shards, with more flags; returns the files' digest."""

    def run(corpus: tuple[str, ...], *flags: str) -> str:
        prefix = str(tmp_path_factory.mktemp("way") / "set")
        command = ["preprocess", *corpus, "--tokenizer", str(tiny_features.tokenizer)]
        shape = ["--max-sequence-length", "16", "--shard-size", "1500", "--output", prefix]
        assert main([*command, *shape, *flags]) == 0
        assert len(feature_files(prefix)) > 4
        return digest(prefix)

    return run


@pytest.fixture(scope="module")
def plain(make, corpora) -> dict[str, str]:
    return {name: make(corpus, "--num-workers", "1") for name, corpus in corpora.items()}


KINDS = ("plain", "compressed", "one row group", "a mixture")


@pytest.mark.parametrize("kind", KINDS)
def test_threads_give_the_bytes_of_one_worker(make, corpora, plain, kind: str) -> None:
    assert make(corpora[kind], "--num-workers", "4") == plain[kind]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_other_runners_give_the_bytes_of_one_worker(make, corpora, plain, way) -> None:
    assert make(corpora["compressed"], *way) == plain["compressed"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", ["2", "4"])
def test_processes_give_the_bytes_of_one_worker(make, corpora, plain, kind, count) -> None:
    processes = ("--num-workers", count, "--workers", "processes")
    assert make(corpora[kind], *processes) == plain[kind]


def test_local_workers_are_threads_unless_processes_are_asked_for() -> None:
    def spread(**given: object) -> tuple[int, list[str]]:
        options = PreprocessOptions(**given)
        return local_threads(options), beam_flags(options)

    assert spread(num_workers=1) == (1, ["--runner=DirectRunner"])
    assert spread(num_workers=2) == (2, ["--runner=DirectRunner"])
    threads, flags = spread(num_workers=3, workers="processes", beam_options="--a=b")
    assert threads == 1
    assert "--direct_running_mode=multi_processing" in flags
    assert flags[-1] == "--a=b"
    assert spread(num_workers=8, runner="FlinkRunner") == (1, ["--runner=FlinkRunner"])
    assert spread(num_workers=8, beam_options="--direct_num_workers=2")[0] == 1


def test_shards_that_follow_each_other_are_one_run() -> None:
    def shard(index: int, follows: bool) -> Shard:
        return Shard(index, DocumentRange(Cursor(0, index), Cursor(0, index + 1), follows))

    shards = [shard(i, follows) for i, follows in enumerate((False, True, True, False, False))]
    assert [[s.index for s in run] for run in plan_runs(shards)] == [[0, 1, 2], [3], [4]]
    assert [[s.index for s in run] for run in plan_runs(shards[1:])] == [[1, 2], [3], [4]]
