"""The objectives by name, and the one place where a configuration becomes an objective."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jax_lm.errors import JaxLMError
from jax_lm.objectives.base import Objective, Wanted
from jax_lm.objectives.causal_lm import CausalLMConfig, causal_lm
from jax_lm.objectives.denoising import Denoising, DenoisingConfig
from jax_lm.objectives.dialogue import Dialogue, DialogueConfig
from jax_lm.objectives.masked_lm import MaskedLM, MaskedLMConfig
from jax_lm.objectives.seq2seq import JoinedPairs, Seq2Seq, Seq2SeqConfig
from jax_lm.objectives.span_corruption import SpanCorruption, SpanCorruptionConfig
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.types import ModelKind

ObjectiveConfig = (
    CausalLMConfig
    | MaskedLMConfig
    | SpanCorruptionConfig
    | DenoisingConfig
    | Seq2SeqConfig
    | DialogueConfig
)
OBJECTIVES: Mapping[str, type[ObjectiveConfig]] = {
    "causal-lm": CausalLMConfig,
    "masked-lm": MaskedLMConfig,
    "span-corruption": SpanCorruptionConfig,
    "denoising": DenoisingConfig,
    "seq2seq": Seq2SeqConfig,
    "dialogue": DialogueConfig,
}
PAIRED = ("seq2seq", "dialogue")
"""Objectives of rows of mode ``pairs``."""
Make = Callable[[Any, Tokenizer, Wanted], Objective]
MAKERS: Mapping[tuple[str, ModelKind], Make] = {
    ("causal-lm", "decoder"): lambda config, tokenizer, wanted: causal_lm,
    ("masked-lm", "encoder"): MaskedLM.of,
    ("span-corruption", "encoder-decoder"): SpanCorruption.of,
    ("denoising", "encoder-decoder"): Denoising.of,
    ("seq2seq", "encoder-decoder"): Seq2Seq.of,
    ("seq2seq", "decoder"): JoinedPairs.of,
    ("dialogue", "decoder"): Dialogue.of,
}
"""What makes each objective, by its name and the kind of model that it trains."""


PUBLISHED = {"bart": "denoising"}
"""Families that were published with another objective than the first of their kind."""


def objectives_of(kind: ModelKind) -> tuple[str, ...]:
    """Names of the objectives that train models of a kind, the usual one first."""
    return tuple(name for name, trained in MAKERS if trained == kind)


def usual_objective(family: str, kind: ModelKind) -> ObjectiveConfig:
    """What a family of models was published with, at its published settings."""
    return OBJECTIVES[PUBLISHED.get(family, objectives_of(kind)[0])]()


def spells_text(config: ObjectiveConfig) -> bool:
    """Whether the targets are text that the rows hold, so that bits per byte mean something."""
    return config.name in ("causal-lm", *PAIRED)


def for_scoring(config: ObjectiveConfig) -> ObjectiveConfig:
    """The objective as held-out rows are scored: what training mixes in is left out."""
    return replace(config, alpha=0.0) if isinstance(config, DialogueConfig) else config


def described(config: ObjectiveConfig) -> str:
    """An objective's name and settings in a line."""
    settings = ", ".join(
        f"{name} {value}" for name, value in vars(config).items() if name != "name"
    )
    return f"{config.name} ({settings})" if settings else config.name


def check_kind(config: ObjectiveConfig, kind: ModelKind) -> None:
    """Refuse an objective that trains other kinds of models.

    Raises:
        JaxLMError: naming those that train this one.
    """
    if (config.name, kind) not in MAKERS:
        trained = " and ".join(f"{other}s" for name, other in MAKERS if name == config.name)
        raise JaxLMError(
            f"objective {config.name} trains {trained}, and this model is of kind {kind}: choose "
            f"--objective {' or '.join(objectives_of(kind))}"
        )


def make_objective(
    config: ObjectiveConfig,
    tokenizer: Tokenizer,
    *,
    kind: ModelKind,
    input_length: int,
    target_length: int | None = None,
    decoder_start_id: int | None = None,
) -> Objective:
    """The objective that a configuration describes.

    Args:
        config: which, and its numbers.
        tokenizer: that cut the rows.
        kind: of the model.
        input_length: width of the model's inputs, its context length.
        target_length: width of an encoder-decoder's targets, or a decoder's longest output where
            rows are pairs; None: what the objective gives for ``input_length``.
        decoder_start_id: what an encoder-decoder's decoder reads first.

    Raises:
        JaxLMError: the objective trains other kinds of models, or needs tokens that the tokenizer
            lacks, or lengths do not fit.
    """
    check_kind(config, kind)
    wanted = Wanted(
        kind=kind,
        input_length=input_length,
        target_length=target_length,
        decoder_start_id=decoder_start_id,
    )
    return MAKERS[config.name, kind](config, tokenizer, wanted)
