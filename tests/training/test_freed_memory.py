import importlib.util
import json
import os
import subprocess
import sys

import pytest

from jax_lm.training import freed_memory

SCRIPT = """
import json, resource, sys
from jax_lm.training.freed_memory import keep_freed_memory
done = keep_freed_memory() if sys.argv[1] == "keep" else None
import jax, jax.numpy as jnp

@jax.jit
def step(x):
    y = jnp.tanh(x[:, None] * x[None, :])  # 16 MiB
    return (y @ y).sum(axis=0)

x = jnp.ones(2048)
faults = []
for _ in range(8):
    step(x).block_until_ready()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(json.dumps({"done": done, "faults": faults[-1] - faults[1]}))
"""


def run(how: str) -> dict:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "LD_PRELOAD"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how],
        env={**clean, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_a_step_maps_no_memory_anew():
    kept = run("keep")
    assert kept["done"]
    assert kept["faults"] < 1_000
    assert run("leave")["faults"] > 5_000  # a page is 4 KiB


def test_an_environment_that_sets_malloc_up_is_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    assert freed_memory.keep_freed_memory() is False


@pytest.mark.parametrize(
    ("platforms", "plugin", "expected"),
    [("cpu", True, False), ("", True, True), ("", False, False), ("cuda", True, True)],
)
def test_accelerators_are_looked_for_without_asking_jax(monkeypatch, platforms, plugin, expected):
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if plugin else None)
    assert freed_memory._has_accelerator() is expected
    if expected:
        assert freed_memory.keep_freed_memory() is False
