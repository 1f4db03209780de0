"""T5, both versions, in transformers' files."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

from jax_lm.errors import UsageError
from jax_lm.huggingface.config_table import ConfigTable, Field, Group
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import (
    Rule,
    Table,
    linear,
    linear_from_heads,
    linear_to_heads,
    norm,
    pair,
    vocabulary,
)
from jax_lm.models.layers.activations import Activation
from jax_lm.models.t5 import T5Config

HEAD = "lm_head.weight"
ACTIVATIONS: Mapping[str, Activation] = {
    "relu": "relu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "gelu_python": "gelu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "silu",
}
"""The first word for each of ours is the one written. Not ``gelu``, which ``gated-`` before it
turns into ``gelu_new``."""


def _read_feed_forward(values: Mapping[str, Any]) -> dict[str, Any]:
    """From ``feed_forward_proj`` and from the two keys that newer files derive from it."""
    projection = values.get("feed_forward_proj", "relu")
    words = str(projection).split("-")
    gated, name = len(words) > 1, words[-1]
    if projection == "gated-gelu":
        name = "gelu_new"
    if name not in ACTIVATIONS or words[:-1] not in ([], ["gated"]):
        known = ", ".join(ACTIVATIONS)
        raise UsageError(
            f"feed_forward_proj is {projection!r}; implemented: {known}, each also after 'gated-'"
        )
    for key, derived in (("dense_act_fn", name), ("is_gated_act", gated)):
        if values.get(key, derived) != derived:
            raise UsageError(
                f"{key} is {values[key]!r}, but feed_forward_proj {projection!r} means {derived!r}"
            )
    return {"activation": ACTIVATIONS[name], "gated": gated}


def _write_feed_forward(config: T5Config) -> dict[str, Any]:
    name = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation)
    if config.gated:
        # The published files' word for the tanh approximation.
        return {"feed_forward_proj": f"gated-{'gelu' if name == 'gelu_new' else name}"}
    return {"feed_forward_proj": name}


def _read_head(values: Mapping[str, Any]) -> dict[str, Any]:
    """Before ``scale_decoder_outputs`` came, an untied head meant that nothing is scaled."""
    tied = values.get("tie_word_embeddings", True)
    scaled = values.get("scale_decoder_outputs", tied)
    for key, value in (("tie_word_embeddings", tied), ("scale_decoder_outputs", scaled)):
        if not isinstance(value, bool):
            raise UsageError(f"{key} must be true or false, not {value!r}")
    return {"tied": tied, "scale_output": scaled}


def _read_start(values: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs begin with padding where nothing else is said, as in every published T5."""
    key = "decoder_start_token_id"
    start = values.get(key)
    if start is None:
        key, start = "pad_token_id", values.get("pad_token_id", 0)
    if start is not None and not (type(start) is int and start >= 0):
        raise UsageError(f"{key} must be a token id, not {start!r}")
    return {"decoder_start_id": start}


CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 32_128, "count"),
        Field("n_positions", "context_length", 512, "count"),
        Field("d_model", "embed_dim", 512, "count"),
        Field("d_kv", "head_dim", 64, "count"),
        Field("d_ff", "mlp_dim", 2048, "count"),
        Field("num_layers", "num_layers", 6, "count"),
        Field("num_decoder_layers", "num_decoder_layers", None, "count", null=True),
        Field("num_heads", "num_heads", 8, "count"),
        Field("relative_attention_num_buckets", "num_buckets", 32, "count"),
        Field("relative_attention_max_distance", "max_distance", 128, "count"),
        Field("dropout_rate", "dropout", 0.1),
        Field("layer_norm_epsilon", "norm_epsilon", 1e-6),
        Field("initializer_factor", "init_std", 1.0),
    ),
    groups=(
        Group(
            ("feed_forward_proj", "dense_act_fn", "is_gated_act"),
            _read_feed_forward,
            _write_feed_forward,
        ),
        Group(
            ("tie_word_embeddings", "scale_decoder_outputs"),
            _read_head,
            lambda c: {"tie_word_embeddings": c.tied, "scale_decoder_outputs": c.scale_output},
        ),
        Group(
            ("decoder_start_token_id",),
            _read_start,
            lambda c: {"decoder_start_token_id": c.decoder_start_id},
        ),
    ),
    required={"is_encoder_decoder": True, "is_decoder": False},
)


