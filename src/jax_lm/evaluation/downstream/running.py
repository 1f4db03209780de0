"""Runs tasks of lm-evaluation-harness on a MODEL."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError, UsageError, nearest
from jax_lm.evaluation.downstream.adapter import adapter_class, harness_module, opened_model
from jax_lm.evaluation.downstream.model import HarnessOptions

CLOSE = 0.75
"""Likeness of names from which one may be meant; the harness has thousands."""


@dataclass(frozen=True, kw_only=True)
class HarnessResult:
    """What tasks found."""

    model: str
    results: dict[str, Any]
    """As the harness returns them: numbers by task, versions, settings."""

    def table(self) -> str:
        """The harness's own tables."""
        make_table = harness_module("utils").make_table
        parts = [make_table(self.results)]
        if self.results.get("groups"):
            parts.append(make_table(self.results, "groups"))
        return "\n".join([f"model      {self.model}", "", *parts]).rstrip()

    def to_json(self) -> dict[str, Any]:
        """The numbers, what they mean, and which version of the harness found them."""
        names = ("results", "groups", "group_subtasks", "versions", "n-shot", "higher_is_better")
        found = {name: _json(self.results[name]) for name in names if name in self.results}
        version = harness_module("").__version__
        return {"model": self.model, "lm_eval_version": version, **found}


def run_harness(
    model: str,
    tasks: Sequence[str],
    *,
    include: Path | None = None,
    limit: int | None = None,
    options: HarnessOptions | None = None,
) -> HarnessResult:
    """Run tasks of the harness on a model.

    Args:
        model: MODEL, a decoder or an encoder-decoder.
        tasks: their names, and those of groups and tags.
        include: a directory with tasks of your own (YAML files).
        limit: first so many documents of each task; None: all of them.
        options: how requests are answered.

    Raises:
        JaxLMError: lm_eval is not installed, a task cannot be loaded, or the model cannot be read.
        UsageError: there is no task of that name.
    """
    if include is not None and not include.is_dir():
        raise JaxLMError(f"{include}: no such directory of tasks")
    evaluator, manager = harness_module("evaluator"), harness_module("tasks").TaskManager
    # It asks git about the current directory, and git says on stderr that this is no repository.
    evaluator.get_git_commit_hash = lambda: None
    known = manager(include_path=None if include is None else str(include))
    for task in tasks:
        if task not in known.all_tasks:
            raise UsageError(
                f"--lm-eval {task}: no such task (--lm-eval-include DIR adds your own)"
                f"{nearest(task, known.all_tasks, cutoff=CLOSE)}"
            )
    adapter = adapter_class()(opened=opened_model(model, options or HarnessOptions()))
    try:
        found = evaluator.simple_evaluate(
            model=adapter,
            tasks=list(tasks),
            task_manager=known,
            limit=limit,
            log_samples=False,
        )
    except OSError as error:  # what libraries of data sets raise for files and networks
        reason = str(error).partition("\n")[0]
        raise JaxLMError(
            f"--lm-eval {','.join(tasks)}: the documents of a task cannot be read ({reason})"
        ) from error
    return HarnessResult(model=str(adapter.answers.opened.path), results=found)


def _json(value: Any) -> Any:
    """The value as JSON has it: numbers that are not finite are null."""
    if isinstance(value, dict):
        return {str(name): _json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    if isinstance(value, float):  # NumPy's float64 is one
        return float(value) if math.isfinite(value) else None
    return value if isinstance(value, str | bool | int | None) else str(value)
