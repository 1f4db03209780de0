"""The flags of ``jax-lm tokenizer``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jax_lm.cli.source_arguments import SourceArguments
from jax_lm.documents.reading import ReadingOptions
from jax_lm.tokenizers.settings import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class TrainArguments(TrainingSettings, SourceArguments):
    """Flags of ``tokenizer train``."""

    output: Annotated[Path, tyro.conf.arg(aliases=["--output-path"])]
    """Directory to write."""
    overwrite: bool = False
    """Replace the tokenizer that is there."""


@dataclass(frozen=True, kw_only=True)
class ShowArguments(ReadingOptions):
    """Flags of ``tokenizer show``; those about reading belong to ``--spec``."""

    tokenizer: tyro.conf.Positional[str]
    """Directory or file of a tokenizer (tokenizer.json, vocab.json with merges.txt, SentencePiece
    .model), or a name on the Hugging Face hub."""
    text: str | None = None
    """Show how this text is cut; without it, the vocabulary."""
    ids: bool = False
    """One line a token, with its id."""
    spec: tuple[str, ...] = ()
    """Show token statistics of these documents."""
    encoder: Literal["auto", "tokenizers", "gigatoken", "fastokens"] = "auto"
    """What counts the tokens of --spec; auto: the fastest whose ids are those of tokenizers."""
