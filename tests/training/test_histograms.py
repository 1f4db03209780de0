from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.build import make_optimizer
from jax_lm.optimizers.patterns import dotted
from jax_lm.training.config import TrainConfig
from jax_lm.training.gradient import make_gradient
from jax_lm.training.measuring import device_memory
from jax_lm.training.measuring.histograms import BINS, make_histograms
from jax_lm.training.state import init_state
from jax_lm.types import Batch


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_counts_are_those_of_the_gradient(dtype: Any) -> None:
    shape = GPT2Config(context_length=8, num_layers=2, num_heads=2, embed_dim=8, vocab_size=40)
    config, key = TrainConfig(model=shape, dtype=dtype), jax.random.key(1)
    ids = np.arange(32, dtype=np.int32).reshape(4, 8)
    batch = Batch(ids, ids[:, ::-1], np.ones((4, 8), np.float32))
    state = init_state(key, config, make_optimizer(config.optimizer, 10))
    scale = jnp.float32(1.0) if dtype == "float32" else state.optimizer.loss_scale.value
    gradients, _ = jax.jit(make_gradient(config, key))(
        state.model, batch, state.optimizer.step, scale
    )
    found = make_histograms(config, key)(state, batch)
    leaves = jax.tree_util.tree_leaves_with_path(gradients)
    assert len(found) == len(leaves) > 10
    for path, leaf in leaves:
        counts, edges = found[f"gradients/{dotted(path)}"]
        values = np.asarray(leaf, np.float64) / float(scale)
        assert counts.sum() == values.size
        if np.abs(values).max() < 1e-12:  # none but rounding
            continue
        assert edges[-1] == pytest.approx(np.abs(values).max(), rel=1e-5)
        # Values at an edge may fall on either side of it.
        expected = np.histogram(values, np.append(edges[:-1], np.inf))[0]
        assert len(counts) == BINS
        assert np.abs(counts - expected).sum() <= max(4, values.size // 50), dotted(path)


def test_memory_is_the_peak_of_the_fullest_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not device_memory.counts_memory()
    assert 0.05 < device_memory.memory_gb() < 1000
    devices = [
        SimpleNamespace(memory_stats=lambda peak=peak: {"peak_bytes_in_use": peak})
        for peak in (1_000_000_000, 2_500_000_000)
    ]
    monkeypatch.setattr(jax, "local_devices", lambda: devices)
    assert device_memory.counts_memory()
    assert device_memory.memory_gb() == 2.5
