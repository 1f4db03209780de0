"""Published shapes by name."""

from collections.abc import Mapping

from jax_lm.errors import UsageError, nearest
from jax_lm.models import bart, gpt2, gpt_neox, gptj, llama, opt, roberta, t5
from jax_lm.models.registry import FamilyConfig

PRESETS: Mapping[str, FamilyConfig] = {
    **gpt2.PRESETS,
    **gptj.PRESETS,
    **gpt_neox.PRESETS,
    **opt.PRESETS,
    **llama.PRESETS,
    **roberta.PRESETS,
    **t5.PRESETS,
    **bart.PRESETS,
}


def preset(name: str) -> FamilyConfig:
    """A configuration by name.

    Raises:
        UsageError: there is none; the nearest is named.
    """
    if name not in PRESETS:
        raise UsageError(f"no preset is called {name!r}{nearest(name, PRESETS)}")
    return PRESETS[name]
