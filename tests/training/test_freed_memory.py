import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
from jax_lm.training.freed_memory import keep_freed_memory
done = keep_freed_memory() if sys.argv[1] == "keep" else None
import jax, jax.numpy as jnp

@jax.jit
def step(x):  # two arrays of 64 MiB within
    return jnp.tanh(x[:, None] * x[None, :]) @ jnp.sin(x)

x = jnp.ones(4096)
faults = []
for _ in range(4):
    step(x).block_until_ready()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(json.dumps({"done": done, "faults": faults[-1] - faults[-2]}))
"""


def run(how: str, **environment: str) -> dict:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "LD_PRELOAD"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how],
        env={**clean, "JAX_PLATFORMS": "cpu", **environment},
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_a_step_maps_no_memory_anew():
    kept = run("keep")
    assert kept["done"]
    assert kept["faults"] < 200
    assert run("leave")["faults"] > 10_000  # 64 MiB in pages of 4 KiB


def test_an_environment_that_sets_malloc_up_is_left_alone():
    assert run("keep", MALLOC_ARENA_MAX="2")["done"] is False
