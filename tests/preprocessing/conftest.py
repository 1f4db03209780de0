"""Sets made in memory: a fake source and tokenizer, and shards written without Beam."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jax_lm.preprocessing import cache, making, pipeline, shard_writing, verify
from jax_lm.preprocessing.manifest import Manifest
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.tokenizers.encoders.choosing import EngineChoice
from tests.preprocessing.preprocessing_fakes import READS, ByteTokenizer, ListSource, load_bytes


@pytest.fixture
def without_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are written one after the other, in process."""

    def write_all(runs, write, flags):
        for run in runs:
            write(run)

    monkeypatch.setattr(making, "run_on_beam", write_all)


@pytest.fixture
def with_fakes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``with_fakes(source)``: every SPEC is this source, every tokenizer a ByteTokenizer."""
    for module in (cache, pipeline, shard_writing, verify):
        monkeypatch.setattr(module, "load_tokenizer", load_bytes)
    monkeypatch.setattr(
        making, "engine_for", lambda *_, say: EngineChoice("tokenizers", "0", "a fake")
    )

    def install(source: ListSource) -> None:
        for module in (cache, pipeline):
            monkeypatch.setattr(module, "open_source", lambda spec, options=None: source)

    return install


@pytest.fixture
def make(tmp_path: Path, with_fakes, without_beam) -> Callable[..., Manifest]:
    """``make(source, prefix, **options)`` preprocesses; what is said goes to ``make.said``."""
    READS.clear()
    said: list[str] = []

    def run(source, prefix=None, tokenizer=None, **options) -> Manifest:
        with_fakes(source)
        directory = tmp_path / "tokenizer"
        (tokenizer or ByteTokenizer()).save(directory)
        given = PreprocessOptions(
            **{"max_sequence_length": 8, "shard_size": 40, "num_workers": 1, **options}
        )
        prefix = prefix or str(tmp_path / "out" / "set")
        return pipeline.preprocess("spec", directory, prefix, given, say=said.append)

    run.said = said
    run.prefix = str(tmp_path / "out" / "set")
    return run
