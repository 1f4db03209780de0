from pathlib import Path

import jax
import jax.numpy as jnp

from jax_lm.training.measuring.profile import UNTRACED_STEPS, Profile


def test_some_steps_are_traced_and_the_file_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    profile, state = Profile(tmp_path / "profile", 2, said.append), jnp.zeros(())
    added = jax.jit(lambda x: x + 1)
    for number in range(UNTRACED_STEPS + 4):
        with profile.step(number, state):
            assert (tmp_path / "profile").exists() is (number > UNTRACED_STEPS + 1)
            state = added(state)
        profile.after(state)
    profile.close()
    (line,) = said
    trace = Path(line.split()[1].removesuffix(":"))
    assert trace.name == "perfetto_trace.json.gz" and "ui.perfetto.dev" in line
    assert {path.suffix for path in trace.parent.iterdir()} == {".gz", ".pb"}
    assert all(path.stat().st_size > 500 for path in trace.parent.iterdir())


def test_a_run_that_ends_before_its_trace_does_closes_it(tmp_path: Path) -> None:
    said: list[str] = []
    profile, state = Profile(tmp_path, 100, said.append), jnp.zeros(())
    for number in range(UNTRACED_STEPS + 2):
        with profile.step(number, state):
            state = state + 1
        profile.after(state)
    assert not said
    profile.close()
    profile.close()
    assert len(said) == 1


def test_none_is_asked_for(tmp_path: Path) -> None:
    profile = Profile(tmp_path, 0, print)
    for number in range(UNTRACED_STEPS + 2):
        with profile.step(number, None):
            pass
        profile.after(None)
    profile.close()
    assert not list(tmp_path.iterdir())
