"""``jax-lm train [RECIPE]``: a run, with any leaf of its configuration overridden."""

from jax_lm.cli.arguments import take_flag
from jax_lm.cli.dry_run import take_dry_run
from jax_lm.cli.processes import SEVERAL_PROCESSES, take_processes
from jax_lm.cli.train_arguments import configure
from jax_lm.errors import UsageError
from jax_lm.recipes.registry import RECIPES, find_recipe
from jax_lm.recipes.showing import source_of
from jax_lm.training.config import TrainConfig
from jax_lm.training.freed_memory import keep_freed_memory

DESCRIPTION = (
    """Train a model from a recipe; `jax-lm recipes` lists them.

--config FILE (JSON or YAML, such as any run's config.json) gives the defaults instead of the
recipe's; --show prints the recipe as Python to copy. --model.config NAME_OR_PATH starts from random
weights with the shape of a preset, a config.json or a directory with one, --init-from MODEL from
the weights of a model; then no recipe is needed.
--objective NAME chooses what is learned: causal-lm, masked-lm, span-corruption, denoising, seq2seq
or dialogue.

--dry-run prints the numbers of the run, its memory on each device by part and its work, and stops;
no data is needed where the vocabulary is known. --compile beside it compiles the step ahead of time
and adds XLA's own figures; --devices N does either for N devices that this machine need not have.

"""
    + SEVERAL_PROCESSES
    + """
Example: jax-lm train gpt2-norwegian --data.train features/train --data.validation features/held-out
         --tokens 2e9 --batch-size 64 --run-dir runs/web
"""
)


def main(args: list[str]) -> None:
    """Run the verb."""
    named = bool(args) and not args[0].startswith("-")
    if not named and not _says_what(args):
        raise UsageError(
            f"name a recipe first: jax-lm train {'|'.join(RECIPES)} [options], or give "
            "--model.config, --init-from or --config"
        )
    recipe = find_recipe(args[0]) if named else TrainConfig
    show, rest = take_flag(args[named:], "--show")
    if show and not named:
        raise UsageError("--show prints a recipe: name one, as in jax-lm train quickstart --show")
    if show:
        print(source_of(recipe))
        return
    dry, rest = take_dry_run(rest)
    processes, rest = take_processes(rest)
    prog = f"jax-lm train {args[0]}" if named else "jax-lm train [RECIPE]"
    config = configure(recipe(), rest, prog, DESCRIPTION)
    if dry is not None:
        dry.run(config)
        return
    keep_freed_memory()  # before JAX has threads
    from jax_lm.training.hosts.distributed import joined  # after parsing: --help need not load JAX
    from jax_lm.training.run import train

    with joined(processes):
        train(config)


def _says_what(args: list[str]) -> bool:
    flags = {arg.split("=", 1)[0] for arg in args}
    return bool(flags & {"--model.config", "--init-from", "--config", "--help", "-h"})
