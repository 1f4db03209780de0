"""``jax-lm evaluate MODEL SPEC...``: numbers with their definition attached."""

from jax_lm.cli.arguments import parse
from jax_lm.cli.evaluate_arguments import DESCRIPTION, Arguments
from jax_lm.cli.evaluate_others import evaluate_otherwise
from jax_lm.cli.evaluate_scores import evaluate_scores
from jax_lm.training.freed_memory import keep_freed_memory


def main(args: list[str]) -> None:
    """Run the verb."""
    parsed = parse(Arguments, args, "jax-lm evaluate", DESCRIPTION)
    keep_freed_memory()  # before JAX has threads
    _check_places(parsed)
    if parsed.generate or parsed.lm_eval is not None:
        evaluate_otherwise(parsed)
    else:
        evaluate_scores(parsed)


def _check_places(given: Arguments) -> None:
    """Refuse files that could not be written, before the work that they are for."""
    from jax_lm.evaluation.results.writing import check_place, results_file

    output = None if given.output is None else results_file(given.output)
    for path in (output, given.plot, given.generations):
        if path is not None:
            check_place(path)
