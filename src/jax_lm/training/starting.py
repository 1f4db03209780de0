"""Where a run's first weights come from, when they are not random."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from jax_lm.checkpoints import read_config
from jax_lm.dataclass_json import from_json
from jax_lm.errors import JaxLMError
from jax_lm.models.forward import Model
from jax_lm.models.registry import FAMILIES, abstract_model
from jax_lm.pretrained import find_model
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.training.config import TrainConfig


def starting_weights(
    config: TrainConfig, checkpoint: Path | None, say: Callable[[str], None]
) -> tuple[TrainConfig, Model | None]:
    """The configuration with the model that ``--init-from`` names, and its weights.

    Args:
        config: the run's.
        checkpoint: where the run goes on from; its weights take the place of any other.
        say: receives what is done.

    Raises:
        JaxLMError: there is no such model, or its tokenizer is not the run's.
    """
    if config.init_from is None:
        return config, None
    if checkpoint is not None:
        values = read_config(checkpoint)["model"]
        family = FAMILIES[values["family"]].config
        recorded: Any = from_json(family, values, str(checkpoint))
        return replace(config, model=recorded), None
    found = find_model(config.init_from)
    tokenizer = config.data.tokenizer
    if tokenizer is None:
        tokenizer = str(found.tokenizer)
    elif load_tokenizer(tokenizer).fingerprint() != load_tokenizer(found.tokenizer).fingerprint():
        raise JaxLMError(
            f"--init-from {config.init_from} has another tokenizer than --data.tokenizer "
            f"{tokenizer}: leave that out, or jax-lm convert the model with --tokenizer first"
        )
    model = found.read()
    say(f"weights   {found.path}")
    wanted = replace(model.config, dropout=config.model.dropout)
    config = replace(config, model=wanted, data=replace(config.data, tokenizer=tokenizer))
    structure = jax.tree.structure(abstract_model(wanted))
    return config, jax.tree.unflatten(structure, jax.tree.leaves(model))
