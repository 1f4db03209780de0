"""SIGKILL, a full disk and flipped bytes, for real, while a store is built or after."""

import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jax_lm.cli.main import main

# A whole build takes well over a second of steps: small documents, small transactions.
SMALL_STEPS = (
    "import sys; from jax_lm.documents.stores import building; building.STEP_DOCUMENTS = 100; "
    "from jax_lm.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    words = Path(json.__file__).read_text().split()
    drawn = random.Random(0)
    with path.open("w") as file:
        for index in range(8_000):
            text = " ".join(drawn.choices(words, k=40))
            file.write(json.dumps({"text": text, "n": index}) + "\n")
            if index % 1000 == 17:
                file.write('{"text": \n')
    return path


def command(corpus: Path, output: Path, *flags: str) -> list[str]:
    build = ["documents", "build", str(corpus), "--on-bad-record", "skip", "--output", str(output)]
    return [sys.executable, "-c", SMALL_STEPS, *build, *flags]


def finish(corpus: Path, output: Path, *flags: str) -> str:
    done = subprocess.run(
        command(corpus, output, *flags), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_after(seconds: float, corpus: Path, output: Path, *flags: str) -> None:
    process = subprocess.Popen(command(corpus, output, *flags), stdout=subprocess.DEVNULL)
    partial = output.with_name(f"_{output.name}.partial")
    while not partial.exists() and process.poll() is None:
        time.sleep(0.001)
    time.sleep(seconds)
    process.kill()
    assert process.wait() in (-signal.SIGKILL, 0)


def contents(output: Path) -> dict[str, bytes]:
    files = sorted(output.iterdir()) if output.is_dir() else [output]
    rejected = output.with_name(f"_{output.name}.rejected.jsonl")
    return {path.name.replace(output.name, ""): path.read_bytes() for path in [*files, rejected]}


def assert_same_after_kills(corpus: Path, folder: Path, kills: int, *flags: str) -> None:
    whole, killed = folder / "whole.db", folder / "killed.db"
    began = time.monotonic()
    finish(corpus, whole, *flags)
    longest = time.monotonic() - began
    drawn = random.Random(kills)
    continued = 0
    for _ in range(kills):
        kill_after(drawn.random() * longest * 0.6, corpus, killed, *flags)
        continued += (folder / "_killed.db.partial").exists()
        if killed.exists():  # it was done before it could be killed: begin another
            assert contents(killed) == contents(whole)
            shutil.rmtree(killed) if killed.is_dir() else killed.unlink()
    assert continued, "no kill came in time"
    finish(corpus, killed, *flags)
    assert contents(killed) == contents(whole)
    assert len(contents(killed)[next(iter(contents(killed)))]) > 100_000
    assert sorted(path.name for path in folder.iterdir()) == [
        "_killed.db.rejected.jsonl",
        "_whole.db.rejected.jsonl",
        "killed.db",
        "whole.db",
    ]


def test_a_killed_build_goes_on_byte_by_byte(corpus: Path, tmp_path: Path) -> None:
    assert_same_after_kills(corpus, tmp_path, 3)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--shard-documents", "1500")])
def test_twenty_kills(corpus: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert_same_after_kills(corpus, tmp_path, 20, *flags)


def test_a_full_disk_is_one_sentence_and_can_be_continued(corpus: Path, tmp_path: Path) -> None:
    whole, full = tmp_path / "whole.db", tmp_path / "full.db"
    finish(corpus, whole)

    def little_room() -> None:
        size = whole.stat().st_size // 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    stopped = subprocess.run(
        command(corpus, full), capture_output=True, text=True, preexec_fn=little_room, check=False
    )
    assert stopped.returncode == 1
    assert "no room left on the disk" in stopped.stderr
    assert "goes on after" in stopped.stderr
    assert stopped.stderr.count("\n") == 1
    assert not full.exists()
    assert "going on after" in finish(corpus, full)
    assert contents(full) == contents(whole)


@pytest.fixture(scope="module")
def store(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "corpus.db"
    args = ["documents", "build", str(corpus), "--on-bad-record", "skip", "--output", str(path)]
    assert main(args) == 0
    return path


def test_one_flipped_byte_anywhere_is_found(store: Path, tmp_path: Path, capsys) -> None:
    assert main(["documents", "verify", f"sqlite:{store}"]) == 0
    whole = store.read_bytes()
    damaged = tmp_path / "damaged.db"
    drawn = random.Random(4)
    headers = [0, 17, 25, 31, 60, 63, 70, 99, 100, 101, 105, 8192, 8195, 16384]
    offsets = [*headers, *(drawn.randrange(len(whole)) for _ in range(25))]
    named = 0
    capsys.readouterr()
    for offset in offsets:
        changed = bytearray(whole)
        changed[offset] ^= 1 << drawn.randrange(8)
        damaged.write_bytes(changed)
        assert main(["documents", "verify", f"sqlite:{damaged}"]) == 1, offset
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"jax-lm: {damaged}: "), err
        assert err.count("\n") == 1
        named += "document " in err
    assert named >= 15


def test_a_truncated_store_is_refused_at_once(store: Path, tmp_path: Path, capsys) -> None:
    for size in (0, 50, 8192, store.stat().st_size - 1):
        cut = tmp_path / "cut.db"
        cut.write_bytes(store.read_bytes()[:size])
        for action in (["verify", f"sqlite:{cut}"], ["info", f"sqlite:{cut}"]):
            capsys.readouterr()
            assert main(["documents", *action]) == 1
            err = capsys.readouterr().err
            assert err.startswith(f"jax-lm: {cut}: ")
            assert "bytes long where its header says" in err or "not an SQLite file" in err
