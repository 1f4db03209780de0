"""Evaluates a MODEL on text or feature rows: the work behind ``jax-lm evaluate``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax_lm.dataclass_json import from_json
from jax_lm.evaluation.documents import score_documents
from jax_lm.evaluation.objective_rows import objective_config, score_rows
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.result import Evaluation
from jax_lm.models.decoder import Decoder
from jax_lm.objectives.registry import OBJECTIVES
from jax_lm.preprocessing.manifest import manifest_path
from jax_lm.pretrained import open_model

RUN_CONFIG = "config.json"


def evaluate(model: str, specs: Sequence[str], options: EvaluateOptions) -> Evaluation:
    """Score text or feature rows with a model.

    Text is scored document by document by a decoder; rows, and text for models of other kinds, as
    an objective asks.

    Raises:
        JaxLMError: the model or the text cannot be read, or there is nothing to score.
    """
    opened = open_model(model)
    features = any(manifest_path(spec).exists() for spec in specs)
    if isinstance(opened.model, Decoder) and options.objective is None and not features:
        return score_documents(opened, specs, options)
    trained_by = _of_run(opened.path)
    objective = objective_config(options.objective, trained_by, opened.model.config)
    return score_rows(opened, specs, objective, options)


def _of_run(path: Path) -> Any:
    """The objective that the run which made a model recorded; None: no run of ours made it."""
    for directory in path.parents[:2]:
        config = directory / RUN_CONFIG
        if config.is_file():
            values = json.loads(config.read_text()).get("objective")
            if isinstance(values, dict) and values.get("name") in OBJECTIVES:
                return from_json(OBJECTIVES[values["name"]], values, str(config))
    return None
