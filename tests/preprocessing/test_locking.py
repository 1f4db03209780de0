"""Two runs that make the same set: one works, the other waits or says so."""

import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.files.locking import BeingMade, FolderLock, is_locked
from tests.preprocessing.preprocessing_fakes import ListSource, document

HOLD = """
import sys, time
from pathlib import Path
from jax_lm.files.locking import FolderLock
lock = FolderLock(Path(sys.argv[1])); lock.take(); print("held", flush=True); sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """A function that locks a folder in another process and returns that process."""
    started = []

    def hold(folder: Path) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout.readline() == "held\n"
        started.append(process)
        return process

    yield hold
    for process in started:
        process.communicate()


def test_a_lock_is_one_processs_and_dies_with_it(held, tmp_path):
    folder = tmp_path / "made"
    process = held(folder)
    lock = FolderLock(folder)
    assert is_locked(folder)
    with pytest.raises(BeingMade, match="another process is at work"):
        lock.take()
    process.kill()
    process.wait()
    lock.take()
    lock.take()
    assert list(folder.iterdir()) == []
    lock.release()
    assert not is_locked(folder)
    assert not is_locked(tmp_path / "nowhere")


def test_a_second_preprocess_says_who_is_in_the_way(held, make):
    held(Path(make.prefix).parent / "_set.partial")
    with pytest.raises(BeingMade, match=r"_set\.partial: another process"):
        make(ListSource([document("some text, long enough")]))


def test_two_trainings_share_one_cache(tmp_path, tiny_features, monkeypatch):
    """Both preprocess the same SPEC at once; one makes it and the other takes what it made."""
    code = (
        "import sys; from pathlib import Path; from jax_lm.preprocessing.cache import features_for;"
        "print(features_for(sys.argv[1], tokenizer=Path(sys.argv[2]), sequence_length=16))"
    )
    command = [sys.executable, "-c", code, tiny_features.held_out_text, tiny_features.tokenizer]
    environment = {"JAX_LM_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    runs = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = [run.communicate(timeout=100)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    prefixes = {text.splitlines()[-1] for text in printed}
    assert len(prefixes) == 1
    assert main(["features", "verify", prefixes.pop()]) == 0
