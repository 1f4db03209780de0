"""What a run's tokenizer would decide, from what is published, where no data is at hand."""

from dataclasses import replace

from jax_lm.errors import UsageError
from jax_lm.models.base import TokenIds
from jax_lm.models.presets import PRESETS
from jax_lm.models.registry import FamilyConfig
from jax_lm.training.config import TrainConfig

USUAL_IDS = {"pad": 1, "bos": 0, "eos": 2}
"""Of special tokens; sizes do not depend on them."""


def with_published_tokens(config: TrainConfig) -> TrainConfig:
    """The configuration with the vocabulary of the preset whose shape its model has.

    Raises:
        UsageError: the vocabulary is not given, and the shape is no preset's.
    """
    model = config.model
    size = model.vocab_size or _published_vocabulary(model)
    if size is None:
        raise UsageError(
            "the size of the vocabulary is not known: pass --model.vocab-size, or --data.train "
            "with rows"
        )
    return replace(config, model=model.with_tokens(TokenIds(size, **USUAL_IDS)))


def _published_vocabulary(model: FamilyConfig) -> int | None:
    wanted = _shape(model)
    return next((one.vocab_size for one in PRESETS.values() if _shape(one) == wanted), None)


def _shape(model: FamilyConfig) -> tuple[object, ...]:
    """What tells published models apart."""
    return model.family, model.num_layers, model.num_heads, model.embed_dim, _variant(model)


def _variant(model: FamilyConfig) -> object:
    return getattr(model, "variant", None)
