"""The cache of compiled functions: where it lies, that it is used, and that it changes nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from jax_lm.training.compilation import use_compilation_cache

SCRIPT = """
import sys, time
import jax, jax.numpy as jnp, numpy as np
from jax_lm.training.compilation import use_compilation_cache

place = use_compilation_cache(sys.argv[1], print)

def loss(w, x):
    for _ in range(4):
        x = jnp.tanh(jnp.einsum("be,ef->bf", x, w))
    return jax.nn.logsumexp(x)

w = jax.random.normal(jax.random.key(0), (64, 64))
gradient = jax.jit(jax.grad(loss))(w, jnp.ones((8, 64)))
print(np.asarray(gradient).tobytes().hex()[:4000])
"""


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_compilation_cache_max_size",
    )
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def refuse(line: str) -> None:
    raise AssertionError(line)


def test_it_lies_in_the_users_cache_by_kind_of_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path))
    place = use_compilation_cache("auto", refuse)
    assert place is not None
    assert place.parent == tmp_path / "compiled"
    assert place.is_dir()
    assert jax.config.jax_compilation_cache_dir == str(place)
    assert use_compilation_cache("auto", refuse) == place
    assert use_compilation_cache(None, refuse) is None
    assert jax.config.jax_compilation_cache_dir is None


def test_what_the_user_has_set_up_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert use_compilation_cache("auto", refuse) == tmp_path / "own"
    assert use_compilation_cache(str(tmp_path / "given"), refuse) == tmp_path / "given"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "given")


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    assert use_compilation_cache(str(tmp_path / "file" / "cache"), said.append) is None
    assert said[0].startswith("compiled functions are not kept: ")


@pytest.mark.slow
def test_two_processes_at_once_and_a_third_agree_to_the_bit(tmp_path: Path) -> None:
    """The third takes what the first two compiled; a damaged file is compiled anew."""
    environment = os.environ | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}

    def begin() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(process: "subprocess.Popen[str]") -> str:
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
        return output

    both = [begin(), begin()]
    first, second = [end(process) for process in both]
    files = sorted(tmp_path.glob("jit_loss-*-cache"))
    assert len(files) == 1
    stamp = files[0].stat().st_mtime_ns
    assert first == second == end(begin())
    assert files[0].stat().st_mtime_ns == stamp
    files[0].write_bytes(files[0].read_bytes()[:100])
    assert end(begin()) == first
