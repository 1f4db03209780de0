"""Evaluates a MODEL on text or feature rows: the work behind ``jax-lm evaluate``."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jax_lm.dataclass_json import from_json
from jax_lm.evaluation.documents import score_documents
from jax_lm.evaluation.objective_rows import objective_config, score_rows
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.result import Evaluation
from jax_lm.huggingface.tensor_files import read_json
from jax_lm.models.decoder import Decoder
from jax_lm.objectives.registry import OBJECTIVES, ObjectiveConfig
from jax_lm.preprocessing.manifest import manifest_path
from jax_lm.preprocessing.remote_features import local_features
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
    specs = [local_features(spec) for spec in specs]
    features = any(manifest_path(spec).exists() for spec in specs)
    if isinstance(opened.model, Decoder) and options.objective is None and not features:
        return score_documents(opened, specs, options)
    trained = _of_run(opened.path)
    objective = objective_config(options.objective, trained.objective, opened.model.config)
    return score_rows(opened, specs, objective, options, trained.sequence_length)


class _Trained(NamedTuple):
    """How a run of ours trained the model; None: no run did, or it does not say."""

    objective: ObjectiveConfig | None = None
    sequence_length: int | None = None


def _of_run(path: Path) -> _Trained:
    """What the run recorded that made the model at ``RUN/final`` or ``RUN/checkpoints/STEP``."""
    run = path.parent if path.name == "final" else path.parent.parent
    config = run / RUN_CONFIG
    if path.name != "final" and path.parent.name != "checkpoints":
        return _Trained()
    values = read_json(config) if config.is_file() else {}
    named, data = values.get("objective"), values.get("data")
    if not isinstance(named, dict) or named.get("name") not in OBJECTIVES:
        return _Trained()
    length = data.get("sequence_length") if isinstance(data, dict) else None
    return _Trained(from_json(OBJECTIVES[named["name"]], named, str(config)), length)
