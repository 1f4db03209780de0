"""LLaMA, Mistral, Qwen2 and Qwen3 in transformers' files."""

import re
from collections.abc import Mapping
from typing import Any

from jax_lm.errors import UsageError
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
from jax_lm.huggingface.rotary_keys import ROTARY_KEYS, rotary_parameters
from jax_lm.huggingface.widths import Width
from jax_lm.models.layers.rotary import RotaryConfig, Scaling
from jax_lm.models.llama import LlamaConfig, default_mlp_dim

SCALING = {
    "factor": "factor",
    "low_freq_factor": "low_frequency_factor",
    "high_freq_factor": "high_frequency_factor",
    "original_max_position_embeddings": "original_context",
}
"""Settings of scaled rotations, theirs and ours."""
SCALINGS: Mapping[str, tuple[Scaling, tuple[str, ...]]] = {
    "default": ("none", ()),
    "linear": ("linear", ("factor",)),
    "llama3": ("llama3", tuple(SCALING)),
}
"""What each ``rope_type`` is called here, and its settings."""


def _read_rotary(values: Mapping[str, Any]) -> dict[str, Any]:
    found = rotary_parameters(values, known=tuple(SCALING))
    kind = found["rope_type"]
    if kind not in SCALINGS:
        raise UsageError(f"rope_type is {kind!r}; implemented: {', '.join(SCALINGS)}")
    scaling, names = SCALINGS[kind]
    if kind == "llama3":
        context = values.get("max_position_embeddings")
        found.setdefault("original_max_position_embeddings", context)
    if kind == "default" and "factor" in found:
        raise UsageError("rotary settings have a factor but no rope_type: say which")
    wrong = [name for name in names if not _is_number(found.get(name))]
    if wrong:
        raise UsageError(f"rope_type {kind!r} needs a number for {', '.join(wrong)}")
    settings: dict[str, Any] = {SCALING[name]: float(found[name]) for name in names}
    if "original_context" in settings:
        settings["original_context"] = int(settings["original_context"])
    return {"rotary": RotaryConfig(base=found["rope_theta"], scaling=scaling, **settings)}


def _write_rotary(config: LlamaConfig) -> dict[str, Any]:
    """In the older form, which every version of transformers reads, and other programs too."""
    rotary, scaling = config.rotary, None
    if rotary.scaling != "none":
        names = SCALINGS[rotary.scaling][1]
        settings = {name: getattr(rotary, SCALING[name]) for name in names}
        scaling = {"rope_type": rotary.scaling, **settings}
    return {"rope_theta": rotary.base, "rope_scaling": scaling}


def _read_window(values: Mapping[str, Any]) -> dict[str, Any]:
    """Qwen's window, which all layers must have, or none."""
    window = values.get("sliding_window", 4096) if values.get("use_sliding_window") else None
    first = values.get("max_window_layers", 28)
    for key, count in (("sliding_window", window), ("max_window_layers", first)):
        if count is not None and type(count) is not int:
            raise UsageError(f"{key} must be an integer, not {count!r}")
    types = values.get("layer_types")
    if types is None:
        places = range(values.get("num_hidden_layers", 32))
        slides = {window is not None and place >= (first or 0) for place in places}
    elif isinstance(types, list) and set(types) <= {"full_attention", "sliding_attention"}:
        slides = {kind == "sliding_attention" for kind in types}
    else:
        raise UsageError(f"layer_types must be full_attention or sliding_attention, not {types!r}")
    if len(slides) > 1:
        raise UsageError(
            "layers with a sliding window and layers without one, mixed, are not implemented "
            "(layer_types, max_window_layers)"
        )
    return {"window": window if slides == {True} else None}


def _write_window(config: LlamaConfig) -> dict[str, Any]:
    if config.window is None:
        return {"use_sliding_window": False}
    return {"use_sliding_window": True, "sliding_window": config.window, "max_window_layers": 0}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


FIELDS = (
    Field("hidden_size", "embed_dim", 4096, "count"),
    Field("num_hidden_layers", "num_layers", 32, "count"),
    Field("num_attention_heads", "num_heads", 32, "count"),
    Field("attention_dropout", "dropout", 0.0),
    Field("rms_norm_eps", "norm_epsilon", 1e-6),
    Field("initializer_range", "init_std", 0.02),
    Field("tie_word_embeddings", "tied", False, "flag"),
)
ATTENTION_BIAS = Field("attention_bias", "attention_bias", False, "flag")
ROTARY = Group(ROTARY_KEYS, _read_rotary, _write_rotary)
QWEN_WINDOW = Group(
    ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types"),
    _read_window,
    _write_window,
)
IGNORED = frozenset(
    {
        # How to split the products, and remarks of other programs.
        *("pretraining_tp", "max_sequence_length", "is_llama_config", "transformers.js_config"),
    }
)
HARMLESS = {"rope_interleaved": (False,)}
"""It names the order of a head's channels, which the weights alone do not show."""


