"""Feature rows scored as an objective asks: what masked models and encoder-decoders are good at."""

from collections.abc import Sequence

from jax.sharding import Mesh

from jax_lm.errors import JaxLMError, UsageError, nearest
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.results.result import Evaluation, Resampling
from jax_lm.evaluation.scoring.rows import RowScorer
from jax_lm.evaluation.scoring.scores import total
from jax_lm.loading.rows import RowStore, open_rows
from jax_lm.models.base import ModelConfig
from jax_lm.objectives.registry import (
    OBJECTIVES,
    ObjectiveConfig,
    check_kind,
    described,
    for_scoring,
    make_objective,
    spells_text,
    usual_objective,
)
from jax_lm.preprocessing.cache import features_for
from jax_lm.preprocessing.manifest import manifest_path
from jax_lm.pretrained import OpenedModel
from jax_lm.sharding.mesh import row_shards
from jax_lm.trackers.console import Progress


def score_rows(
    opened: OpenedModel,
    specs: Sequence[str],
    objective: ObjectiveConfig,
    options: EvaluateOptions,
    mesh: Mesh,
    sequence_length: int | None = None,
) -> Evaluation:
    """Score feature rows with a model of any kind; what is drawn depends on a row's index alone.

    Args:
        opened: MODEL, on the mesh.
        specs: one feature PREFIX, or one SPEC, which is preprocessed into the cache.
        objective: the configuration of the objective.
        options: batch size, dtype and limits.
        mesh: whose devices share the work.
        sequence_length: input tokens of a row; None: as many as the model's context holds.

    Raises:
        JaxLMError: the rows cannot be read or made, or do not fit the objective.
        UsageError: there is more than one of them.
    """
    config, objective = opened.model.config, for_scoring(objective)
    check_kind(objective, config.kind)
    _refuse_what_has_no_effect(specs, options, config.context_length)
    length = options.window or sequence_length or config.context_length
    prefix = features_for(
        specs[0],
        tokenizer=opened.tokenizer_path,
        sequence_length=length,
        max_documents=options.max_documents,
        objective=objective,
    )
    rows = open_rows(prefix)
    scorer = _scorer(opened, objective, rows, length, options, mesh)
    with Progress(len(rows), "rows", label="scored") as progress:
        tally = scorer.tally(opened.model, rows, advance=progress.update)
    if not total(tally.scores()).num_tokens:
        raise JaxLMError(f"{prefix}: no targets to score in {len(rows):,} rows")
    return Evaluation(
        model=str(opened.path),
        source=specs[0],
        method=f"{described(objective)}; drawn by row, the same each time",
        unit="rows",
        tally=tally,
        resampling=Resampling(options.resamples, options.resampling_seed),
    )


def _scorer(
    opened: OpenedModel,
    objective: ObjectiveConfig,
    rows: RowStore,
    length: int,
    options: EvaluateOptions,
    mesh: Mesh,
) -> RowScorer:
    config, parts = opened.model.config, row_shards(mesh)
    return RowScorer(
        objective=make_objective(
            objective,
            opened.tokenizer,
            kind=config.kind,
            input_length=length,
            target_length=rows.manifest.target_row_length,
            decoder_start_id=getattr(config, "decoder_start_id", None),
        ),
        byte_lengths=opened.tokenizer.token_byte_lengths() if spells_text(objective) else None,
        whole_rows=objective.name == "causal-lm",
        mesh=mesh,
        batch_size=-(-options.batch_size // parts) * parts,
        dtype=options.dtype,
    )


def _refuse_what_has_no_effect(
    specs: Sequence[str], options: EvaluateOptions, context_length: int
) -> None:
    if len(specs) != 1:
        raise UsageError("rows are scored one set at a time: give one PREFIX or SPEC")
    if options.window is not None and not 1 <= options.window <= context_length:
        raise UsageError(f"--window {options.window} must lie between 1 and {context_length}")
    about_documents = {
        "--method": options.method,
        "--context-length": options.context_length,
        "--document-indices": options.document_indices,
        "--group": options.group or None,
    }
    for flag, value in about_documents.items():
        if value is not None:
            raise UsageError(f"{flag} is about documents, and rows are scored here: leave it out")
    if options.max_documents is not None and manifest_path(specs[0]).exists():
        raise UsageError(f"--max-documents is about text, and {specs[0]} holds features")


def objective_config(
    name: str | None, trained_by: ObjectiveConfig | None, config: ModelConfig
) -> ObjectiveConfig:
    """The objective to score by: the one named, else the model's own, else its family's usual.

    Args:
        name: of an objective, or None.
        trained_by: the configuration that the model's run recorded, or None.
        config: the model's.

    Raises:
        UsageError: no objective is called so.
    """
    if name is None:
        return trained_by or usual_objective(config.family, config.kind)
    if name not in OBJECTIVES:
        raise UsageError(
            f"--objective {name}: not one of {', '.join(OBJECTIVES)}{nearest(name, OBJECTIVES)}"
        )
    return trained_by if trained_by and trained_by.name == name else OBJECTIVES[name]()
