"""What feature rows an objective trains on, and whether a set has them."""

from jax_lm.errors import JaxLMError
from jax_lm.objectives.denoising import DenoisingConfig
from jax_lm.objectives.dialogue import DialogueConfig
from jax_lm.objectives.registry import PAIRED, ObjectiveConfig
from jax_lm.objectives.seq2seq import Seq2SeqConfig
from jax_lm.objectives.span_corruption import SpanCorruptionConfig
from jax_lm.preprocessing.cutting.modes import Mode
from jax_lm.preprocessing.manifest import Manifest
from jax_lm.preprocessing.options import ENCODER_DECODER, ONE_PIECE, PreprocessOptions

BARE = "bare"
"""The chat template that adds nothing to the turns."""


def options_for(
    objective: ObjectiveConfig,
    *,
    sequence_length: int,
    target_length: int | None = None,
    mode: Mode | None = None,
    max_documents: int | None = None,
) -> PreprocessOptions:
    """How a SPEC becomes the rows that an objective trains on.

    Args:
        objective: the objective.
        sequence_length: T, the model's input tokens a row.
        target_length: tokens of an output, where rows are pairs; None: T.
        mode: how documents are cut; None: pairs where the objective needs them, else packed.
        max_documents: read no more documents.

    Raises:
        UsageError: the mode does not go with the objective, or T is too short for it.
    """
    if isinstance(objective, Seq2SeqConfig | DialogueConfig):
        return PreprocessOptions(
            mode=mode or "pairs",
            max_sequence_length=sequence_length,
            max_input_length=sequence_length,
            max_output_length=target_length or sequence_length,
            chat_template=BARE if isinstance(objective, DialogueConfig) else None,
            max_documents=max_documents,
        )
    spans = objective if isinstance(objective, SpanCorruptionConfig) else SpanCorruptionConfig()
    return PreprocessOptions(
        mode=mode or "packed",
        max_sequence_length=sequence_length,
        objective=objective.name,
        noise_density=spans.noise_density,
        mean_noise_span_length=spans.mean_noise_span_length,
        sentences=isinstance(objective, DenoisingConfig) and objective.permute_ratio > 0,
        max_documents=max_documents,
    )


def refuse_other_rows(prefix: str, manifest: Manifest, wanted: PreprocessOptions) -> None:
    """Refuse a set that was made for other objectives or lengths.

    Rows of causal language modelling serve those objectives that draw targets, too: their last id
    is the next row's first, and is not read.

    Raises:
        JaxLMError: the set cannot be trained on as wanted.
    """
    if wanted.mode == "pairs":
        _refuse_no_pairs(prefix, manifest, wanted)
        return
    if manifest.mode == "pairs":
        raise JaxLMError(
            f"{prefix} holds pairs, which objectives {' and '.join(PAIRED)} train on: preprocess "
            "again without --mode pairs, or choose one of these"
        )
    if wanted.objective == "causal-lm":
        _refuse_drawn(prefix, manifest)
    else:
        _refuse_not_in_one_piece(prefix, manifest, wanted)
    if manifest.sequence_length != wanted.row_length:
        raise JaxLMError(_other_length(prefix, manifest, wanted))


def _refuse_no_pairs(prefix: str, manifest: Manifest, wanted: PreprocessOptions) -> None:
    if manifest.mode != "pairs":
        raise JaxLMError(
            f"{prefix} was made with --mode {manifest.mode} and the objective trains on pairs of "
            "input and output: preprocess again with --mode pairs"
        )
    widths = {
        "--max-input-length": (manifest.row_length, wanted.max_input_length),
        "--max-output-length": (manifest.target_row_length, wanted.max_output_length),
    }
    for flag, (found, most) in widths.items():
        if found is not None and most is not None and found > most:
            raise JaxLMError(
                f"{prefix} was made with {flag} {found}, more than the {most} that the run has "
                f"room for: preprocess again with {flag} {most}, or raise the run's length"
            )


def _refuse_drawn(prefix: str, manifest: Manifest) -> None:
    if manifest.target_kind == "drawn":
        raise JaxLMError(
            f"{prefix} was made with --objective {manifest.settings.get('objective')}, whose rows "
            "lack the token after their last, which causal-lm needs: preprocess again without "
            f"--objective {manifest.settings.get('objective')}"
        )


def _refuse_not_in_one_piece(prefix: str, manifest: Manifest, wanted: PreprocessOptions) -> None:
    again = f"preprocess again with --objective {wanted.objective}"
    if manifest.mode not in ONE_PIECE or manifest.settings.get("seed_compatible"):
        raise JaxLMError(
            f"{prefix} was made with --mode {manifest.mode}, whose rows are for causal-lm alone: "
            f"{again} and --mode {', '.join(ONE_PIECE)}"
        )
    if "segment_ids" in manifest.columns and wanted.objective in ENCODER_DECODER:
        raise JaxLMError(
            f"{prefix} was made with --segment-ids, and an encoder-decoder reads a row as one "
            f"document: {again} and without --segment-ids"
        )
    if wanted.sentences and "sentence_ends" not in manifest.columns:
        raise JaxLMError(
            f"{prefix} does not say where sentences end, which the objective shuffles: {again} "
            "--sentences, or train with --objective.permute-ratio 0"
        )


def _other_length(prefix: str, manifest: Manifest, wanted: PreprocessOptions) -> str:
    length = wanted.max_sequence_length
    again = f"preprocess again with --max-sequence-length {length}"
    if wanted.objective == "span-corruption":
        return (
            f"{prefix} holds rows of {manifest.sequence_length}, but rows of {wanted.row_length} "
            f"give {length} inputs under span corruption: {again} --objective span-corruption"
        )
    return (
        f"{prefix} holds rows of {manifest.sequence_length}, the model wants {length}: {again}, "
        f"or train with --model.context-length {manifest.sequence_length} or, if the model has a "
        f"longer context, --data.sequence-length (evaluate: --window) {manifest.sequence_length}"
    )
