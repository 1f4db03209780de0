"""Learn a tokenizer of any kind from texts, write it, and say what was learned."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters
from jax_lm.tokenizers.corpus import SAMPLE_CHARACTERS, CountedTexts
from jax_lm.tokenizers.description import with_special_tokens
from jax_lm.tokenizers.finding import MODEL
from jax_lm.tokenizers.pretrained import PretrainedTokenizer
from jax_lm.tokenizers.sampling import Sample
from jax_lm.tokenizers.sentencepiece.convert import special_tokens, to_description
from jax_lm.tokenizers.sentencepiece.model import read_model
from jax_lm.tokenizers.sentencepiece.train import train_model
from jax_lm.tokenizers.settings import (
    DEFAULT_MIN_FREQUENCY,
    DEFAULT_VOCAB_SIZE,
    TrainingSettings,
)
from jax_lm.tokenizers.showing import cut_summary, vocabulary_lines
from jax_lm.tokenizers.special import check_special_tokens
from jax_lm.tokenizers.writing import check_writable, write_directory

__all__ = ["TrainingSettings", "train_to_directory", "train_tokenizer"]


def train_tokenizer(texts: Iterable[str], settings: TrainingSettings) -> PretrainedTokenizer:
    """Learn from texts, all of them: a sample is ``train_to_directory``'s to take.

    Raises:
        UsageError: a setting has no meaning for the kind.
        JaxLMError: no text, impossible settings, or a package is not installed.
    """
    given = settings.resolved()
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(given.sentinels or 0))]
    check_special_tokens([*(given.special_tokens or ()), *sentinels])
    if given.is_sentencepiece:
        tokenizer = _train_sentencepiece(texts, given)
    elif given.kind == "characters":
        tokenizer = train_characters(texts, special_tokens=given.special_tokens or ())
    else:
        tokenizer = train_byte_level_bpe(
            texts,
            vocab_size=_or_default(given.vocab_size, DEFAULT_VOCAB_SIZE),
            min_frequency=_or_default(given.min_frequency, DEFAULT_MIN_FREQUENCY),
            special_tokens=given.special_tokens or (),
        )
    if not sentinels:
        return tokenizer
    description = with_special_tokens(tokenizer.description, sentinels)
    return PretrainedTokenizer(description, tokenizer.special, attachments=tokenizer.attachments)


def train_to_directory(
    texts: Iterable[str], settings: TrainingSettings, directory: Path, overwrite: bool
) -> Iterator[str]:
    """Learn, write the directory whole, and yield lines that say what was learned.

    Raises:
        JaxLMError: the directory is taken, or nothing could be learned.
    """
    check_writable(directory, overwrite)
    settings.resolved()  # a contradiction is found before the corpus is read
    sample = Sample(texts, settings)
    watched = CountedTexts(sample, SAMPLE_CHARACTERS)
    tokenizer = train_tokenizer(watched, settings)
    write_directory(tokenizer, directory)
    yield f"learned from {watched.characters:,} characters, written to {directory}"
    if taken := sample.describe():
        yield taken
    yield from vocabulary_lines(tokenizer)
    wanted = _or_default(settings.vocab_size, DEFAULT_VOCAB_SIZE)
    if settings.kind == "byte-level-bpe" and tokenizer.vocab_size < wanted:
        yield f"fewer than the {wanted:,} asked for: no further pair is frequent enough"
    yield f"on the first {sum(map(len, watched.sample)):,} characters: " + cut_summary(
        tokenizer, watched.sample
    )


def _train_sentencepiece(texts: Iterable[str], settings: TrainingSettings) -> PretrainedTokenizer:
    algorithm: Literal["bpe", "unigram"]
    algorithm = "bpe" if settings.kind == "sentencepiece-bpe" else "unigram"
    size = _or_default(settings.vocab_size, DEFAULT_VOCAB_SIZE)
    data = train_model(texts, algorithm, size, settings)
    model = read_model(data, MODEL)
    return PretrainedTokenizer(
        to_description(model, MODEL), special_tokens(model), attachments={MODEL: data}
    )


def _or_default(value: int | None, default: int) -> int:
    return default if value is None else value
