"""What a run's tokenizer would decide, from what is published, where no data is at hand."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from jax_lm.models.base import TokenIds
from jax_lm.models.presets import PRESETS
from jax_lm.models.registry import FamilyConfig
from jax_lm.training.config import TrainConfig

USUAL_IDS = {"pad": 1, "bos": 0, "eos": 2}
"""Of special tokens; sizes do not depend on them."""
SIZES: Mapping[str, int] = {"t5": 32_128}
"""Vocabularies that files of a family have and its presets leave open."""


def with_published_tokens(config: TrainConfig, say: Callable[[str], None]) -> TrainConfig:
    """The configuration with a vocabulary: its own, else that of the most similar preset (said)."""
    model = config.model
    size = model.vocab_size
    if size is None:
        of_family = [name for name, one in PRESETS.items() if one.family == model.family]
        name = min(of_family, key=lambda name: _difference(PRESETS[name], model))
        size = PRESETS[name].vocab_size or SIZES[model.family]
        say(
            f"note      vocabulary {size:,}, as {name} has; --model.vocab-size N, or --data.train "
            "with rows, says another"
        )
    return replace(config, model=model.with_tokens(TokenIds(size, **USUAL_IDS)))


def _difference(preset: FamilyConfig, model: FamilyConfig) -> tuple[bool, int, int, int]:
    """What tells published models apart, the most telling first."""
    other_kind = getattr(preset, "variant", None) != getattr(model, "variant", None)
    wider, deeper = preset.embed_dim - model.embed_dim, preset.num_layers - model.num_layers
    differing = sum(asdict(model).get(name) != value for name, value in asdict(preset).items())
    return other_kind, abs(wider), abs(deeper), differing
