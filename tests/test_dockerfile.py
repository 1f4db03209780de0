"""The Dockerfile is read, and what it installs is installed, without Docker."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Instruction(NamedTuple):
    """One instruction, with its continued lines joined."""

    name: str
    value: str


def instructions() -> list[Instruction]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [Instruction(*line.split(None, 1)) for line in lines]


def values(name: str) -> list[str]:
    return [one.value for one in instructions() if one.name == name]


def test_runs_the_command_line_as_an_ordinary_user() -> None:
    assert values("ENTRYPOINT") == ['["jax-lm"]']
    assert values("USER")[-1] not in ("root", "0")


def test_extra_is_a_build_argument() -> None:
    assert values("ARG") == ["EXTRA=cpu"]
    (install,) = [run for run in values("RUN") if "-c constraints.txt" in run]
    for extra, expected in (("cpu", ""), ("cuda", ",cuda"), ("tpu", ",tpu")):
        assert chosen_extras(install, extra) == (0, f".[beam,fast{expected}]")
    assert chosen_extras(install, "gpu")[0] == 1


def chosen_extras(install: str, extra: str) -> tuple[int, str]:
    """Exit code, and what pip would be asked to install."""
    command = install.replace("pip install -c constraints.txt", "echo")
    done = subprocess.run(
        ["sh", "-c", command], env={"EXTRA": extra}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.strip()


def test_what_is_copied_exists_and_is_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for copy in values("COPY"):
        *names, _ = copy.split()
        for name in names:
            assert (ROOT / name).exists(), name
            assert f"!{name.split('/')[0]}" in ignored


def test_dependencies_are_a_layer_before_the_source() -> None:
    order = [one.value for one in instructions() if one.name in ("RUN", "COPY")]
    (dependencies,) = [index for index, value in enumerate(order) if "-c constraints.txt" in value]
    assert dependencies < order.index("src src")


def test_no_secret_is_built_in() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").lower()
    assert not re.search(r"token|password|secret|api_key", text)


@pytest.mark.slow
def test_the_pip_lines_install_a_working_program(tmp_path: Path) -> None:
    """Follows COPY and the pip lines of RUN in a clean virtual environment."""
    venv, build = tmp_path / "venv", tmp_path / "build"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    environment = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "EXTRA": "cpu"}
    environment.pop("PYTHONPATH", None)
    build.mkdir()
    for name, value in instructions():
        if name == "COPY":
            copy_into(build, value)
        elif name == "RUN" and "pip install" in value:
            subprocess.run(["sh", "-ec", value], cwd=build, env=environment, check=True)
    done = subprocess.run(
        [venv / "bin" / "jax-lm", "doctor"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"apache-beam +\d", done.stdout)


def copy_into(build: Path, value: str) -> None:
    *names, target = value.split()
    for name in names:
        place = build / target if len(names) == 1 else build / target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / name, place)
