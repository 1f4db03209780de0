"""The end of a run: the model as a Hugging Face directory, and the report."""

from collections.abc import Callable
from typing import Any

from jax_lm.checkpoints import Progress
from jax_lm.errors import JaxLMError
from jax_lm.huggingface.directory import write_directory
from jax_lm.huggingface.model_card import model_card
from jax_lm.models.forward import Model
from jax_lm.objectives.registry import described
from jax_lm.optimizers import config as optimizers
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.trackers.report import write_report
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData
from jax_lm.training.plan import Plan
from jax_lm.training.run_directory import RunDirectory


def finish(
    run: RunDirectory,
    config: TrainConfig,
    plan: Plan,
    data: TrainingData,
    model: Model,
    progress: Progress,
    say: Callable[[str], None],
) -> None:
    """Export ``model`` to ``RUN/final`` and write ``RUN/report.html``.

    Raises:
        JaxLMError: they cannot be written.
    """
    if progress.step < plan.steps:
        say(
            f"time is up at step {progress.step:,} of {plan.steps:,}; a larger --max-time with "
            "--resume auto goes on"
        )
    card = model_card(
        run.path.name,
        model,
        training=_facts(config, plan, data, progress),
        evaluation=_evaluation(run, progress.step),
        example_prompt=next(iter(config.evaluation.prompts), "") or "Once upon a time",
    )
    try:
        write_directory(model, data.tokenizer, run.final, card=card)
        say(f"final     {run.final} (loads in transformers as it is)")
        if _logged(run):
            say(f"report    {write_report([run.path], run.report)}")
    except OSError as error:
        raise JaxLMError(
            f"{run.shown}: all steps are taken, but its export cannot be written: "
            f"{error.strerror or error}; make room, and the same command with --resume auto ends it"
        ) from error


def _facts(
    config: TrainConfig, plan: Plan, data: TrainingData, progress: Progress
) -> dict[str, Any]:
    return {
        "data": data.source,
        "objective": described(config.objective),
        "text": f"{data.num_bytes:,} UTF-8 bytes",
        "steps": f"{progress.step:,}",
        "tokens": f"{progress.tokens:,}",
        "epochs": f"{progress.position / plan.rows:.2f}",
        "batch": f"{plan.batch_size} rows of {plan.sequence_length} tokens",
        "optimizer": optimizers.described(config.optimizer),
        "computed in": config.dtype,
        "seed": config.seed,
    }


def _evaluation(run: RunDirectory, step: int) -> dict[str, float]:
    """Held-out metrics of this very step; none where it was not evaluated."""
    return {
        key: value
        for row in _logged(run)
        if row["step"] == step
        for key, value in row.items()
        if key.startswith("val/") and value is not None
    }


def _logged(run: RunDirectory) -> list[dict[str, Any]]:
    """The run's rows of metrics; none of a run whose time was up before its first step."""
    return read_metrics(run.metrics) if run.metrics.is_file() else []
