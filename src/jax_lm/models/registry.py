"""The families by name; a new family is a new row."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Key

from jax_lm.models.axes import AxisNames, parameter_axes
from jax_lm.models.bart import Bart, BartConfig
from jax_lm.models.base import ModelConfig
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.gpt_neox import GPTNeoX, GPTNeoXConfig
from jax_lm.models.gptj import GPTJ, GPTJConfig
from jax_lm.models.llama import Llama, LlamaConfig
from jax_lm.models.opt import OPT, OPTConfig
from jax_lm.models.roberta import Roberta, RobertaConfig
from jax_lm.models.t5 import T5, T5Config

FamilyConfig = (
    BartConfig
    | GPT2Config
    | GPTJConfig
    | GPTNeoXConfig
    | LlamaConfig
    | OPTConfig
    | RobertaConfig
    | T5Config
)
"""The configuration of any family."""


class Family(NamedTuple):
    """A family's configuration and model classes."""

    config: type[ModelConfig]
    model: Any
    """The class; ``init(key, config)`` gives random weights as published."""


FAMILIES = {
    "bart": Family(BartConfig, Bart),
    "gpt2": Family(GPT2Config, GPT2),
    "gpt_neox": Family(GPTNeoXConfig, GPTNeoX),
    "gptj": Family(GPTJConfig, GPTJ),
    "llama": Family(LlamaConfig, Llama),
    "opt": Family(OPTConfig, OPT),
    "roberta": Family(RobertaConfig, Roberta),
    "t5": Family(T5Config, T5),
}


def init_model(key: Key[Array, ""], config: ModelConfig) -> Any:
    """A model of any family with random weights as published; its vocabulary must be known."""
    return FAMILIES[config.family].model.init(key, config)


@cache
def abstract_model(config: ModelConfig) -> Any:
    """The model with shapes in the place of arrays."""
    return jax.eval_shape(partial(init_model, config=config), jax.random.key(0))


def count_parameters(config: ModelConfig, *, embeddings: bool = True, within: str = "") -> int:
    """Number of parameters: tied ones once, padding of the vocabulary not at all.

    Args:
        config: with its vocabulary known.
        embeddings: False leaves out every table that ids or positions look up, but counts the
            output matrix, also where it is one of them.
        within: count what lies under this path alone, such as ``.encoder``.
    """
    model = abstract_model(config)
    axes = jax.tree.leaves(parameter_axes(model), is_leaf=lambda leaf: isinstance(leaf, AxisNames))
    leaves = jax.tree_util.tree_flatten_with_path(model)[0]
    paths = [jax.tree_util.keystr(path) for path, _ in leaves]
    total = 0
    for path, (_, leaf), names in zip(paths, leaves, axes, strict=True):
        if path.startswith(within) and (embeddings or not path.endswith("_embedding")):
            total += _size(leaf, names, config)
    tied = ".output_weight" not in paths
    if not (embeddings or within) and tied:
        total += (config.vocab_size or 0) * model.token_embedding.shape[1]
    return total


def _size(leaf: jax.ShapeDtypeStruct, names: AxisNames, config: ModelConfig) -> int:
    sizes = zip(leaf.shape, names, strict=True)
    count = 1
    for size, name in sizes:
        count *= (config.vocab_size or 0) if name == "vocab" else size
    return count
