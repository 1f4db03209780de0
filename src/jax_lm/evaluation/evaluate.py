"""Evaluates a MODEL on text or feature rows: the work behind ``jax-lm evaluate``."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from jax_lm.checkpoints import list_steps
from jax_lm.dataclass_json import from_json
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.evaluation.documents import score_documents
from jax_lm.evaluation.objective_rows import objective_config, score_rows
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.results.result import Evaluation
from jax_lm.huggingface.tensor_files import read_json
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder import Encoder
from jax_lm.objectives.registry import OBJECTIVES, ObjectiveConfig
from jax_lm.preprocessing.manifest import manifest_path
from jax_lm.preprocessing.remote_features import local_features
from jax_lm.pretrained import OpenedModel, open_model
from jax_lm.sharding.mesh import make_mesh
from jax_lm.sharding.rules import on_mesh, rules_of, state_shardings

RUN_CONFIG = "config.json"
CHECKPOINTS = "checkpoints"
STEP = "step-"


def evaluate(model: str, specs: Sequence[str], options: EvaluateOptions) -> Evaluation:
    """Score text or feature rows with a model.

    Text is scored document by document by a decoder, and by a masked model where the method is
    ``pseudo``; rows, and text for models of other kinds, as an objective asks. All devices share
    the work; their number does not change the numbers.

    Raises:
        JaxLMError: the model or the text cannot be read, or there is nothing to score.
    """
    mesh, rules = make_mesh(options.mesh), rules_of(options.mesh)
    with on_mesh(mesh, options.mesh):
        opened = open_model(model, lambda whole: state_shardings(whole, whole, mesh, rules))
        specs = [local_features(spec) for spec in specs]
        features = any(manifest_path(spec).exists() for spec in specs)
        if _by_document(opened, options, features):
            found = score_documents(opened, specs, options, mesh)
        else:
            trained = _of_run(opened.path)
            objective = objective_config(options.objective, trained.objective, opened.model.config)
            length = trained.sequence_length
            found = score_rows(opened, specs, objective, options, mesh, length)
    return replace(found, step=_step(opened.path))


def evaluate_checkpoints(
    run: str, specs: Sequence[str], options: EvaluateOptions
) -> Iterator[Evaluation]:
    """Score the same text or rows with every checkpoint that a run keeps, the oldest first.

    Raises:
        JaxLMError: the run keeps none, or as for ``evaluate``.
    """
    steps = list_steps(Path(run) / CHECKPOINTS)
    if not steps:
        raise JaxLMError(
            f"{run}: no checkpoints there: --all-checkpoints needs a run directory on this machine"
        )
    compressors: dict[str, float] = {}
    for step in steps:
        found = evaluate(f"{run}@{step}", specs, options)
        compressors = compressors or dict(found.compressors)
        options = replace(options, compressors=False)  # the documents are the same
        yield replace(found, compressors=compressors)


def _by_document(opened: OpenedModel, options: EvaluateOptions, features: bool) -> bool:
    config, method = opened.model.config, options.method
    if method == "pseudo":
        if not isinstance(opened.model, Encoder):
            raise UsageError(
                f"--method pseudo is for masked models, and {config.family} is of kind "
                f"{config.kind}: leave it out"
            )
        if features or options.objective is not None:
            raise UsageError("--method pseudo scores documents: give it text and no --objective")
        return True
    if method is not None and not isinstance(opened.model, Decoder):
        raise UsageError(
            f"--method {method} is for decoders, and {config.family} is of kind {config.kind}: "
            "leave it out (masked models also take pseudo)"
        )
    return isinstance(opened.model, Decoder) and options.objective is None and not features


class _Trained(NamedTuple):
    """How a run of ours trained the model; None: no run did, or it does not say."""

    objective: ObjectiveConfig | None = None
    sequence_length: int | None = None


def _of_run(path: Path) -> _Trained:
    """What the run recorded that made the model at ``RUN/final`` or ``RUN/checkpoints/STEP``."""
    run = path.parent if path.name == "final" else path.parent.parent
    config = run / RUN_CONFIG
    if path.name != "final" and path.parent.name != CHECKPOINTS:
        return _Trained()
    values = read_json(config) if config.is_file() else {}
    named, data = values.get("objective"), values.get("data")
    if not isinstance(named, dict) or named.get("name") not in OBJECTIVES:
        return _Trained()
    length = data.get("sequence_length") if isinstance(data, dict) else None
    return _Trained(from_json(OBJECTIVES[named["name"]], named, str(config)), length)


def _step(path: Path) -> int | None:
    """The step of a checkpoint, by its directory's name."""
    number = path.name.removeprefix(STEP)
    of_run = path.parent.name == CHECKPOINTS and path.name.startswith(STEP)
    return int(number) if of_run and number.isdigit() else None
