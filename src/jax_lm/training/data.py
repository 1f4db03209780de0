"""Opens what a run reads: training rows, held-out rows, and the tokenizer that cut both."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.loading.rows import RowStore, open_rows
from jax_lm.preprocessing.cache import features_for
from jax_lm.preprocessing.manifest import tokenizer_directory
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.training.config import DataConfig, TrainConfig

Say = Callable[[str], None]


class TrainingData(NamedTuple):
    """Everything a run reads."""

    train: RowStore
    validation: dict[str, RowStore]
    """Held-out rows by the name in their metrics: ``val``, or ``val/NAME`` where there are more."""
    tokenizer: Tokenizer


def open_data(config: DataConfig, sequence_length: int, say: Say) -> TrainingData:
    """Open the rows, preprocessing what is named as a SPEC.

    Raises:
        JaxLMError: rows are missing, damaged, of another length or of another tokenizer.
        UsageError: no training data is named, or a held-out name is used twice.
    """
    if not config.train:
        raise UsageError("no training data: pass --data.train with a feature PREFIX or a SPEC")
    given = None if config.tokenizer is None else Path(config.tokenizer)
    prefix = features_for(
        config.train,
        tokenizer=given,
        sequence_length=sequence_length,
        max_documents=config.max_documents,
        say=say,
    )
    directory = tokenizer_directory(prefix)
    validation = {}
    for name, spec in _named(config.validation).items():
        held_out = features_for(spec, tokenizer=directory, sequence_length=sequence_length, say=say)
        validation[name] = open_rows(held_out, say)
    return TrainingData(open_rows(prefix, say), validation, load_tokenizer(directory))


def with_vocabulary(config: TrainConfig, tokenizer: Tokenizer) -> TrainConfig:
    """The configuration with the model's vocabulary size filled in.

    Raises:
        JaxLMError: the configured size is not the tokenizer's.
    """
    size = config.model.vocab_size
    if size not in (None, tokenizer.vocab_size):
        raise JaxLMError(
            f"--model.vocab-size is {size} but the features' tokenizer has {tokenizer.vocab_size} "
            "ids: leave the flag out"
        )
    return replace(config, model=replace(config.model, vocab_size=tokenizer.vocab_size))


def _named(validation: tuple[str, ...]) -> dict[str, str]:
    """SPECs by metric prefix; ``NAME=SPEC`` names one, otherwise its last part does."""
    named: dict[str, str] = {}
    for item in validation:
        name, equals, spec = item.partition("=")
        if not equals or "/" in name or "?" in name:
            name, spec = Path(item).name, item
        if name in named:
            raise UsageError(
                f"two held-out sets are called {name!r}: use --data.validation NAME=.."
            )
        named[name] = spec
    if len(named) == 1:
        return {"val": next(iter(named.values()))}
    return {f"val/{name}": spec for name, spec in named.items()}
