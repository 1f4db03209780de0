"""The kinds of models that can be read and written; a new one is a new row."""

from collections.abc import Mapping
from typing import Any

from jax_lm.errors import JaxLMError
from jax_lm.huggingface import bart, gpt2, gpt_neox, gptj, llama, opt, roberta, t5
from jax_lm.huggingface.config_table import read_config, write_config
from jax_lm.huggingface.family import HubFamily

HUB_FAMILIES: dict[str, HubFamily] = {
    "bart": bart.FAMILY,
    "bert": roberta.BERT,
    "gpt2": gpt2.FAMILY,
    "gpt_neox": gpt_neox.FAMILY,
    "gptj": gptj.FAMILY,
    "t5": t5.FAMILY,
    "llama": llama.LLAMA,
    "mistral": llama.MISTRAL,
    "opt": opt.FAMILY,
    "qwen2": llama.QWEN2,
    "qwen3": llama.QWEN3,
    "roberta": roberta.ROBERTA,
}


def family_of(values: Mapping[str, Any], where: str) -> HubFamily:
    """The family that a config.json asks for.

    Raises:
        JaxLMError: it is none of ours, or a variant that we cannot read.
    """
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in HUB_FAMILIES:
        raise JaxLMError(
            f"{where}: model_type is {model_type!r}; the families that can be read: "
            f"{', '.join(HUB_FAMILIES)}"
        )
    family = HUB_FAMILIES[model_type]
    architectures = values.get("architectures") or list(family.readable)
    if not isinstance(architectures, list):
        raise JaxLMError(f"{where}: architectures must be a list of names, not {architectures!r}")
    if not set(map(str, architectures)) & set(family.readable):
        raise JaxLMError(
            f"{where}: architectures is {architectures!r}; those that can be read: "
            f"{', '.join(family.readable)}"
        )
    return family


def family_for(config: Any) -> HubFamily:
    """The family that a configuration of ours is written as."""
    return next(
        one for one in HUB_FAMILIES.values() if one.family == config.family and one.writes(config)
    )


def config_from_json(values: Mapping[str, Any], where: str) -> Any:
    """Our configuration from a config.json of transformers; absent keys have its defaults.

    Args:
        values: what the file holds.
        where: the file, for messages.

    Raises:
        JaxLMError: the family is unknown, or keys have impossible values or ask for what is not
            implemented.
    """
    family = family_of(values, where)
    return read_config(family.config, values, where, family.config_class)


def config_to_json(config: Any) -> dict[str, Any]:
    """The config.json of a model, without the tokenizer's ids."""
    family = family_for(config)
    return {
        "architectures": [family.architecture],
        "model_type": family.model_type,
        "use_cache": True,
        **write_config(family.config, config),
    }
