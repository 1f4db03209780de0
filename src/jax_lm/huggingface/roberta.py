"""RoBERTa and BERT in transformers' files."""

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
    linear,
    linear_from_heads,
    linear_to_heads,
    norm,
    pair,
    vocabulary,
)
from jax_lm.huggingface.widths import Width
from jax_lm.models.roberta import RobertaConfig

FIELDS = (
    Field("hidden_size", "embed_dim", 768, "count"),
    Field("num_hidden_layers", "num_layers", 12, "count"),
    Field("num_attention_heads", "num_heads", 12, "count"),
    Field("hidden_act", "activation", "gelu", "text", choices=ACTIVATION_NAMES),
    Field("hidden_dropout_prob", "dropout", 0.1),
    Field("attention_probs_dropout_prob", "attention_dropout", 0.1),
    Field("type_vocab_size", "num_token_types", 2, "count"),
    Field("initializer_range", "init_std", 0.02),
    Field("layer_norm_eps", "norm_epsilon", 1e-12),
)
MLP_DIM = Width(
    "intermediate_size",
    "mlp_dim",
    3072,
    lambda values: 4 * int(values.get("hidden_size", 768)),
    lambda config: config.mlp_dim or 4 * config.embed_dim,
)
REQUIRED = {
    "add_cross_attention": False,
    "is_decoder": False,
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}
POOLER = (
    *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
    *("pooler_size_per_head", "pooler_type"),
)
"""Keys about what is computed after the last block, and not for language modelling."""


def _read_positions(values: Mapping[str, Any]) -> dict[str, Any]:
    """RoBERTa's rows up to that of the padding id are no positions."""
    rows, pad = values.get("max_position_embeddings", 512), values.get("pad_token_id", 1)
    if type(rows) is not int or rows <= pad + 1:
        raise UsageError(
            "max_position_embeddings must be an integer above pad_token_id + 1, after which "
            f"positions count: {pad + 1}, not {rows!r}"
        )
    return {"context_length": rows - pad - 1}


def _write_positions(config: RobertaConfig) -> dict[str, Any]:
    return {"max_position_embeddings": config.first_position + config.context_length}


ROBERTA_CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 50265, "count"),
        Field("pad_token_id", "pad_id", 1, "id"),
        *FIELDS,
    ),
    groups=(
        MLP_DIM.group(),
        Group(("max_position_embeddings",), _read_positions, _write_positions),
    ),
    required=REQUIRED,
    constants={"layout": "roberta"},
)
BERT_CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 30522, "count"),
        Field("pad_token_id", "pad_id", 0, "id", null=True),
        Field("max_position_embeddings", "context_length", 512, "count"),
        *FIELDS,
    ),
    groups=(MLP_DIM.group(),),
    required=REQUIRED,
    ignored=frozenset(POOLER),
    harmless={"directionality": ("bidi",)},
    constants={"layout": "bert"},
)


def roberta_table(config: RobertaConfig) -> Table:
    """RoBERTa's weights."""
    tokens = vocabulary(config.vocab_size)
    return Table(
        rules=_encoder(config),
        prefix="roberta.",
        heads=(
            *linear("head.dense", "lm_head.dense"),
            *norm("head.norm", "lm_head.layer_norm"),
            pair("output_bias", "lm_head.bias", tokens),
        ),
        tied={
            "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        ignored=re.compile(r"embeddings\.position_ids|pooler\.dense\.(weight|bias)"),
    )


def bert_table(config: RobertaConfig) -> Table:
    """BERT's weights; what predicts whether a sentence follows another is left out."""
    tokens = vocabulary(config.vocab_size)
    transform = "cls.predictions.transform"
    return Table(
        rules=_encoder(config),
        prefix="bert.",
        heads=(
            *linear("head.dense", f"{transform}.dense"),
            *norm("head.norm", f"{transform}.LayerNorm"),
            pair("output_bias", "cls.predictions.bias", tokens),
        ),
        tied={
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        # As the files converted from the first TensorFlow checkpoints say.
        older_names={r"\.gamma$": ".weight", r"\.beta$": ".bias"},
        ignored=re.compile(
            r"embeddings\.position_ids|pooler\.dense\.(weight|bias)"
            r"|cls\.seq_relationship\.(weight|bias)"
        ),
    )


def _encoder(config: RobertaConfig) -> tuple[Rule, ...]:
    layer, embeddings = "encoder.layer.{layer}", "embeddings"
    attention, to_heads = f"{layer}.attention", linear_to_heads(config.num_heads)
    tokens = vocabulary(config.vocab_size)
    return (
        pair("token_embedding", f"{embeddings}.word_embeddings.weight", tokens),
        pair("position_embedding", f"{embeddings}.position_embeddings.weight"),
        pair("type_embedding", f"{embeddings}.token_type_embeddings.weight"),
        *norm("embedding_norm", f"{embeddings}.LayerNorm"),
        *(
            rule
            for name in ("query", "key", "value")
            for rule in linear(
                f"blocks.attention.{name}", f"{attention}.self.{name}", to_heads, to_heads
            )
        ),
        *linear(
            "blocks.attention.output",
            f"{attention}.output.dense",
            linear_from_heads(config.num_heads),
            IDENTITY,
        ),
        *norm("blocks.attention_norm", f"{attention}.output.LayerNorm"),
        *linear("blocks.feed_forward.up", f"{layer}.intermediate.dense"),
        *linear("blocks.feed_forward.down", f"{layer}.output.dense"),
        *norm("blocks.feed_forward_norm", f"{layer}.output.LayerNorm"),
    )


ROBERTA = HubFamily(
    model_type="roberta",
    family="roberta",
    architecture="RobertaForMaskedLM",
    config=ROBERTA_CONFIG,
    table=roberta_table,
    writes=lambda config: config.layout == "roberta",
)
BERT = HubFamily(
    model_type="bert",
    family="roberta",
    architecture="BertForMaskedLM",
    also_read=("BertForPreTraining",),
    config=BERT_CONFIG,
    table=bert_table,
    writes=lambda config: config.layout == "bert",
)
