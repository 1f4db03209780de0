"""``jax-lm train [RECIPE]``: a run, with any leaf of its configuration overridden."""

from jax_lm.cli.arguments import take_flag
from jax_lm.cli.dry_run import take_dry_run
from jax_lm.cli.processes import take_processes
from jax_lm.cli.train_arguments import configure
from jax_lm.errors import UsageError
from jax_lm.recipes.registry import RECIPES, find_recipe
from jax_lm.recipes.showing import source_of
from jax_lm.training.config import TrainConfig
from jax_lm.training.freed_memory import keep_freed_memory


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
    config = configure(recipe(), rest, prog)
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
