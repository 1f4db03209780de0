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
    if parsed.generate or parsed.lm_eval is not None:
        evaluate_otherwise(parsed)
    else:
        evaluate_scores(parsed)
