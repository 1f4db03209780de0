"""The same bytes whatever runs the shards: any Beam runner, any number and kind of workers."""

import hashlib

import pytest

from jax_lm.cli.main import main
from jax_lm.documents.base import Cursor, DocumentRange
from jax_lm.preprocessing.beam import beam_flags
from jax_lm.preprocessing.manifest import feature_files
from jax_lm.preprocessing.shards import Shard, plan_runs
from tests.conftest import TinyFeatures

WAYS = {
    "threads": ("--num-workers", "4"),
    "bundles": ("--runner", "BundleBasedDirectRunner"),
    "old name": ("--runner", "FnApiRunner"),
    "flags passed on": ("--num-workers", "1", "--beam-options=--direct_num_workers=2"),
}
SLOW_WAYS = {
    "two processes": ("--num-workers", "2", "--workers", "processes"),
    "four processes": ("--num-workers", "4", "--workers", "processes"),
}


def digest(prefix: str) -> str:
    digest = hashlib.sha256()
    for path in feature_files(prefix):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def make(tiny_features: TinyFeatures, tmp_path_factory: pytest.TempPathFactory):
    """Preprocess the tiny corpus in small shards, with more flags; returns the files' digest."""

    def run(*flags: str) -> str:
        prefix = str(tmp_path_factory.mktemp("way") / "set")
        corpus, tokenizer = str(tiny_features.held_out_text), str(tiny_features.tokenizer)
        base = ["preprocess", corpus, "--tokenizer", tokenizer, "--output", prefix]
        shape = ["--max-sequence-length", "16", "--lines", "--shard-size", "500"]
        assert main([*base, *shape, *flags]) == 0
        assert len(feature_files(prefix)) > 4
        return digest(prefix)

    return run


@pytest.fixture(scope="module")
def plain(make) -> str:
    return make("--num-workers", "1")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_the_bytes_are_those_of_one_worker(make, plain: str, way: tuple[str, ...]) -> None:
    assert make(*way) == plain


@pytest.mark.slow
@pytest.mark.parametrize("way", SLOW_WAYS.values(), ids=SLOW_WAYS.keys())
def test_processes_give_the_bytes_of_one_worker(make, plain: str, way: tuple[str, ...]) -> None:
    assert make(*way) == plain


def test_local_workers_are_threads_unless_processes_are_asked_for() -> None:
    assert beam_flags("DirectRunner", 1, "threads", "") == ["--runner=DirectRunner"]
    assert "--direct_running_mode=multi_threading" in beam_flags("DirectRunner", 2, "threads", "")
    flags = beam_flags("DirectRunner", 3, "processes", "--a=b")
    assert "--direct_running_mode=multi_processing" in flags
    assert flags[-1] == "--a=b"
    assert beam_flags("FlinkRunner", 8, "threads", "") == ["--runner=FlinkRunner"]


def test_shards_that_follow_each_other_are_one_run() -> None:
    def shard(index: int, follows: bool) -> Shard:
        return Shard(index, DocumentRange(Cursor(0, index), Cursor(0, index + 1), follows))

    shards = [shard(i, follows) for i, follows in enumerate((False, True, True, False, False))]
    assert [[s.index for s in run] for run in plan_runs(shards)] == [[0, 1, 2], [3], [4]]
    assert [[s.index for s in run] for run in plan_runs(shards[1:])] == [[1, 2], [3], [4]]
