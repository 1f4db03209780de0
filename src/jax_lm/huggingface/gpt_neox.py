"""GPT-NeoX and Pythia in transformers' files."""

import re
from collections.abc import Mapping
from typing import Any

from jax_lm.errors import UsageError
from jax_lm.huggingface.activation_names import ACTIVATION_NAMES
from jax_lm.huggingface.config_table import ConfigTable, Field, Group
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import (
    IDENTITY,
    Rule,
    Table,
    interleaved_heads,
    linear,
    linear_from_heads,
    norm,
    pair,
    vocabulary,
)
from jax_lm.huggingface.rotary_keys import ROTARY_KEYS, rotary_parameters
from jax_lm.huggingface.widths import Width
from jax_lm.models.gpt_neox import GPTNeoXConfig


def _read_rotary(values: Mapping[str, Any]) -> dict[str, Any]:
    """``rope_parameters``, or the two keys of before version 5."""
    base = values.get("rotary_emb_base", 10_000)
    found = rotary_parameters(values, theta=base, known=("partial_rotary_factor",))
    if found["rope_type"] != "default":
        raise UsageError(f"rope_type is {found['rope_type']!r}; implemented: default")
    fraction = found.get("partial_rotary_factor", values.get("rotary_pct", 0.25))
    if not isinstance(fraction, int | float) or isinstance(fraction, bool):
        raise UsageError(f"rotary_pct must be a number, not {fraction!r}")
    return {"rotary_base": found["rope_theta"], "rotary_fraction": float(fraction)}


def _write_rotary(config: GPTNeoXConfig) -> dict[str, Any]:
    """In the older form, which every version of transformers reads, and other programs too."""
    return {"rotary_emb_base": config.rotary_base, "rotary_pct": config.rotary_fraction}


MLP_DIM = Width(
    "intermediate_size",
    "mlp_dim",
    24576,
    lambda values: 4 * int(values.get("hidden_size", 6144)),
    lambda config: config.mlp_dim or 4 * config.embed_dim,
)
CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 50432, "count"),
        Field("max_position_embeddings", "context_length", 2048, "count"),
        Field("hidden_size", "embed_dim", 6144, "count"),
        Field("num_hidden_layers", "num_layers", 44, "count"),
        Field("num_attention_heads", "num_heads", 64, "count"),
        Field("hidden_act", "activation", "gelu", "text", choices=ACTIVATION_NAMES),
        Field(("hidden_dropout", "attention_dropout"), "dropout", 0.0),
        Field("layer_norm_eps", "norm_epsilon", 1e-5),
        Field("initializer_range", "init_std", 0.02),
        Field("use_parallel_residual", "parallel_residual", True, "flag"),
        Field("attention_bias", "attention_bias", True, "flag"),
        Field("tie_word_embeddings", "tied", False, "flag"),
        # A key of ours: how the weights began, which no file of theirs says.
        Field("jax_lm_initialization", "initialization", "published", "text", quiet=True),
    ),
    groups=(
        MLP_DIM.group(),
        Group((*ROTARY_KEYS, "rotary_emb_base", "rotary_pct"), _read_rotary, _write_rotary),
    ),
    # transformers reads neither of the two that GPT-NeoX 20B's file has.
    ignored=frozenset({"is_decoder", "attention_probs_dropout_prob", "hidden_dropout_prob"}),
)


def table(config: GPTNeoXConfig) -> Table:
    """GPT-NeoX's weights; queries, keys and values are one matrix, head by head."""
    layer, attention = "layers.{layer}", "layers.{layer}.attention"
    qkv = interleaved_heads(3, config.num_heads)
    projections = [f"blocks.attention.{name}" for name in ("query", "key", "value")]
    fused = tuple(
        Rule(f"{attention}.query_key_value.{kind}", tuple(f"{p}_{kind}" for p in projections), qkv)
        for kind in (("weight", "bias") if config.attention_bias else ("weight",))
    )
    tokens = vocabulary(config.vocab_size)
    return Table(
        rules=(
            pair("token_embedding", "embed_in.weight", tokens),
            *norm("blocks.attention_norm", f"{layer}.input_layernorm"),
            *fused,
            *linear(
                "blocks.attention.output",
                f"{attention}.dense",
                linear_from_heads(config.num_heads),
                IDENTITY if config.attention_bias else None,
            ),
            *norm("blocks.feed_forward_norm", f"{layer}.post_attention_layernorm"),
            *linear("blocks.feed_forward.up", f"{layer}.mlp.dense_h_to_4h"),
            *linear("blocks.feed_forward.down", f"{layer}.mlp.dense_4h_to_h"),
            *norm("final_norm", "final_layer_norm"),
        ),
        prefix="gpt_neox.",
        heads=() if config.tied else (pair("output_weight", "embed_out.weight", tokens),),
        tied={"embed_out.weight": "embed_in.weight"} if config.tied else {},
        # The output matrix as it is called in memory; transformers renames it when it saves.
        older_names={r"^lm_head\.": "embed_out."},
        # Causal masks and rotary angles, which older versions stored.
        ignored=re.compile(
            r"(layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)|rotary_emb\.inv_freq)"
        ),
    )


FAMILY = HubFamily(
    model_type="gpt_neox",
    family="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    config=CONFIG,
    table=table,
)
