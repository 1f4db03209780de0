"""Where a run's first weights come from, when they are not random."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.models.base import ModelConfig
from jax_lm.models.forward import Model
from jax_lm.models.registry import abstract_model
from jax_lm.pretrained import find_model
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.training.config import TrainConfig

OF_THE_WEIGHTS = ("vocab_size", "tied", "scale_output")
"""What the weights decide, whatever the configuration says before they are read."""


def starting_weights(
    config: TrainConfig, checkpoint: Path | None, say: Callable[[str], None]
) -> tuple[TrainConfig, Model | None]:
    """The weights that ``init_from`` names, and the configuration with what comes with them.

    Args:
        config: the run's; its model is that of ``init_from``, but for dropout.
        checkpoint: where the run goes on from; its weights take the place of any other.
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
    model = found.read()
    say(f"weights   {found.path}")
    _refuse_another_model(config, model.config)
    known: dict[str, Any] = {
        name: getattr(model.config, name) for name in OF_THE_WEIGHTS if hasattr(model.config, name)
    }
    wanted = replace(config.model, **known)
    structure = jax.tree.structure(abstract_model(wanted))
    return replace(config, model=wanted), jax.tree.unflatten(structure, jax.tree.leaves(model))


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
