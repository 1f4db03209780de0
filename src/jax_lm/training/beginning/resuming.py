"""What may differ between a run and its continuation, and how the continuation begins."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import optax
from jaxtyping import PyTree

from jax_lm.checkpoints import Progress, read_config, read_progress, restore_arrays
from jax_lm.checkpoints.restoring import restore_fitting
from jax_lm.dataclass_json import to_json
from jax_lm.errors import JaxLMError, UsageError, nearest
from jax_lm.training.beginning.state import restored_state, shardings_of
from jax_lm.training.config import TrainConfig
from jax_lm.training.state import OptimizerState, TrainState, first_average, optimizer_state_of

MAY_CHANGE = (
    "accumulation_steps",
    "allow_change",
    "batch_size",  # what it comes to is checked by the rows consumed
    "batch_size_per_device",
    "checkpoint",
    "compilation_cache",
    "epochs",
    "evaluation",
    "max_bad_steps",
    "max_time",
    "mesh",
    "peak_tflops",
    "profile",
    "remat",
    "resume",
    "run_dir",
    "stall_minutes",
    "steps",
    "tokens",
    "tracking",
)
"""Parts of the configuration that a continuation chooses anew; all others are those of the run."""


@dataclass(frozen=True)
class Resumption:
    """Where and how a run goes on."""

    checkpoint: Path
    progress: Progress
    changed: tuple[str, ...]
    """Keys that differ because --allow-change names them."""


def refuse_unknown_keys(config: TrainConfig) -> None:
    """Refuse keys of --allow-change that the configuration does not have.

    Raises:
        UsageError: naming the nearest that it has.
    """
    keys = _flat(to_json(config))
    known = {".".join(key.split(".")[:end]) for key in keys for end in range(1, 9)}
    for key in config.allow_change:
        if _plain(key) not in known:
            raise UsageError(
                f"--allow-change {key}: the configuration has no such key"
                f"{nearest(_plain(key), known)}"
            )


def resumption(
    checkpoint: Path,
    config: Mapping[str, Any],
    *,
    data: str,
    batch_size: int,
    allowed: Sequence[str] = (),
) -> Resumption:
    """Refuse to go on with another configuration than the run's, but for what is allowed.

    Args:
        checkpoint: where the run goes on from.
        config: the resolved configuration, as it is recorded.
        data: fingerprint of the training rows.
        batch_size: rows of a batch over all devices.
        allowed: keys, or the first words of keys, that may differ.

    Raises:
        JaxLMError: naming every key that differs, with both values, and the flag that allows it.
    """
    progress = read_progress(checkpoint)
    after = _flat(json.loads(json.dumps(config)))
    # What an older version did not know, it did as the defaults do.
    defaults = _flat(json.loads(json.dumps(to_json(TrainConfig()))))
    before = {key: defaults.get(key) for key in after} | _flat(read_config(checkpoint))
    differing = {
        key: f"{key} was {_shown(before, key)}, now {_shown(after, key)}"
        for key in sorted(before.keys() | after.keys())
        if key.split(".")[0] not in MAY_CHANGE and before.get(key) != after.get(key)
    }
    if progress.data != data and "data.train" not in differing:
        differing["data.train"] = (
            f"data.train has other rows (their fingerprint was {progress.data[:12]}, now "
            f"{data[:12]})"
        )
    rows = progress.batch_size or progress.position // max(1, progress.step)
    if progress.position and rows != batch_size:
        differing["batch_size"] = f"batch_size was {rows}, now {batch_size}"
    refused = [key for key in differing if not _is_allowed(key, allowed)]
    if refused:
        raise JaxLMError(
            f"{checkpoint}: cannot go on with another configuration "
            f"({'; '.join(differing[key] for key in refused)}): undo the change, choose another "
            f"--run-dir, or go on all the same with --allow-change {' '.join(refused)}"
        )
    progress = replace(progress, data=data, batch_size=batch_size)
    return Resumption(checkpoint, progress, tuple(differing))


def resumed_state(
    found: Resumption,
    config: TrainConfig,
    optimizer: optax.GradientTransformation,
    like: TrainState,
    say: Callable[[str], None],
) -> TrainState:
    """The state to go on from, read into the shards of ``like``.

    Where the configuration has changed, the parts of the optimizer's state that no longer fit
    start afresh, which is said; the learning rate goes on where its schedule was.

    Raises:
        JaxLMError: the weights do not fit, or nothing has changed and the rest does not.
    """
    for key in found.changed:
        say(f"changed   {key}, as --allow-change says")
    if not found.changed:
        return restored_state(found.checkpoint, like)[0]
    model = restore_arrays(found.checkpoint / "model", like.model)
    begin = partial(optimizer_state_of, config=config, optimizer=optimizer)
    fresh = jax.jit(begin, out_shardings=shardings_of(like.optimizer))(model)
    anew = ("optax",) if "optimizer.name" in found.changed else ()
    state, kept = restore_fitting(found.checkpoint / "optimizer", fresh, anew=anew)
    if "optax" in kept:
        say("optimizer starts afresh: its state is of another optimizer or of other parameters")
        state = _with_schedule(state)
    if like.average is None:
        return TrainState(model, state, None)
    return TrainState(model, state, _average(found.checkpoint, first_average(model, config), say))


def _average(checkpoint: Path, fresh: PyTree, say: Callable[[str], None]) -> PyTree:
    """The average of a checkpoint, where it has one of the same parameters."""
    stored = checkpoint / "average"
    average, anew = restore_fitting(stored, fresh) if stored.is_dir() else (fresh, ["the weights"])
    if anew:
        say(f"average   of {', '.join(anew)} starts here")
    return average


def _with_schedule(state: OptimizerState) -> OptimizerState:
    """The schedule of a fresh optimizer set to the updates that the run has taken."""
    updates = state.step - state.skipped_steps

    def is_schedule(node: Any) -> bool:
        return isinstance(node, optax.ScaleByScheduleState)

    def advanced(node: Any) -> Any:
        return node._replace(count=updates) if is_schedule(node) else node

    optax_state = jax.tree.map(advanced, state.optax, is_leaf=is_schedule)
    return OptimizerState(
        optax_state, state.step, state.bad_steps, state.skipped_steps, state.loss_scale
    )


def _plain(key: str) -> str:
    """A key as the configuration spells it, also where it is spelled as a flag."""
    return key.lstrip("-").replace("-", "_")


def _is_allowed(key: str, allowed: Sequence[str]) -> bool:
    prefixes = [_plain(prefix) for prefix in allowed]
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)


def _shown(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "absent"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