def _num_heads(values: Mapping[str, Any]) -> int:
    return int(values.get("num_attention_heads", 32))


def _embed_dim(values: Mapping[str, Any]) -> int:
    return int(values.get("hidden_size", 4096))


def _widths(mlp: int, kv_heads: int | None, head_dim: int | None) -> tuple[Group, ...]:
    """The counts that may follow others, with the defaults of a model type."""
    return tuple(
        width.group()
        for width in (
            Width(
                "intermediate_size",
                "mlp_dim",
                mlp,
                lambda values: default_mlp_dim(_embed_dim(values)),
                lambda config: config.feed_forward_dim,
            ),
            Width(
                "num_key_value_heads",
                "num_kv_heads",
                kv_heads,
                _num_heads,
                lambda config: config.heads[1],
            ),
            Width(
                "head_dim",
                "head_dim",
                head_dim,
                lambda values: _embed_dim(values) / _num_heads(values),
                lambda config: config.heads[2],
            ),
        )
    )


def table(config: LlamaConfig) -> Table:
    """The weights of all four: rotary halves as our own, so no channel moves."""
    heads, kv_heads, _ = config.heads
    layer, attention = "layers.{layer}", "layers.{layer}.self_attn"
    ours = "blocks.attention"
    to_heads, to_kv_heads = linear_to_heads(heads), linear_to_heads(kv_heads)
    biased = config.attention_bias or config.variant == "qwen2"
    output_bias = IDENTITY if config.attention_bias else None

    def inward(name: str, short: str, transform: Any) -> tuple[Rule, ...]:
        return linear(
            f"{ours}.{name}", f"{attention}.{short}_proj", transform, transform if biased else None
        )

    output = pair("output_weight", "lm_head.weight", vocabulary(config.vocab_size))
    return Table(
        rules=(
            pair("token_embedding", "embed_tokens.weight", vocabulary(config.vocab_size)),
            *norm("blocks.attention_norm", f"{layer}.input_layernorm", bias=False),
            *inward("query", "q", to_heads),
            *inward("key", "k", to_kv_heads),
            *inward("value", "v", to_kv_heads),
            *linear(f"{ours}.output", f"{attention}.o_proj", linear_from_heads(heads), output_bias),
            *(_head_norms(ours, attention) if config.variant == "qwen3" else ()),
            *norm("blocks.feed_forward_norm", f"{layer}.post_attention_layernorm", bias=False),
            *linear("blocks.feed_forward.gate", f"{layer}.mlp.gate_proj", bias=None),
            *linear("blocks.feed_forward.up", f"{layer}.mlp.up_proj", bias=None),
            *linear("blocks.feed_forward.down", f"{layer}.mlp.down_proj", bias=None),
            *norm("final_norm", "norm", bias=False),
        ),
        prefix="model.",
        heads=() if config.tied else (output,),
        tied={"lm_head.weight": "embed_tokens.weight"} if config.tied else {},
        # The angles, which older versions stored.
        ignored=re.compile(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq"),
    )


def _head_norms(ours: str, theirs: str) -> tuple[Rule, ...]:
    return (
        pair(f"{ours}.query_scale", f"{theirs}.q_norm.weight"),
        pair(f"{ours}.key_scale", f"{theirs}.k_norm.weight"),
    )


def _family(
    variant: str,
    architecture: str,
    sizes: tuple[int, int],
    groups: tuple[Group, ...],
    *fields: Field,
    **required: Any,
) -> HubFamily:
    """One model type; ``sizes`` are transformers' default vocabulary and context length."""
    config = ConfigTable(
        fields=(
            Field("vocab_size", "vocab_size", sizes[0], "count"),
            Field("max_position_embeddings", "context_length", sizes[1], "count"),
            *FIELDS,
            *fields,
        ),
        groups=(ROTARY, *groups),
        required={"hidden_act": "silu", **required},
        ignored=IGNORED,
        harmless=HARMLESS,
        constants={"variant": variant},
    )
    return HubFamily(
        model_type=variant,
        family="llama",
        architecture=architecture,
        config=config,
        table=table,
        writes=lambda config: bool(config.variant == variant),
    )


LLAMA = _family(
    "llama",
    "LlamaForCausalLM",
    (32000, 2048),
    _widths(11008, None, None),
    ATTENTION_BIAS,
    mlp_bias=False,
)
MISTRAL = _family(
    "mistral",
    "MistralForCausalLM",
    (32000, 131_072),
    _widths(14336, 8, None),
    Field("sliding_window", "window", 4096, "count", null=True),
)
QWEN2 = _family(
    "qwen2", "Qwen2ForCausalLM", (151_936, 32768), (*_widths(22016, 32, None), QWEN_WINDOW)
)
QWEN3 = _family(
    "qwen3",
    "Qwen3ForCausalLM",
    (151_936, 32768),
    (*_widths(22016, 32, 128), QWEN_WINDOW),
    ATTENTION_BIAS,
)
