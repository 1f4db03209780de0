"""``jax-lm evaluate --generate`` and ``--lm-eval``: texts written, and benchmarks of others."""

import logging
from typing import TYPE_CHECKING

from jax_lm.cli.evaluate_arguments import Arguments
from jax_lm.documents.reading import ReadingOptions

if TYPE_CHECKING:
    from jax_lm.evaluation.downstream.running import HarnessResult
    from jax_lm.evaluation.generated.generation_metrics import GenerationResult


def evaluate_otherwise(given: Arguments) -> None:
    """Run what the flags ask for, print it and write it."""
    from jax_lm.evaluation.results.writing import write_results

    found = _generated(given) if given.generate else _tasks(given)
    print(found.table())
    if given.generations is not None:
        print(f"texts in {given.generations}")
    if given.output is not None:
        print(f"written to {write_results([found], given.output, False)}")


def _generated(given: Arguments) -> "GenerationResult":
    from jax_lm.evaluation.generated.generating import GenerationOptions, evaluate_generation

    options = {name: getattr(given, name) for name in vars(GenerationOptions())}
    reading = {name: getattr(given, name) for name in vars(ReadingOptions())}
    return evaluate_generation(
        given.model, given.specs, GenerationOptions(**options), ReadingOptions(**reading)
    )


def _tasks(given: Arguments) -> "HarnessResult":
    from jax_lm.evaluation.downstream.model import HarnessOptions
    from jax_lm.evaluation.downstream.running import run_harness

    assert given.lm_eval is not None
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return run_harness(
        given.model,
        [task for task in given.lm_eval.split(",") if task],
        include=given.lm_eval_include,
        limit=given.limit,
        options=HarnessOptions(batch_size=given.batch_size, dtype=given.dtype),
    )
