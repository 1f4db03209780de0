import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.trackers import environment


def test_describes_this_machine_as_json() -> None:
    found = json.loads(json.dumps(environment.describe()))
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["cores"] >= 1
    assert found["memory_gib"] > 0
    assert found["packages"]["jax"] == environment.version("jax")


def test_devices_are_listed_only_where_jax_is_running() -> None:
    code = (
        "import sys; from jax_lm.trackers.environment import describe\n"
        "assert describe()['devices'] == [] and 'jax' not in sys.modules\n"
        "import jax; assert describe()['devices'] == ['cpu (cpu)']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_part_says_how_to_get_it() -> None:
    assert environment.version("no-such-distribution") is None
    parts = {part.package: part for part in environment.optional_parts()}
    assert parts["apache-beam"].install == "pip install 'jax-lm[beam]'"


def test_free_space_of_a_folder_not_made_yet(tmp_path: Path) -> None:
    assert environment.free_gib(tmp_path / "a" / "b") > 0


def test_a_system_that_says_little_is_still_described(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(name: str) -> int:
        raise OSError("not here")

    monkeypatch.setattr(environment, "Path", lambda name: tmp_path / "no-such-file")
    monkeypatch.setattr(os, "sysconf", refuse)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    found = environment.describe()
    assert found["processor"]
    assert found["memory_gib"] is None
    assert found["cores"] == os.cpu_count()
