"""GPT-2 in transformers' files."""

import dataclasses
import re

from jax_lm.huggingface.config_table import ConfigTable, Field
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import (
    IDENTITY,
    Rule,
    Table,
    fused_heads,
    heads_first,
    linear,
    norm,
    vocabulary,
)
from jax_lm.models.gpt2 import GPT2Config

CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 50257, "count"),
        Field("n_positions", "context_length", 1024, "count"),
        Field("n_embd", "embed_dim", 768, "count"),
        Field("n_layer", "num_layers", 12, "count"),
        Field("n_head", "num_heads", 12, "count"),
        Field("n_inner", "mlp_dim", None, "count", null=True),
        Field(
            "activation_function",
            "activation",
            "gelu_new",
            "text",
            choices={
                "gelu_new": "gelu_tanh",
                "gelu_pytorch_tanh": "gelu_tanh",
                "gelu": "gelu",
            },
        ),
        Field(("resid_pdrop", "embd_pdrop", "attn_pdrop"), "dropout", 0.1),
        Field("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Field("initializer_range", "init_std", 0.02),
        # A key of ours: false where the zero biases in the file stand for none.
        Field("jax_lm_bias", "bias", True, "flag", quiet=True),
    ),
    required={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    ignored=frozenset(
        {
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        }
    ),
)


def table(config: GPT2Config) -> Table:
    """GPT-2's weights; its Conv1D matrices are already stored as (in, out)."""
    qkv = fused_heads(3, config.num_heads)
    projections = [f"blocks.attention.{name}" for name in ("query", "key", "value")]
    attention, mlp = "h.{layer}.attn", "h.{layer}.mlp"
    return Table(
        rules=(
            Rule("wte.weight", ("token_embedding",), vocabulary(config.vocab_size)),
            Rule("wpe.weight", ("position_embedding",)),
            *norm("blocks.attention_norm", "h.{layer}.ln_1"),
            Rule(f"{attention}.c_attn.weight", tuple(f"{p}_weight" for p in projections), qkv),
            Rule(f"{attention}.c_attn.bias", tuple(f"{p}_bias" for p in projections), qkv),
            *linear(
                "blocks.attention.output", f"{attention}.c_proj", heads_first(config.num_heads)
            ),
            *norm("blocks.feed_forward_norm", "h.{layer}.ln_2"),
            *linear("blocks.feed_forward.up", f"{mlp}.c_fc", IDENTITY),
            *linear("blocks.feed_forward.down", f"{mlp}.c_proj", IDENTITY),
            *norm("final_norm", "ln_f"),
        ),
        prefix="transformer.",
        tied={"lm_head.weight": "wte.weight"},
        # Causal masks, which the files of the first GPT-2 models hold.
        ignored=re.compile(r"h\.\d+\.attn\.(bias|masked_bias)"),
    )


FAMILY = HubFamily(
    model_type="gpt2",
    family="gpt2",
    architecture="GPT2LMHeadModel",
    also_read=("GPT2Model",),
    config=CONFIG,
    table=table,
    stored_as=lambda config: dataclasses.replace(config, bias=True),
)
