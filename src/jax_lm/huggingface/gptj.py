"""GPT-J in transformers' files."""

import re

from jax_lm.huggingface.activation_names import ACTIVATION_NAMES
from jax_lm.huggingface.config_table import ConfigTable, Field
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import (
    Table,
    linear,
    linear_from_heads,
    linear_to_heads,
    norm,
    pair,
    vocabulary,
)
from jax_lm.models.gptj import GPTJConfig

CONFIG = ConfigTable(
    fields=(
        Field("vocab_size", "vocab_size", 50400, "count"),
        Field("n_positions", "context_length", 2048, "count"),
        Field("n_embd", "embed_dim", 4096, "count"),
        Field("n_layer", "num_layers", 28, "count"),
        Field("n_head", "num_heads", 16, "count"),
        Field("n_inner", "mlp_dim", None, "count", null=True),
        Field("rotary_dim", "rotary_dim", 64, "count"),
        Field("activation_function", "activation", "gelu_new", "text", choices=ACTIVATION_NAMES),
        Field(("resid_pdrop", "embd_pdrop", "attn_pdrop"), "dropout", 0.0),
        Field("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Field("initializer_range", "init_std", 0.02),
        # A key of ours: how the weights began, which no file of theirs says.
        Field("jax_lm_initialization", "initialization", "published", "text", quiet=True),
    ),
    required={"tie_word_embeddings": False},
    # What the first files say: what there is no GPT-J without, and GPT-2's keys with no meaning.
    harmless={"rotary": (True,), "scale_attn_weights": (True,)},
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


def table(config: GPTJConfig) -> Table:
    """GPT-J's weights: rotary pairs are neighbours in both, so no channel moves."""
    heads = config.num_heads
    attention, mlp = "h.{layer}.attn", "h.{layer}.mlp"
    return Table(
        rules=(
            pair("token_embedding", "wte.weight", vocabulary(config.vocab_size)),
            *norm("blocks.norm", "h.{layer}.ln_1"),
            *(
                pair(
                    f"blocks.attention.{ours}_weight",
                    f"{attention}.{theirs}_proj.weight",
                    linear_to_heads(heads),
                )
                for ours, theirs in (("query", "q"), ("key", "k"), ("value", "v"))
            ),
            pair(
                "blocks.attention.output_weight",
                f"{attention}.out_proj.weight",
                linear_from_heads(heads),
            ),
            *linear("blocks.feed_forward.up", f"{mlp}.fc_in"),
            *linear("blocks.feed_forward.down", f"{mlp}.fc_out"),
            *norm("final_norm", "ln_f"),
        ),
        prefix="transformer.",
        heads=linear(
            "output",
            "lm_head",
            vocabulary(config.vocab_size),
            bias=vocabulary(config.vocab_size),
        ),
        # Causal masks and rotary angles, which older versions stored.
        ignored=re.compile(r"h\.\d+\.attn\.(bias|masked_bias|embed_positions)"),
    )


FAMILY = HubFamily(
    model_type="gptj",
    family="gptj",
    architecture="GPTJForCausalLM",
    config=CONFIG,
    table=table,
)
