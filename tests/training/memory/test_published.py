"""What is published where no data is at hand: vocabularies, and the page of what fits."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.presets import PRESETS
from jax_lm.models.t5 import T5Config
from jax_lm.sharding.mesh import make_mesh
from jax_lm.training.config import TrainConfig
from jax_lm.training.memory.available import device_memory
from jax_lm.training.memory.published import with_published_tokens
from jax_lm.training.memory.sizes import shown

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_vocabulary(name: str) -> None:
    lines: list[str] = []
    model = replace(PRESETS[name], vocab_size=None)
    found = with_published_tokens(TrainConfig(model=model), lines.append).model.vocab_size
    assert found == PRESETS[name].vocab_size or PRESETS[name].family == "t5"
    assert len(lines) == 1 and f"vocabulary {found:,}, as " in lines[0]


def test_a_vocabulary_that_is_given_stays() -> None:
    lines: list[str] = []
    config = with_published_tokens(TrainConfig(model=GPT2Config(vocab_size=99)), lines.append)
    assert config.model.vocab_size == 99 and not lines


def test_other_shapes_take_that_of_the_nearest() -> None:
    lines: list[str] = []
    config = TrainConfig(model=T5Config(embed_dim=700))
    assert with_published_tokens(config, lines.append).model.vocab_size == 32_128
    assert "t5-base" in lines[0]


class FakeDevice:
    platform = "gpu"

    def __init__(self, stats: dict[str, Any] | None) -> None:
        self.memory_stats = lambda: stats


def test_memory_is_what_the_device_says_or_the_machine_has() -> None:
    def memory(device: FakeDevice) -> float | None:
        devices = np.empty((1,), object)
        devices[0] = device
        return device_memory(type("FakeMesh", (Mesh,), {"devices": devices, "size": 1}))  # type: ignore[arg-type]

    assert memory(FakeDevice({"bytes_limit": 60 * 10**9})) == 60e9
    assert memory(FakeDevice(None)) is None
    whole = device_memory(make_mesh())
    assert jax.device_count() > 1 or (whole is not None and whole > 1e9)


@pytest.mark.parametrize(
    ("size", "like", "text"),
    [(4.5e9, None, "4.50 GB"), (12_000, None, "0.01 MB"), (5e6, 2e9, "0.01 GB")],
)
def test_sizes(size: float, like: float | None, text: str) -> None:
    assert shown(size, like) == text


def test_the_page_of_what_fits_is_generated() -> None:
    tables = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))
    page = (ROOT / "docs" / "reference" / "what-fits.md").read_text(encoding="utf-8")
    assert page == tables["what_fits_page"]()


def test_more_fits_larger_devices_and_more_flags() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "what_fits.json").read_text())
    sizes = found["bytes"]
    for name, size in sizes["fsdp 8, accumulation and remat"].items():
        assert all(size < sizes[other].get(name, size + 1) for other in ("nothing", "fsdp 8"))
    errors = [abs(one["estimated"] / one["compiled"] - 1) for one in found["compiled"].values()]
    assert len(errors) == 6 and max(errors) < 0.15
