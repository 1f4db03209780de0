"""Fixtures shared by all tests."""

import argparse
import atexit
import inspect
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.google_storage import running_server

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tiny models run for milliseconds and compile for seconds: two thirds of that is LLVM's polish,
# half of the rest the newer fusion emitters and the splitting of modules among threads.
FAST_COMPILATION = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("XLA_FLAGS", FAST_COMPILATION)
if "JAX_LM_CACHE" not in os.environ:
    # Compiled steps are shared by all processes of these tests, and nobody's own cache is touched.
    os.environ["JAX_LM_CACHE"] = tempfile.mkdtemp(prefix="jax-lm-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_LM_CACHE"], ignore_errors=True)


@pytest.fixture
def shared_data() -> Path:
    """Real corpora and tokenizers that lie beside some checkouts; the test is skipped elsewhere."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the sample corpora in {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def google_storage() -> Iterator[str]:
    """Address of a server that speaks Google Cloud Storage's protocol."""
    with running_server() as address:
        yield address


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_functions() -> Iterator[None]:
    """Compiled functions are of one test file; kept, they fill gigabytes."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


class TinyFeatures(NamedTuple):
    """Feature sets of a little real text, with rows of 32 tokens."""

    tokenizer: Path
    train: str
    held_out: str
    text: Path
    held_out_text: Path


@pytest.fixture(scope="session")
def tiny_features(tmp_path_factory: pytest.TempPathFactory) -> TinyFeatures:
    """Source code of two standard modules, cut by a byte-level BPE of 300 tokens."""
    from jax_lm.preprocessing.options import PreprocessOptions
    from jax_lm.preprocessing.pipeline import preprocess
    from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

    folder = tmp_path_factory.mktemp("tiny")
    texts = {
        "train": inspect.getsource(argparse)[:40_000],
        "held-out": inspect.getsource(textwrap)[:6_000] + "\nprint('blåbærsyltetøy 안녕')\n",
    }
    paths = {name: folder / f"{name}.txt" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text, encoding="utf-8")
    tokenizer = train_byte_level_bpe(
        iter([texts["train"]]),
        vocab_size=300,
        min_frequency=2,
        special_tokens=("<|endoftext|>",),
    )
    tokenizer.save(folder / "tokenizer")
    options = PreprocessOptions(max_sequence_length=32)
    for name, path in paths.items():
        preprocess(str(path), folder / "tokenizer", str(folder / name), options, say=_quiet)
    return TinyFeatures(
        folder / "tokenizer",
        str(folder / "train"),
        str(folder / "held-out"),
        paths["train"],
        paths["held-out"],
    )


def _quiet(line: str) -> None:
    """Says nothing."""
