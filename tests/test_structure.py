"""The house rules that no linter knows: sizes, names, and rooms that stay free of JAX."""

import ast
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jax_lm.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "jax_lm"
FILE_LINES, FILE_LINES_SOFT = 400, 300
FUNCTION_LINES = 60
VERB_LINES = 60
AVOIDED_NAMES = {
    "cfg",
    "common",
    "core",
    "engine",
    "handler",
    "handlers",
    "helper",
    "helpers",
    "manager",
    "misc",
    "processor",
    "util",
    "utils",
}
LIGHT = ("documents", "tokenizers", "preprocessing", "objectives", "trackers", "types", "errors")
HEAVY = ("jax", "torch", "transformers", "apache_beam", "datasets")


class Function(NamedTuple):
    """A function of the source, for a message that says where it is."""

    place: str
    lines: int


def source_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def num_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Function(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines)


def test_files_are_small() -> None:
    sizes = {path: num_lines(path) for path in source_files("src", "tests", "benchmarks")}
    for path, lines in sizes.items():
        if FILE_LINES_SOFT < lines <= FILE_LINES:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                warnings.warn(f"{path.relative_to(ROOT)} has {lines} lines", stacklevel=1)
    assert {str(path): lines for path, lines in sizes.items() if lines > FILE_LINES} == {}


def test_functions_are_short() -> None:
    every = [one for path in source_files("src", "benchmarks") for one in functions(path)]
    assert [one for one in every if one.lines > FUNCTION_LINES] == []


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_are_thin(verb: str) -> None:
    assert num_lines(SOURCE / "cli" / f"{verb}.py") <= VERB_LINES


def test_modules_are_named_after_what_they_hold() -> None:
    names = {path: path.stem for path in SOURCE.rglob("*.py")}
    folders = {path: path.name for path in SOURCE.rglob("*") if path.is_dir()}
    assert [path for path, name in (names | folders).items() if name in AVOIDED_NAMES] == []
    assert [path for path, name in folders.items() if name == "data"] == []


def test_every_folder_holds_code() -> None:
    folders = {path.parent for path in SOURCE.rglob("__init__.py")}
    empty = [
        folder
        for folder in folders
        if {path.name for path in folder.glob("*.py")} == {"__init__.py"}
    ]
    assert empty == []


@pytest.mark.parametrize("room", LIGHT)
def test_light_rooms_do_not_import_jax(room: str) -> None:
    code = (
        "import importlib, pkgutil, sys\n"
        f"room = importlib.import_module('jax_lm.{room}')\n"
        "for module in pkgutil.walk_packages(getattr(room, '__path__', []), room.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
