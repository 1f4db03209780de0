"""OPT in transformers' files."""

from jax_lm.huggingface.activation_names import ACTIVATION_NAMES
from jax_lm.huggingface.config_table import ConfigTable, Field
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import (
    IDENTITY,
    TRANSPOSE,
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
from jax_lm.models.opt import OPTConfig

MLP_DIM = Width(
    "ffn_dim",
    "mlp_dim",
    3072,
    lambda values: 4 * int(values.get("hidden_size", 768)),
    lambda config: config.mlp_dim or 4 * config.embed_dim,
)
CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 50272, "count"),
        Field("max_position_embeddings", "context_length", 2048, "count"),
        Field("hidden_size", "embed_dim", 768, "count"),
        Field("num_hidden_layers", "num_layers", 12, "count"),
        Field("num_attention_heads", "num_heads", 12, "count"),
        Field("word_embed_proj_dim", "token_dim", None, "count", null=True),
        Field("activation_function", "activation", "relu", "text", choices=ACTIVATION_NAMES),
        Field("dropout", "dropout", 0.1),
        Field("attention_dropout", "attention_dropout", 0.0),
        Field("init_std", "init_std", 0.02),
        Field("do_layer_norm_before", "pre_norm", True, "flag"),
        Field(
            "_remove_final_layer_norm",
            "final_norm",
            False,
            "flag",
            read=lambda removed: not removed,
            write=lambda kept: not kept,
        ),
        Field("enable_bias", "bias", True, "flag"),
        Field("layer_norm_elementwise_affine", "norm_parameters", True, "flag"),
    ),
    groups=(MLP_DIM.group(),),
    required={"layerdrop": 0.0, "tie_word_embeddings": True},
    # Read by no version of transformers.
    ignored=frozenset({"activation_dropout"}),
)


def table(config: OPTConfig) -> Table:
    """OPT's weights; a norm without parameters has none in the files either."""
    layer, attention = "layers.{layer}", "layers.{layer}.self_attn"
    to_heads, from_heads = linear_to_heads(config.num_heads), linear_from_heads(config.num_heads)
    bias = IDENTITY if config.bias else None
    inward = {"query": "q", "key": "k", "value": "v"}
    return Table(
        rules=(
            pair("token_embedding", "embed_tokens.weight", vocabulary(config.vocab_size)),
            pair("position_embedding", "embed_positions.weight"),
            *_projections(config),
            *_norm(config, "blocks.attention_norm", f"{layer}.self_attn_layer_norm"),
            *(
                rule
                for ours, theirs in inward.items()
                for rule in linear(
                    f"blocks.attention.{ours}",
                    f"{attention}.{theirs}_proj",
                    to_heads,
                    to_heads if config.bias else None,
                )
            ),
            *linear("blocks.attention.output", f"{attention}.out_proj", from_heads, bias),
            *_norm(config, "blocks.feed_forward_norm", f"{layer}.final_layer_norm"),
            *linear("blocks.feed_forward.up", f"{layer}.fc1", TRANSPOSE, bias),
            *linear("blocks.feed_forward.down", f"{layer}.fc2", TRANSPOSE, bias),
            *(_norm(config, "final_norm", "final_layer_norm") if config.has_final_norm else ()),
        ),
        prefix="model.decoder.",
        tied={"lm_head.weight": "embed_tokens.weight"},
        # Files of the bare model.
        older_names={r"^decoder\.": "model.decoder."},
    )


def _projections(config: OPTConfig) -> tuple[Rule, ...]:
    if not config.projected:
        return ()
    return (
        *linear("project_in", "project_in", TRANSPOSE, None),
        *linear("project_out", "project_out", TRANSPOSE, None),
    )


def _norm(config: OPTConfig, ours: str, theirs: str) -> tuple[Rule, ...]:
    return norm(ours, theirs) if config.norm_parameters else ()


FAMILY = HubFamily(
    model_type="opt",
    family="opt",
    architecture="OPTForCausalLM",
    also_read=("OPTModel",),
    config=CONFIG,
    table=table,
)
