"""What ``jax-lm train`` is told besides leaves of its configuration: where to begin from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import tyro

from jax_lm.cli.arguments import parse, take_value
from jax_lm.cli.config_file import read_config_file
from jax_lm.cli.processes import SEVERAL_PROCESSES
from jax_lm.errors import UsageError, nearest
from jax_lm.models.presets import PRESETS
from jax_lm.models.registry import FamilyConfig
from jax_lm.objectives.registry import OBJECTIVES, objectives_of, usual_objective
from jax_lm.tokenizers.hub import is_hub_name
from jax_lm.training.config import TrainConfig
from jax_lm.training.plan import BATCHES, LENGTHS, exactly_one

DESCRIPTION = (
    """Train a model from a recipe; `jax-lm recipes` lists them.

--config FILE (JSON or YAML, such as any run's config.json) gives the defaults instead of the
recipe's; --show prints the recipe as Python to copy. --model.config NAME_OR_PATH starts from random
weights with the shape of a preset, a config.json or a directory with one, --init-from MODEL from
the weights of a model; then no recipe is needed.
--objective NAME chooses what is learned: causal-lm, masked-lm, span-corruption, denoising, seq2seq
or dialogue.

--dry-run prints the numbers of the run, its memory on each device by part and its work, and stops;
no data is needed. --compile beside it compiles the step ahead of time and adds XLA's own figures;
--devices N does either for N devices that this machine need not have.

"""
    + SEVERAL_PROCESSES
    + """
Example: jax-lm train gpt2-norwegian --data.train features/train --data.validation features/held-out
         --tokens 2e9 --batch-size 64 --run-dir runs/web
"""
)


def configure(default: TrainConfig, args: list[str], prog: str) -> TrainConfig:
    """A configuration with the arguments put in.

    Args:
        default: the recipe's.
        args: the words after the recipe.
        prog: for messages.

    Raises:
        JaxLMError: a file cannot be read.
        UsageError: a flag, key, preset or objective is not known.
    """
    shaped = default.init_from  # weights whose shape stands in the recipe: not read before the run
    default, rest = read_config_file(default, args)
    default, rest = _with_model(default, rest, shaped)
    default, rest = _with_objective(default, rest)
    for names in (LENGTHS, BATCHES):  # a flag for one of them takes the place of another
        flags = {name: _is_given(name, rest) for name in names}
        if any(flags.values()):
            exactly_one({name: given or None for name, given in flags.items()}, names)
            cleared: dict[str, Any] = dict.fromkeys(names)
            default = replace(default, **cleared)
    return parse(tyro.conf.AvoidSubcommands[TrainConfig], rest, prog, DESCRIPTION, default)


def _with_model(
    default: TrainConfig, args: list[str], shaped: str | None
) -> tuple[TrainConfig, list[str]]:
    place, rest = take_value(args, "--model.config")
    weights, others = take_value(args, "--init-from")
    if place is not None and weights is not None:
        raise UsageError("--init-from brings its model's shape with it: leave --model.config out")
    if weights is None:
        weights = default.init_from
    else:
        default, rest = replace(default, init_from=weights), others
    if place is not None:
        model = model_config(place)
    elif weights not in (None, shaped):
        from jax_lm.pretrained import find_model

        model = find_model(weights).config()
    else:
        return default, rest
    return replace(default, model=model, objective=_usual_objective(model, default)), rest


def _usual_objective(model: FamilyConfig, default: TrainConfig) -> Any:
    known = objectives_of(model.kind)
    if default.objective.name in known:
        return default.objective
    return usual_objective(model.family, model.kind)


def _with_objective(default: TrainConfig, args: list[str]) -> tuple[TrainConfig, list[str]]:
    name, rest = take_value(args, "--objective")
    if name is None:
        return default, rest
    if name not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise UsageError(f"--objective {name}: not one of {known}{nearest(name, OBJECTIVES)}")
    same = default.objective.name == name
    return (default if same else replace(default, objective=OBJECTIVES[name]())), rest


def model_config(place: str) -> FamilyConfig:
    """The configuration of a preset, a config.json, a directory with one, or a name on the hub.

    Raises:
        JaxLMError: the file cannot be read, or asks for what is not implemented.
        UsageError: it is none of these.
    """
    if place in PRESETS:
        return replace(PRESETS[place], vocab_size=None)  # the tokenizer's
    if "/" in place and not Path(place).exists() and is_hub_name(place):
        from jax_lm.pretrained import find_model

        known: FamilyConfig = find_model(place).config()
        return known
    if not Path(place).exists():
        raise UsageError(
            f"--model.config {place}: neither a config.json, nor a directory with one, nor a "
            f"preset{nearest(place, PRESETS)}; presets: {', '.join(PRESETS)}"
        )
    from jax_lm.huggingface.directory import load_config

    config: FamilyConfig = load_config(Path(place))
    return config


def _is_given(name: str, args: list[str]) -> bool:
    spellings = (f"--{name}", f"--{name.replace('_', '-')}")
    return any(arg.split("=", 1)[0] in spellings for arg in args)
