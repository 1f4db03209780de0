"""The commands in the tutorials run as they stand; the results page is what the script makes."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def shell_blocks(page: Path) -> str:
    return "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_commands_run(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", shell_blocks(page)],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert "bits per byte" in result.stdout


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
