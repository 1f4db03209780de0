"""``jax-lm evaluate``: text or feature rows scored, and the numbers printed, written and logged."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jax_lm.cli.evaluate_arguments import Arguments

if TYPE_CHECKING:
    from jax_lm.evaluation.results.result import Evaluation


def evaluate_scores(parsed: Arguments) -> None:
    """Score what the flags name."""
    if parsed.wandb_project is not None:
        from jax_lm.trackers.wandb import require_wandb

        require_wandb("--wandb-project")
    found = _found(parsed)
    if parsed.output is not None:
        from jax_lm.evaluation.results.writing import write_results

        print(f"written to {write_results(found, parsed.output, parsed.all_checkpoints)}")
    if parsed.plot is not None:
        from jax_lm.evaluation.results.plotting import write_plot

        print(f"drawn in {write_plot(found, parsed.plot)}")
    if parsed.wandb_project is not None:
        _log(found, parsed)


def _found(parsed: Arguments) -> Sequence["Evaluation"]:
    """What was found, printed as it is."""
    from jax_lm.evaluation.evaluate import evaluate, evaluate_checkpoints
    from jax_lm.evaluation.options import EvaluateOptions
    from jax_lm.evaluation.results.table import checkpoint_lines

    options = EvaluateOptions(**{name: getattr(parsed, name) for name in vars(EvaluateOptions())})
    if not parsed.all_checkpoints:
        found = evaluate(parsed.model, parsed.specs, options)
        print(found.table())
        return [found]
    all_found: list[Evaluation] = []
    for one in evaluate_checkpoints(parsed.model, parsed.specs, options):
        print("\n".join(checkpoint_lines(one, first=not all_found)), flush=True)
        all_found.append(one)
    return all_found


def _log(found: Sequence["Evaluation"], parsed: Arguments) -> None:
    from jax_lm.evaluation.results.writing import directory_of, log_to_wandb
    from jax_lm.trackers.wandb import WandbSettings

    assert parsed.wandb_project is not None
    settings = WandbSettings(project=parsed.wandb_project, mode=parsed.wandb_mode)
    where = Path() if parsed.output is None else directory_of(parsed.output)
    name = parsed.run_name or parsed.model.rstrip("/").rpartition("/")[2]
    log_to_wandb(found, settings, where, name=name, step=parsed.step)
