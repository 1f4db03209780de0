"""BART in transformers' files."""

from collections.abc import Mapping
from typing import Any

from jax_lm.errors import UsageError
from jax_lm.huggingface.activation_names import ACTIVATION_NAMES
from jax_lm.huggingface.config_table import ConfigTable, Field, Group
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import (
    SQUEEZE,
    Rule,
    Table,
    compose,
    linear,
    linear_from_heads,
    linear_to_heads,
    norm,
    pair,
    vocabulary,
)
from jax_lm.huggingface.widths import Width
from jax_lm.models.bart import BartConfig


def _theirs(key: str, default: int) -> Any:
    """The value of a key as a function of config.json."""
    return lambda values: values.get(key, default)


WIDTHS = (
    Width(
        "encoder_ffn_dim",
        "mlp_dim",
        4096,
        lambda values: 4 * int(values.get("d_model", 1024)),
        lambda config: config.encoder.mlp_dim,
    ),
    Width(
        "decoder_ffn_dim",
        "decoder_mlp_dim",
        4096,
        _theirs("encoder_ffn_dim", 4096),
        lambda config: config.decoder.mlp_dim,
    ),
    Width(
        "decoder_layers",
        "num_decoder_layers",
        12,
        _theirs("encoder_layers", 12),
        lambda config: config.decoder.num_layers,
    ),
    Width(
        "decoder_attention_heads",
        "num_decoder_heads",
        16,
        _theirs("encoder_attention_heads", 16),
        lambda config: config.decoder.num_heads,
    ),
)


def _read_depth(values: Mapping[str, Any]) -> dict[str, Any]:
    """Files of older versions say the encoder's depth twice."""
    depth, again = values.get("encoder_layers", 12), values.get("num_hidden_layers")
    if again not in (None, depth):
        raise UsageError(f"encoder_layers {depth}, num_hidden_layers {again}; they must be equal")
    return {}


CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 50265, "count"),
        Field("max_position_embeddings", "context_length", 1024, "count"),
        Field("d_model", "embed_dim", 1024, "count"),
        Field("encoder_layers", "num_layers", 12, "count"),
        Field("encoder_attention_heads", "num_heads", 16, "count"),
        Field("activation_function", "activation", "gelu", "text", choices=ACTIVATION_NAMES),
        Field("scale_embedding", "scale_embedding", False, "flag"),
        Field("dropout", "dropout", 0.1),
        Field("attention_dropout", "attention_dropout", 0.0),
        Field("activation_dropout", "activation_dropout", 0.0),
        Field("init_std", "init_std", 0.02),
        Field("pad_token_id", "pad_id", 1, "id", null=True),
        Field("decoder_start_token_id", "decoder_start_id", 2, "id", null=True),
    ),
    groups=(
        *(width.group() for width in WIDTHS),
        Group(("num_hidden_layers",), _read_depth, lambda config: {}),
        # By default transformers ends every text with the id 2, whatever the tokenizer's EOS is.
        Group(
            ("forced_eos_token_id",),
            lambda values: {},
            lambda config: {"forced_eos_token_id": None},
        ),
    ),
    required={
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "decoder_layerdrop": 0.0,
        "encoder_layerdrop": 0.0,
        "is_decoder": False,
        "normalize_before": False,
        "normalize_embedding": True,
        "static_position_embeddings": False,
        "tie_word_embeddings": True,
    },
    ignored=frozenset({"classif_dropout", "force_bos_token_to_be_generated"}),
    # Rows before the first position, as the first files say it.
    harmless={"extra_pos_embeddings": (2,)},
)


def table(config: BartConfig) -> Table:
    """BART's weights; one token embedding for both stacks and the output."""
    tokens = vocabulary(config.vocab_size)
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    return Table(
        rules=(
            pair("token_embedding", "shared.weight", tokens),
            *_stack("encoder", config.encoder.num_heads),
            *_stack("decoder", config.decoder.num_heads),
            *_attention("decoder", "cross_attention", "encoder_attn", config.decoder.num_heads),
        ),
        prefix="model.",
        heads=(pair("output_bias", "final_logits_bias", compose(SQUEEZE, tokens)),),
        tied=dict.fromkeys(copies, "shared.weight"),
        # The bare model's files, among them bart-base's, have none: it is zero.
        optional=frozenset({"final_logits_bias"}),
    )


def _stack(name: str, num_heads: int) -> tuple[Rule, ...]:
    layer = name + ".layers.{layer}"
    return (
        pair(f"{name}.position_embedding", f"{name}.embed_positions.weight"),
        *norm(f"{name}.embedding_norm", f"{name}.layernorm_embedding"),
        *_attention(name, "attention", "self_attn", num_heads),
        *linear(f"{name}.blocks.feed_forward.up", f"{layer}.fc1"),
        *linear(f"{name}.blocks.feed_forward.down", f"{layer}.fc2"),
        *norm(f"{name}.blocks.feed_forward_norm", f"{layer}.final_layer_norm"),
    )


def _attention(stack: str, ours: str, theirs: str, num_heads: int) -> tuple[Rule, ...]:
    """The rules of one attention and of the norm after it."""
    ours, theirs = f"{stack}.blocks.{ours}", stack + ".layers.{layer}." + theirs
    to_heads = linear_to_heads(num_heads)
    inward = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
    return (
        *(
            rule
            for name, projection in inward.items()
            for rule in linear(f"{ours}.{name}", f"{theirs}.{projection}", to_heads, to_heads)
        ),
        *linear(f"{ours}.output", f"{theirs}.out_proj", linear_from_heads(num_heads)),
        *norm(f"{ours}_norm", f"{theirs}_layer_norm"),
    )


FAMILY = HubFamily(
    model_type="bart",
    family="bart",
    architecture="BartForConditionalGeneration",
    also_read=("BartModel",),
    config=CONFIG,
    table=table,
)
