"""One run in a bucket on two machines: a preempted one that still lives, and its replacement."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jax_lm.checkpoints import list_steps
from jax_lm.errors import JaxLMError, SavedAndStopped
from jax_lm.remote.directory import RemoteDirectory, StoredFile
from jax_lm.training.config import CheckpointConfig
from jax_lm.training.remote import kept_copy
from jax_lm.training.remote.ownership import Ownership, TakenOver
from jax_lm.training.run_directory import RunDirectory, open_run_directory
from jax_lm.training.signals import stop_on_signal
from tests.faults.tiny_run import wait_until
from tests.remote.buckets import google_bucket
from tests.remote.test_copies_of_runs import write_checkpoint

BUCKET = "shared"
RUN = f"gs://{BUCKET}/run"
TAKEN = rf"{RUN}: the run was taken over by host-b \(.* UTC\), so it has ended on host-a"


@pytest.fixture(scope="module")
def bucket(google_storage: str) -> Iterator[Any]:
    with google_bucket(google_storage, BUCKET) as filesystem:
        yield filesystem


@pytest.fixture
def on(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], RunDirectory]:
    """The working copy of an empty run on a machine of that name."""
    if found := bucket.find(f"{BUCKET}/run"):
        bucket.rm(found)

    def machine(name: str) -> RunDirectory:
        monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / name))
        monkeypatch.setattr("socket.gethostname", lambda: name)
        run = open_run_directory(RUN)
        run.path.mkdir(parents=True, exist_ok=True)
        return run

    return machine


def kept(
    run: RunDirectory, said: list[str], resume: str = "auto"
) -> AbstractContextManager[Callable[[], None]]:
    settings = CheckpointConfig(keep=2)
    return kept_copy(run.path, run.url, settings, resume=resume, say=said.append)


def stored(bucket: Any) -> dict[str, bytes]:
    bucket.invalidate_cache()
    return {name: bucket.cat(name) for name in bucket.find(f"{BUCKET}/run")}


def test_the_one_that_was_taken_over_stops_and_sends_nothing(
    bucket: Any, on: Callable[[str], RunDirectory]
) -> None:
    said, first = list[str](), on("host-a")
    with (
        pytest.raises(TakenOver, match=TAKEN),
        stop_on_signal() as stop,
        kept(first, said) as sent,
    ):
        write_checkpoint(first.path, 10)
        sent()
        assert wait_until(lambda: "step-00000010/checksums.json" in " ".join(stored(bucket)))
        second = on("host-b")
        with kept(second, said) as changed:
            assert list_steps(second.checkpoints) == [10]
            write_checkpoint(second.path, 20, "of the second")
            write_checkpoint(second.path, 30, "of the second")
            changed()
        before = stored(bucket)
        assert f"{BUCKET}/run/checkpoints/step-00000030/checksums.json" in before
        write_checkpoint(first.path, 20, "of the first")
        (first.path / "metrics.jsonl").write_text("of the first\n")
        sent()
        assert wait_until(lambda: bool(stop))
        raise stop.error("saved step 20")
    assert stored(bucket) == before
    assert list_steps(first.checkpoints) == [10, 20]
    started = "taken over from host-a, which wrote last less than a minute ago; if it still runs, "
    assert said[0] == f"{started}it ends at its next checkpoint or evaluation"
    assert said[-1] == f"uploaded  {RUN}"


def test_the_one_that_was_taken_over_ends_nothing_either(
    bucket: Any, on: Callable[[str], RunDirectory]
) -> None:
    said, first = list[str](), on("host-a")
    with pytest.raises(TakenOver, match=TAKEN), kept(first, said):
        write_checkpoint(first.path, 10)
        with kept(on("host-b"), said):
            pass
        before = stored(bucket)
    assert stored(bucket) == before


def test_while_it_sends_nothing_is_completed(
    bucket: Any, on: Callable[[str], RunDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    said, upload, first = list[str](), RemoteDirectory.upload, on("host-a")

    def slow(directory: RemoteDirectory, files: dict[str, Path]) -> None:
        upload(directory, files)
        monkeypatch.setattr(RemoteDirectory, "upload", upload)
        with kept(on("host-b"), said):
            pass

    with pytest.raises(TakenOver, match=TAKEN), kept(first, said):
        write_checkpoint(first.path, 10)
        monkeypatch.setattr(RemoteDirectory, "upload", slow)
    names = " ".join(stored(bucket))
    assert "checksums.json" not in names


def test_one_that_ended_is_taken_over_in_silence(on: Callable[[str], RunDirectory]) -> None:
    said = list[str]()
    with pytest.raises(SavedAndStopped), kept(on("host-a"), said):
        raise SavedAndStopped("saved step 0")
    with kept(on("host-b"), said):
        pass
    assert said == [f"uploaded  {RUN}"]


def test_a_refused_start_takes_nothing_over(bucket: Any, on: Callable[[str], RunDirectory]) -> None:
    said, first = list[str](), on("host-a")
    with kept(first, said) as changed:
        write_checkpoint(first.path, 10)
        changed()
        assert wait_until(lambda: "checksums.json" in " ".join(stored(bucket)))
        refused = pytest.raises(JaxLMError, match="already holds a run")
        with refused, kept(on("host-b"), said, resume="never"):
            pass
        write_checkpoint(first.path, 20)
    assert said == [f"uploaded  {RUN}"]
    assert json.loads(stored(bucket)[f"{BUCKET}/run/_owner.json"])["host"] == "host-a"


@pytest.mark.parametrize(
    ("minutes", "told"),
    [(None, "host-a; if"), (1.5, "last 1 minute ago"), (90, "90 minutes"), (150, "2 hours ago")],
)
def test_when_the_other_wrote_last(
    minutes: float | None, told: str, on: Callable[[str], RunDirectory]
) -> None:
    said, directory = list[str](), RemoteDirectory(RUN)
    on("host-a")
    Ownership(directory).claim({}, said.append)
    assert said == []
    written = None if minutes is None else datetime.now(UTC) - timedelta(minutes=minutes)
    Ownership(directory).claim({"a": StoredFile(1, "", None, written)}, said.append)
    assert told in said[0]


def test_an_owner_that_cannot_be_read_is_nobody(on: Callable[[str], RunDirectory]) -> None:
    directory, said = RemoteDirectory(RUN), list[str]()
    on("host-a")
    for content in (b"{", b"[1]"):
        directory.write("_owner.json", content)
        Ownership(directory).check()
        Ownership(directory).claim({}, said.append)
    assert said == []
