"""Where a run's first state comes from: random or given weights, or a checkpoint."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import optax
from jax.sharding import Mesh

from jax_lm.checkpoints import Progress, read_progress, restore_arrays
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.models.base import ModelConfig
from jax_lm.models.forward import Model
from jax_lm.models.registry import abstract_model
from jax_lm.pretrained import find_model
from jax_lm.sharding.rules import rules_of, state_shardings
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.training.config import TrainConfig
from jax_lm.training.state import TrainState, init_state, state_of

OF_THE_WEIGHTS = ("vocab_size", "tied", "scale_output")
"""What the weights decide, whatever the configuration says before they are read."""


def starting_weights(
    config: TrainConfig, checkpoint: Path | None, mesh: Mesh, say: Callable[[str], None]
) -> tuple[TrainConfig, Model | None]:
    """The weights that ``init_from`` names, and the configuration with what comes with them.

    Args:
        config: the run's; its model is that of ``init_from``, but for dropout.
        checkpoint: where the run goes on from; its weights take the place of any other.
        mesh: every weight is read straight into its shards on it.
        say: receives what is done.

    Raises:
        JaxLMError: there is no such model, or its tokenizer is not the run's.
        UsageError: the configuration asks for another model.
    """
    if config.init_from is None:
        return config, None
    found = find_model(config.init_from)
    tokenizer = config.data.tokenizer
    if tokenizer is None:
        tokenizer = str(found.tokenizer)
    elif load_tokenizer(tokenizer).fingerprint() != load_tokenizer(found.tokenizer).fingerprint():
        raise JaxLMError(
            f"--init-from {config.init_from} has another tokenizer than --data.tokenizer "
            f"{tokenizer}: leave that out, or jax-lm convert the model with --tokenizer first"
        )
    config = replace(config, data=replace(config.data, tokenizer=tokenizer))
    if checkpoint is not None:
        return config, None
    rules = rules_of(config.mesh)
    model = found.read(lambda abstract: state_shardings(abstract, abstract, mesh, rules))
    say(f"weights   {found.path}")
    _refuse_another_model(config, model.config)
    known: dict[str, Any] = {
        name: getattr(model.config, name) for name in OF_THE_WEIGHTS if hasattr(model.config, name)
    }
    wanted = replace(config.model, **known)
    structure = jax.tree.structure(abstract_model(wanted))
    return replace(config, model=wanted), jax.tree.unflatten(structure, jax.tree.leaves(model))


class Keys(NamedTuple):
    """What the random choices of a run come from."""

    init: jax.Array
    """Of the first weights."""
    dropout: jax.Array


def keys_of(config: TrainConfig) -> Keys:
    """The keys of a run, from its seed."""
    return Keys(*jax.random.split(jax.random.key(config.seed)))


def abstract_state(
    config: TrainConfig, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """Shape, dtype and sharding of every array of a run's state; nothing is computed.

    Raises:
        UsageError: the mesh does not divide an axis of a parameter.
    """
    state = jax.eval_shape(lambda key: init_state(key, config, optimizer), keys_of(config).init)
    shardings = state_shardings(state, state.model, mesh, rules_of(config.mesh))
    placed: TrainState = jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        state,
        shardings,
    )
    return placed


def shardings_of(state: Any) -> Any:
    """Where the arrays of an abstract state, or of a part of one, lie."""
    return jax.tree.map(lambda leaf: leaf.sharding, state)


def first_state(
    config: TrainConfig,
    optimizer: optax.GradientTransformation,
    like: TrainState,
    initial: Model | None,
) -> TrainState:
    """The state at step 0, made in its shards.

    Args:
        config: of the run.
        optimizer: as ``make_optimizer`` gives it.
        like: what ``abstract_state`` gives.
        initial: the weights, which are given away; None: random ones.
    """
    key, shardings = keys_of(config).init, shardings_of(like)
    if initial is None:
        make = jax.jit(lambda key: init_state(key, config, optimizer), out_shardings=shardings)
        state: TrainState = make(key)
        return state
    begin = jax.jit(
        lambda model, key: state_of(model, key, config, optimizer),
        out_shardings=shardings,
        donate_argnums=0,
    )
    state = begin(initial, key)
    return state


def restored_state(checkpoint: Path, like: TrainState) -> tuple[TrainState, Progress]:
    """What a checkpoint holds, read into the shards of ``like``.

    Raises:
        JaxLMError: it does not fit.
    """
    state = TrainState(
        model=restore_arrays(checkpoint / "model", like.model),
        optimizer=restore_arrays(checkpoint / "optimizer", like.optimizer),
        average=None
        if like.average is None
        else restore_arrays(checkpoint / "average", like.average),
    )
    return state, read_progress(checkpoint)


def _refuse_another_model(config: TrainConfig, model: ModelConfig) -> None:
    asked, stored = vars(config.model), vars(model)
    differing = [
        f"{name} {asked.get(name)} (its own: {stored.get(name)})"
        for name in asked.keys() | stored.keys()
        if asked.get(name) != stored.get(name)
        and not name.endswith("dropout")
        and name not in OF_THE_WEIGHTS
    ]
    if differing:
        raise UsageError(
            f"--init-from {config.init_from}: the model has its own shape, and the run asks for "
            f"another: {', '.join(sorted(differing))}"
        )
