"""SIGKILL at random moments, a full disk and flipped bytes, for real, while features are made."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.preprocessing.manifest import feature_files, manifest_path, read_manifest
from jax_lm.tokenizers.characters import train_characters

WORDS = ["the", "cat", "sat", "on", "a", "mat", "고양이", "blåbær", "syltetøy", "again"]
KILLS = 20


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer and documents in a folder, some of them copies."""
    folder = tmp_path_factory.mktemp("corpus")
    drawn = random.Random(0)
    texts = [" ".join(drawn.choices(WORDS, k=200)) for _ in range(3_000)]
    with (folder / "corpus.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in [*texts, *texts[:300]])
    train_characters(texts, special_tokens=("<|end|>",)).save(folder / "tokenizer")
    return folder


def command(corpus: Path, prefix: Path) -> list[str]:
    source, tokenizer = str(corpus / "corpus.jsonl"), str(corpus / "tokenizer")
    made = ["preprocess", source, "--tokenizer", tokenizer, "--output", str(prefix)]
    return [*made, "--max-sequence-length", "64", "--shard-size", "40000", "--deduplicate", "exact"]


def contents(prefix: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in feature_files(str(prefix))}
    return {**found, "manifest": manifest_path(str(prefix)).read_bytes()}


@pytest.fixture(scope="module")
def whole(corpus: Path) -> dict[str, bytes]:
    """The files of a run that nothing disturbed."""
    prefix = corpus / "whole" / "set"
    assert main(command(corpus, prefix)) == 0
    found = contents(prefix)
    assert len(found) > 20
    return found


def start(corpus: Path, prefix: Path, **given) -> subprocess.Popen[str]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-m", "jax_lm", *command(corpus, prefix)]
    return subprocess.Popen(words, **{**quiet, **given})


def kill_at(corpus: Path, prefix: Path, shards: int) -> None:
    """Kill a run once so many shards are there, in the middle of whatever it does then."""
    partial = prefix.with_name(f"_{prefix.name}.partial")
    run = start(corpus, prefix)
    while len(list(partial.glob("shard-*.parquet"))) < shards and run.poll() is None:
        time.sleep(0.001)
    run.kill()
    run.communicate()
    assert run.returncode == -signal.SIGKILL, "the run ended before it could be killed"
    assert partial.exists() and not manifest_path(str(prefix)).exists()


def test_a_killed_run_gives_the_same_bytes(corpus: Path, whole, tmp_path: Path) -> None:
    prefix = tmp_path / "set"
    kill_at(corpus, prefix, 3)
    kill_at(corpus, prefix, 11)
    assert main(command(corpus, prefix)) == 0
    assert contents(prefix) == whole


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_runs_killed_at_random_moments_give_the_same_bytes(
    corpus: Path, whole, tmp_path: Path, seed: int
) -> None:
    """Twenty kills in all, four of each set, on its way from nothing to its last shards."""
    prefix = tmp_path / "set"
    chance = random.Random(seed)
    for shards in sorted(chance.sample(range(len(whole) - 4), KILLS // 5)):
        kill_at(corpus, prefix, shards)
    assert main(command(corpus, prefix)) == 0
    assert contents(prefix) == whole
    assert not prefix.with_name("_set.partial").exists()


def test_a_full_disk_stops_cleanly_and_can_be_continued(
    corpus: Path, whole, tmp_path: Path
) -> None:
    """No file may grow past a size that the set's own files need."""
    size = max(len(data) for name, data in whole.items() if name != "manifest")
    prefix = tmp_path / "set"

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, resource.RLIM_INFINITY))

    # What measures the tests writes files of its own.
    unmeasured = {key: value for key, value in os.environ.items() if "COV" not in key}
    run = start(corpus, prefix, preexec_fn=no_room, env=unmeasured)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 1
    assert len(errors.strip().splitlines()) == 1 and "File too large" in errors, errors
    assert feature_files(str(prefix)) == []
    kept = list((tmp_path / "_set.partial").glob("shard-*.parquet"))
    assert kept
    assert main(command(corpus, prefix)) == 0
    assert contents(prefix) == whole


@pytest.mark.parametrize("name", ["a Parquet file", "the manifest"])
def test_one_flipped_byte_is_named(corpus: Path, tmp_path: Path, capsys, name: str) -> None:
    prefix = tmp_path / "set"
    assert main([*command(corpus, prefix), "--max-documents", "200"]) == 0
    path = feature_files(str(prefix))[0] if name == "a Parquet file" else manifest_path(str(prefix))
    data = bytearray(path.read_bytes())
    places = random.Random(1).sample(range(len(data)), 5)
    for place in places:
        damaged = data.copy()
        damaged[place] ^= 1
        path.write_bytes(damaged)
        capsys.readouterr()
        assert main(["features", "verify", str(prefix)]) == 1
        assert path.name in capsys.readouterr().err
    path.write_bytes(data)
    assert main(["features", "verify", str(prefix)]) == 0
    assert read_manifest(str(prefix)).totals.rows > 0
