"""The commands in the tutorials run as they stand; the results page is what the script makes."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from itertools import groupby
from pathlib import Path

import pytest

from jax_lm.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [ROOT / "README.md", *TUTORIALS, *HOW_TO]


def shell_blocks(page: Path) -> str:
    return "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))


def in_a_shell(commands: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def in_this_process(command: str) -> str:
    """What ``jax-lm ...`` prints, where everything is imported already."""
    words = shlex.split(command, comments=True)[1:]
    with redirect_stdout(StringIO()) as printed:
        assert main(words) == 0, command
    return printed.getvalue()


SHELLS_OWN = re.compile(r"""[|&;<>$`*?~(){}"']""")
SETTINGS = re.compile(r"^(cd|export|set|source|trap|\w+=)", re.MULTILINE)


def is_plain(line: str) -> bool:
    """Whether a line is one command of ours without anything for the shell to do."""
    unquoted = re.sub(r"""'[^']*'|"[^"$`\\]*\"""", "", line)
    return line.startswith("jax-lm ") and not SHELLS_OWN.search(unquoted)


def run(commands: str, folder: Path) -> str:
    """The output of a page's commands, each process of which would take seconds to import JAX."""
    if SETTINGS.search(commands):
        return in_a_shell(commands, folder)
    lines = commands.replace("\\\n", " ").splitlines()
    printed = ""
    for plain, group in groupby(lines, is_plain):
        if plain:
            printed += "".join(map(in_this_process, group))
        else:
            printed += in_a_shell("\n".join(group), folder)
    return printed


def page_commands(page: Path) -> str:
    commands = shell_blocks(page)
    if not commands:
        pytest.skip("its commands need what a test cannot have; their flags are checked")
    return commands


assert TUTORIALS[0].stem == "chat"  # it starts processes of its own: its commands run in a shell
of_pages = pytest.mark.parametrize("page", [*TUTORIALS, *HOW_TO], ids=lambda page: page.stem)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("page", [*TUTORIALS[1:], *HOW_TO], ids=lambda page: page.stem)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = run(page_commands(page), tmp_path)
    assert page not in TUTORIALS or "bits per byte" in printed


@pytest.mark.slow
@of_pages
def test_commands_run_in_a_shell(page: Path, tmp_path: Path) -> None:
    printed = in_a_shell(page_commands(page), tmp_path)
    assert page not in TUTORIALS or "bits per byte" in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_flags_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands_of(page):
        flags = {word.split("=")[0].replace("_", "-") for word in words if word.startswith("--")}
        verb = words[: 2 if words[0] in ("documents", "features", "tokenizer") else 1]
        if words[0] == "train" and not words[1].startswith("--"):
            verb = words[:2]
        main([*verb, "--help"])
        known = re.findall(r"--[\w.-]+", capsys.readouterr().out)
        assert flags - {"--beam-options"} <= set(known), (page.name, words)


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words after ``jax-lm`` of every command in a page's blocks."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```(?:sh|bash|)\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("jax-lm "):
                yield shlex.split(line, comments=True)[1:]


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_tree_in_the_readme_is_the_tree() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rooms = {path.name for path in (ROOT / "src" / "jax_lm").iterdir() if "__" not in path.name}
    rooms -= {"py.typed"}
    for room in rooms:
        assert room in readme, f"{room} is not in the README's tree"


def test_results_are_generated() -> None:
    tables = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))
    assert (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8") == tables["page"]()
