"""The commands and the Python of the how-to run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "document-stores.md"


@pytest.mark.slow
def test_the_how_to_runs(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    (python,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for words in (["bash", "-euc", commands], [sys.executable, "-c", python]):
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "sample").iterdir())) == 4
