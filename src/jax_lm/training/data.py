"""Opens what a run reads: training rows, held-out rows, and the tokenizer that cut both."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jax_lm.errors import UsageError
from jax_lm.loading.dataset import Order
from jax_lm.loading.mixture import JoinedRows, MixedOrder
from jax_lm.loading.rows import RowSource, RowStore, open_rows
from jax_lm.models.base import TokenIds
from jax_lm.objectives.base import Objective, RowDraws
from jax_lm.objectives.registry import check_kind, make_objective
from jax_lm.preprocessing.cache import features_for
from jax_lm.preprocessing.manifest import manifest_path, tokenizer_directory
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.training.config import TrainConfig

Say = Callable[[str], None]
WEIGHTED = re.compile(
    r"(?P<set>[^?]+(\?([\w.-]+=[^&=]*&)*[\w.-]+=[^&=]+)?)=(?P<weight>-?\d*\.?\d+)"
)
"""A set and its weight; the last option of a SPEC, as in ``ids.bin?separator=0``, is no weight."""


class TrainingData(NamedTuple):
    """Everything a run reads."""

    stores: tuple[RowStore, ...]
    """The training sets, in the order they were named."""
    train: RowSource
    """Their rows."""
    order: Order | None
    """How several sets are mixed; None: the rows of one set, shuffled."""
    shares: dict[str, float]
    """Of the rows that training reads, by set; empty for one set."""
    validation: dict[str, RowStore]
    """Held-out rows by the name in their metrics: ``val``, or ``val/NAME`` where there are more."""
    tokenizer: Tokenizer
    objective: Objective
    """Turns rows into batches."""

    @property
    def target_length(self) -> int:
        """Targets of a row."""
        first = np.zeros(1, np.int64)
        return int(self.objective(self.train.take(first), RowDraws(0, first)).targets.shape[1])

    @property
    def source(self) -> str:
        """What the training sets were made of."""
        return " and ".join(store.manifest.source for store in self.stores)

    @property
    def num_bytes(self) -> int:
        """UTF-8 bytes that the targets of the training sets spell."""
        return sum(store.manifest.totals.num_bytes for store in self.stores)


def open_data(config: TrainConfig, say: Say) -> tuple[TrainingData, TrainConfig]:
    """Open the rows, preprocessing what is named as a SPEC.

    Returns:
        What the run reads, and the configuration with what the tokenizer decides filled in.

    Raises:
        JaxLMError: rows are missing, damaged, of another length, objective or tokenizer; or model,
            objective and tokenizer do not go together.
        UsageError: no training data is named, or a held-out name is used twice.
    """
    if not config.data.train:
        raise UsageError("no training data: pass --data.train with a feature PREFIX or a SPEC")
    check_kind(config.objective, config.model.kind)
    features = partial(
        features_for,
        sequence_length=config.sequence_length,
        objective=config.objective,
        target_length=config.data.target_length,
        mode=config.data.mode,
        say=say,
    )
    tokenizer = None if config.data.tokenizer is None else Path(config.data.tokenizer)
    if tokenizer is not None:  # what does not go together is told before hours of preprocessing
        _resolved(config, load_tokenizer(tokenizer))
    specs, weights = weighted(config.data.train)
    stores = []
    for spec in specs:
        prefix = features(spec, tokenizer=tokenizer, max_documents=config.data.max_documents)
        tokenizer = tokenizer_directory(prefix)  # the sets after the first must share it
        stores.append(open_rows(prefix, say))
    assert tokenizer is not None
    validation = {
        name: open_rows(features(spec, tokenizer=tokenizer), say)
        for name, spec in _named(config.data.validation).items()
    }
    train, order = _mixed(stores, weights, config.seed)
    parts = weights or [float(len(store)) for store in stores]
    shares = {spec: part / sum(parts) for spec, part in zip(specs, parts, strict=True)}
    loaded = load_tokenizer(tokenizer)
    config, objective = _resolved(config, loaded)
    data = TrainingData(
        tuple(stores),
        train,
        order,
        shares if len(stores) > 1 else {},
        validation,
        loaded,
        objective,
    )
    return data, config


def _resolved(config: TrainConfig, tokenizer: Tokenizer) -> tuple[TrainConfig, Objective]:
    """The configuration with what the tokenizer decides, and the objective."""
    config = replace(config, model=config.model.with_tokens(token_ids(tokenizer)))
    return config, open_objective(config, tokenizer)


def token_ids(tokenizer: Tokenizer) -> TokenIds:
    """What a model may need to know of its tokenizer."""
    return TokenIds(tokenizer.vocab_size, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)


def open_objective(config: TrainConfig, tokenizer: Tokenizer) -> Objective:
    """The run's objective.

    Raises:
        JaxLMError: it does not go with the model or the tokenizer.
    """
    return make_objective(
        config.objective,
        tokenizer,
        kind=config.model.kind,
        input_length=config.sequence_length,
        target_length=config.data.target_length,
        decoder_start_id=getattr(config.model, "decoder_start_id", None),
    )


def weighted(train: tuple[str, ...]) -> tuple[list[str], list[float] | None]:
    """Sets and their weights, as in ``A=0.7 B=0.3``; None: no set has one.

    Raises:
        UsageError: some sets have a weight and others none, or one is not positive.
    """
    parts = [None if _is_there(item) else WEIGHTED.fullmatch(item) for item in train]
    if not any(parts):
        return list(train), None
    found = [(match["set"], float(match["weight"])) for match in parts if match is not None]
    if len(found) < len(train) or any(weight <= 0 for _, weight in found):
        raise UsageError(
            f"--data.train {' '.join(train)}: give every set a weight above 0, as in A=0.7 B=0.3"
        )
    return [name for name, _ in found], [weight for _, weight in found]


def _is_there(item: str) -> bool:
    return Path(item).exists() or manifest_path(item).exists()


def _mixed(
    stores: list[RowStore], weights: list[float] | None, seed: int
) -> tuple[RowSource, Order | None]:
    if len(stores) == 1:
        return stores[0], None
    joined = JoinedRows(stores)
    if weights is None:
        return joined, None
    return joined, MixedOrder([len(store) for store in stores], weights, seed)


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
