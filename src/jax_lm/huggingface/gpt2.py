"""GPT-2 in transformers' files: the table of weights, and the configuration in both directions."""

import dataclasses
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.huggingface.convert import export_tensors, import_leaves, leaves_by_path
from jax_lm.huggingface.mapping import Rule, Table, fused_heads, heads_first
from jax_lm.huggingface.tensor_files import TensorFiles
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.layers.feed_forward import Activation

MODEL_TYPE = "gpt2"
ARCHITECTURE = "GPT2LMHeadModel"
READABLE_ARCHITECTURES = (ARCHITECTURE, "GPT2Model")
BIAS_KEY = "jax_lm_bias"
"""A key of ours in config.json: false where the zero biases in the file stand for none."""

ACTIVATION_NAMES: dict[Activation, str] = {"gelu_tanh": "gelu_new", "gelu": "gelu"}
ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
}
# What transformers takes where config.json is silent, as files from before version 4 are.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    BIAS_KEY: True,
}
COUNTS = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
RATES = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
NUMBERS = (*RATES, "layer_norm_epsilon", "initializer_range")
REQUIRED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""What the model implements: another value in config.json asks for another model."""


def table(config: GPT2Config) -> Table:
    """GPT-2's weights; its Conv1D matrices are already stored as (in, out)."""
    qkv = fused_heads(3, config.num_heads)
    projections = ("query", "key", "value")
    return Table(
        rules=(
            Rule("wte.weight", ("token_embedding",)),
            Rule("wpe.weight", ("position_embedding",)),
            Rule("h.{layer}.ln_1.weight", ("blocks.attention_norm.scale",)),
            Rule("h.{layer}.ln_1.bias", ("blocks.attention_norm.bias",)),
            Rule(
                "h.{layer}.attn.c_attn.weight",
                tuple(f"blocks.attention.{name}_weight" for name in projections),
                qkv,
            ),
            Rule(
                "h.{layer}.attn.c_attn.bias",
                tuple(f"blocks.attention.{name}_bias" for name in projections),
                qkv,
            ),
            Rule(
                "h.{layer}.attn.c_proj.weight",
                ("blocks.attention.output_weight",),
                heads_first(config.num_heads),
            ),
            Rule("h.{layer}.attn.c_proj.bias", ("blocks.attention.output_bias",)),
            Rule("h.{layer}.ln_2.weight", ("blocks.feed_forward_norm.scale",)),
            Rule("h.{layer}.ln_2.bias", ("blocks.feed_forward_norm.bias",)),
            Rule("h.{layer}.mlp.c_fc.weight", ("blocks.feed_forward.up_weight",)),
            Rule("h.{layer}.mlp.c_fc.bias", ("blocks.feed_forward.up_bias",)),
            Rule("h.{layer}.mlp.c_proj.weight", ("blocks.feed_forward.down_weight",)),
            Rule("h.{layer}.mlp.c_proj.bias", ("blocks.feed_forward.down_bias",)),
            Rule("ln_f.weight", ("final_norm.scale",)),
            Rule("ln_f.bias", ("final_norm.bias",)),
        ),
        prefix="transformer.",
        tied={"lm_head.weight": "wte.weight"},
        # Causal masks, which the files of the first GPT-2 models hold.
        ignored=re.compile(r"h\.\d+\.attn\.(bias|masked_bias)"),
    )


def read_model(files: TensorFiles, config: GPT2Config) -> GPT2:
    """The model of a directory's weights, float32.

    Raises:
        JaxLMError: the weights do not fit the configuration; every tensor at fault is named.
    """
    shapes = {path: leaf.shape for path, leaf in _abstract_leaves(config, bias=True).items()}
    leaves = import_leaves(files, table(config), shapes)
    kept = _abstract_leaves(config, bias=config.bias)
    nonzero = [path for path in leaves if path not in kept and np.any(leaves[path])]
    if nonzero:
        raise JaxLMError(
            f"{files.directory}: config.json says {BIAS_KEY}: false, but these biases are not "
            f"zero: {', '.join(nonzero)}; remove the key to keep them"
        )
    treedef = jax.tree.structure(_abstract_model(config))
    model: GPT2 = jax.tree.unflatten(treedef, [jnp.asarray(leaves[path]) for path in kept])
    return model