def table(config: T5Config) -> Table:
    """T5's weights; a stack's first block holds the position bias of all its blocks."""
    words, output = vocabulary(config.vocab_size), ("output_weight",)
    embedding = "shared.weight"
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    return Table(
        rules=(
            Rule(embedding, ("token_embedding",), words),
            *_stack("encoder", config, cross=False),
            *_stack("decoder", config, cross=True),
            *(() if config.tied else (Rule(HEAD, output, words),)),
        ),
        tied=dict.fromkeys([*copies, HEAD] if config.tied else copies, embedding),
        # The first published files hold one, which nothing ever read.
        ignored=re.compile(r"decoder\.block\.0\.layer\.1\..*\.relative_attention_bias\.weight"),
    )


def _stack(name: str, config: T5Config, *, cross: bool) -> tuple[Rule, ...]:
    blocks, theirs = f"{name}.blocks", f"{name}.block.{{layer}}.layer"
    bias = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    attend = "cross_attention"
    attended = (
        *norm(f"{blocks}.{attend}_norm", f"{theirs}.1.layer_norm", bias=False),
        *_attention(f"{blocks}.{attend}", f"{theirs}.1.EncDecAttention", config.num_heads),
    )
    last = 2 if cross else 1
    return (
        pair(f"{name}.relative_bias.bucket_bias", bias),
        *norm(f"{blocks}.attention_norm", f"{theirs}.0.layer_norm", bias=False),
        *_attention(f"{blocks}.attention", f"{theirs}.0.SelfAttention", config.num_heads),
        *(attended if cross else ()),
        *norm(f"{blocks}.feed_forward_norm", f"{theirs}.{last}.layer_norm", bias=False),
        *_feed_forward(f"{blocks}.feed_forward", f"{theirs}.{last}.DenseReluDense", config),
        *norm(f"{name}.final_norm", f"{name}.final_layer_norm", bias=False),
    )


def _attention(ours: str, theirs: str, num_heads: int) -> tuple[Rule, ...]:
    inward, outward = linear_to_heads(num_heads), linear_from_heads(num_heads)
    return (
        *linear(f"{ours}.query", f"{theirs}.q", inward, bias=None),
        *linear(f"{ours}.key", f"{theirs}.k", inward, bias=None),
        *linear(f"{ours}.value", f"{theirs}.v", inward, bias=None),
        *linear(f"{ours}.output", f"{theirs}.o", outward, bias=None),
    )


def _feed_forward(ours: str, theirs: str, config: T5Config) -> tuple[Rule, ...]:
    inward = {"gate": "wi_0", "up": "wi_1"} if config.gated else {"up": "wi"}
    layers = {**inward, "down": "wo"}
    return tuple(
        rule
        for name, layer in layers.items()
        for rule in linear(f"{ours}.{name}", f"{theirs}.{layer}", bias=None)
    )


def _with_weights(config: T5Config, names: Collection[str]) -> T5Config:
    """Version 1.1 as transformers 5 writes it: called tied, but with a head of its own."""
    if config.tied and not config.scale_output and HEAD in names:
        return dataclasses.replace(config, tied=False)
    return config


FAMILY = HubFamily(
    model_type="t5",
    family="t5",
    architecture="T5ForConditionalGeneration",
    also_read=("T5WithLMHeadModel", "T5Model"),
    config=CONFIG,
    table=table,
    with_weights=_with_weights,
)
