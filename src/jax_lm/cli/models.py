"""``jax-lm models``: the published shapes that ``train --model.config`` knows by name."""

from dataclasses import dataclass

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.errors import UsageError, nearest
from jax_lm.models.base import TokenIds
from jax_lm.models.presets import PRESETS
from jax_lm.models.registry import FAMILIES, FamilyConfig, count_parameters

DESCRIPTION = """List the model shapes that train --model.config knows by name.

Example: jax-lm models llama
"""
TYPICAL = TokenIds(vocab_size=32_000, pad=1, bos=0, eos=2)
"""What a shape that leaves it to the tokenizer is counted with."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What to list."""

    families: tyro.conf.Positional[tuple[str, ...]] = ()
    """Families or beginnings of names; default: all."""


def main(args: list[str]) -> None:
    """Run the verb."""
    given = parse(Arguments, args, "jax-lm models", DESCRIPTION)
    for word in given.families:
        if not any(_asked(name, config, (word,)) for name, config in PRESETS.items()):
            known = [*FAMILIES, *PRESETS]
            raise UsageError(f"no model begins with {word!r}{nearest(word, known)}")
    print(
        f"{'name':<22}{'family':<10}{'parameters':>15}{'layers':>8}"
        f"{'width':>7}{'heads':>7}  context"
    )
    for name, config in PRESETS.items():
        if _asked(name, config, given.families):
            print(_row(name, config))


def _asked(name: str, config: FamilyConfig, words: tuple[str, ...]) -> bool:
    return not words or any(name.startswith(word) or config.family == word for word in words)


def _row(name: str, config: FamilyConfig) -> str:
    size = config.vocab_size or TYPICAL.vocab_size
    sized = config.with_tokens(TYPICAL._replace(vocab_size=size))
    return (
        f"{name:<22}{config.family:<10}{count_parameters(sized):>15,}{config.num_layers:>8}"
        f"{config.embed_dim:>7}{config.num_heads:>7}  {config.context_length:,}"
    )
