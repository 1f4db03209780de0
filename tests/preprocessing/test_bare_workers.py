"""What workers import, in an environment that holds the core and the extra ``beam`` alone."""

import os
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABSENT = ("datasets", "fastokens", "gcsfs", "gigatoken", "sentencepiece", "torch", "transformers")
WORKER = """
import sys
import jax_lm.preprocessing.shard_writing, jax_lm.preprocessing.copies
heavy = {"jax", "torch", "transformers", "apache_beam", "datasets"} & set(sys.modules)
sys.exit(f"workers load {heavy}" if heavy else 0)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that sees this project with its core dependencies and Apache Beam."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    interpreter = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [interpreter, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{ROOT}[beam]"], check=True, timeout=580)
    return interpreter


@pytest.mark.slow
def test_preprocessing_needs_no_more_than_the_core_and_beam(python: Path, tmp_path: Path) -> None:
    for name in ABSENT:
        missing = subprocess.run([python, "-c", f"import {name}"], stderr=subprocess.DEVNULL)
        assert missing.returncode == 1, f"{name} is there, so this shows nothing"
    subprocess.run([python, "-c", WORKER], check=True, timeout=60)
    few = ["stdlib", "--max-documents", "40"]
    jax_lm = [python, "-m", "jax_lm"]
    tokenizer, prefix = tmp_path / "tokenizer", tmp_path / "set"
    train = ["tokenizer", "train", *few, "--vocab-size", "400", "--output", tokenizer]
    subprocess.run([*jax_lm, *train], check=True, timeout=120, stdout=subprocess.DEVNULL)
    make = ["preprocess", *few, "--tokenizer", tokenizer, "--output", prefix]
    processes = ["--shard-size", "50000", "--num-workers", "2", "--workers", "processes"]
    made = subprocess.run(
        [*jax_lm, *make, *processes], check=True, timeout=120, capture_output=True, text=True
    )
    assert "encoding with tokenizers" in made.stdout
    assert "gigatoken is not installed (pip install 'jax-lm[fast]')" in made.stdout
    subprocess.run([*jax_lm, "features", "verify", prefix], check=True, timeout=60)
