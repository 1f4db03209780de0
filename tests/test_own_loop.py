"""The training loop of the how-to runs as it stands, and goes on where it stopped."""

import re
import subprocess
import sys
from pathlib import Path

from jax_lm.pretrained import open_model
from tests.conftest import TinyFeatures

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "your-own-loop.md"


def program() -> str:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


def run(script: Path, features: str, directory: Path, steps: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(script), features, str(directory), str(steps)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line[0].isdigit()]


def test_the_loop_learns_and_goes_on_exactly(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(program())
    assert len([line for line in program().splitlines() if line.strip()]) <= 60
    features = tiny_features.train
    undisturbed = run(script, features, tmp_path / "one", 12)
    stopped = run(script, features, tmp_path / "two", 5)
    resumed = run(script, features, tmp_path / "two", 12)
    assert stopped + resumed == undisturbed
    losses = [float(line.split()[1]) for line in undisturbed]
    assert losses[-1] < losses[0]
    assert open_model(str(tmp_path / "two" / "final")).tokenizer.vocab_size == 300
