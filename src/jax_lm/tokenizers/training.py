"""Learn a tokenizer of any kind from texts, write it, and say what was learned."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jax_lm.errors import UsageError
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters
from jax_lm.tokenizers.corpus import SAMPLE_CHARACTERS, CountedTexts
from jax_lm.tokenizers.files import check_writable, write_directory
from jax_lm.tokenizers.showing import cut_summary, vocabulary_lines
from jax_lm.tokenizers.special import END_OF_TEXT

DEFAULT_VOCAB_SIZE = 8192
DEFAULT_MIN_FREQUENCY = 2


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What to learn."""

    kind: Literal["byte-level-bpe", "characters"] = "byte-level-bpe"
    """Pieces of words over bytes, or single characters."""
    vocab_size: int | None = None
    """Ids wanted by byte-level-bpe, special ones included; 8192 if not given."""
    min_frequency: int | None = None
    """byte-level-bpe merges a pair seen at least so often; 2 if not given."""
    special_tokens: tuple[str, ...] = (END_OF_TEXT,)
    """Tokens no text can spell; they take the first ids."""


def train_tokenizer(texts: Iterable[str], settings: TrainingSettings) -> Tokenizer:
    """Learn from texts.

    Raises:
        UsageError: a setting has no meaning for the kind.
        JaxLMError: no text, or impossible settings.
    """
    if settings.kind == "byte-level-bpe":
        return train_byte_level_bpe(
            texts,
            vocab_size=_or_default(settings.vocab_size, DEFAULT_VOCAB_SIZE),
            min_frequency=_or_default(settings.min_frequency, DEFAULT_MIN_FREQUENCY),
            special_tokens=settings.special_tokens,
        )
    for flag in ("vocab_size", "min_frequency"):
        if getattr(settings, flag) is not None:
            name = flag.replace("_", "-")
            raise UsageError(f"--{name} is for byte-level-bpe; characters takes every character")
    return train_characters(texts, special_tokens=settings.special_tokens)


def train_to_directory(
    texts: Iterable[str], settings: TrainingSettings, directory: Path, overwrite: bool
) -> Iterator[str]:
    """Learn, write the directory whole, and yield lines that say what was learned.

    Raises:
        JaxLMError: the directory is taken, or nothing could be learned.
    """
    check_writable(directory, overwrite)
    watched = CountedTexts(texts, SAMPLE_CHARACTERS)
    tokenizer = train_tokenizer(watched, settings)
    write_directory(tokenizer, directory)
    yield f"learned from {watched.characters:,} characters, written to {directory}"
    yield from vocabulary_lines(tokenizer)
    wanted = _or_default(settings.vocab_size, DEFAULT_VOCAB_SIZE)
    if settings.kind == "byte-level-bpe" and tokenizer.vocab_size < wanted:
        yield f"fewer than the {wanted:,} asked for: no further pair is frequent enough"
    yield f"on the first {sum(map(len, watched.sample)):,} characters: " + cut_summary(
        tokenizer, watched.sample
    )


def _or_default(value: int | None, default: int) -> int:
    return default if value is None else value