def model_tensors(model: GPT2) -> dict[str, np.ndarray]:
    """The model's weights in float32, as transformers names them; absent biases are zeros."""
    full = _abstract_leaves(model.config, bias=True)
    ours = leaves_by_path(model)
    leaves = {
        path: np.asarray(ours[path], np.float32) if path in ours else np.zeros(like.shape, "f4")
        for path, like in full.items()
    }
    return export_tensors(leaves, table(model.config))


def config_from_json(values: Mapping[str, Any], where: str) -> GPT2Config:
    """Our configuration from a config.json of transformers; absent keys have its defaults.

    Args:
        values: what the file holds.
        where: the file, for messages.

    Raises:
        JaxLMError: a key has an impossible value, or asks for what is not implemented.
    """
    values = {**DEFAULTS, **values}
    _refuse_ill_typed(values, where)
    _refuse_unimplemented(values, where)
    try:
        return GPT2Config(
            vocab_size=values["vocab_size"],
            context_length=values["n_positions"],
            num_layers=values["n_layer"],
            num_heads=values["n_head"],
            embed_dim=values["n_embd"],
            mlp_dim=values["n_inner"],
            bias=values[BIAS_KEY],
            activation=ACTIVATIONS[values["activation_function"]],
            dropout=float(values["resid_pdrop"]),
            init_std=float(values["initializer_range"]),
            norm_epsilon=float(values["layer_norm_epsilon"]),
        )
    except UsageError as error:
        raise JaxLMError(f"{where}: {error}") from error


def config_to_json(config: GPT2Config) -> dict[str, Any]:
    """The config.json of a model, without the tokenizer's ids."""
    values = {
        "architectures": [ARCHITECTURE],
        "model_type": MODEL_TYPE,
        "vocab_size": config.vocab_size,
        "n_positions": config.context_length,
        "n_embd": config.embed_dim,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "n_inner": config.mlp_dim,
        "activation_function": ACTIVATION_NAMES[config.activation],
        **dict.fromkeys(RATES, config.dropout),
        "layer_norm_epsilon": config.norm_epsilon,
        "initializer_range": config.init_std,
        **REQUIRED,
        "dtype": "float32",
        "use_cache": True,
    }
    return values if config.bias else {**values, BIAS_KEY: False}


def _refuse_unimplemented(values: Mapping[str, Any], where: str) -> None:
    for key, expected in REQUIRED.items():
        if values.get(key, expected) != expected:
            raise JaxLMError(
                f"{where}: {key} is {_json(values[key])}; only {_json(expected)} is implemented"
            )
    activation = values["activation_function"]
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise JaxLMError(f"{where}: activation_function is {activation!r}; implemented: {known}")
    if len({values[key] for key in RATES}) > 1:
        rates = ", ".join(f"{key} {values[key]}" for key in RATES)
        raise JaxLMError(f"{where}: {rates}; the three dropout rates must be equal")


def _refuse_ill_typed(values: Mapping[str, Any], where: str) -> None:
    counts = [*COUNTS, *(["n_inner"] if values["n_inner"] is not None else [])]
    for key in counts:
        value = values[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise JaxLMError(f"{where}: {key} must be a positive integer, not {value!r}")
    for key in NUMBERS:
        if not isinstance(values[key], int | float) or isinstance(values[key], bool):
            raise JaxLMError(f"{where}: {key} must be a number, not {values[key]!r}")
    if not isinstance(values[BIAS_KEY], bool):
        raise JaxLMError(f"{where}: {BIAS_KEY} must be true or false, not {values[BIAS_KEY]!r}")


def _json(value: Any) -> str:
    return str(value).lower()


def _abstract_model(config: GPT2Config) -> GPT2:
    model: GPT2 = jax.eval_shape(partial(GPT2.init, config=config), jax.random.key(0))
    return model


def _abstract_leaves(config: GPT2Config, *, bias: bool) -> dict[str, jax.ShapeDtypeStruct]:
    return leaves_by_path(_abstract_model(dataclasses.replace(config, bias=bias)))
