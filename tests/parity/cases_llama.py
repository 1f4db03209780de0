"""Quirks of LLaMA and of the models built like it."""

from tests.parity.parity_cases import SHAPE, Case

SIZES = {
    **SHAPE,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def llama(**changes):
    from transformers import LlamaConfig

    return LlamaConfig(**{**SIZES, **changes})


def mistral(**changes):
    from transformers import MistralConfig

    return MistralConfig(**{**SIZES, **changes})


def qwen2(**changes):
    from transformers import Qwen2Config

    return Qwen2Config(**{**SIZES, **changes})


def qwen3(**changes):
    from transformers import Qwen3Config

    return Qwen3Config(**{**SIZES, "head_dim": 10, **changes})


def rotary(kind: str, **settings) -> dict:
    """Scaling that changes pairs of channels within a few positions."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **settings}}


LLAMA3 = {
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 100,
}
"""Of the three pairs of channels one is left alone, one slowed down and one in between."""

CASES = {
    "llama, a key head a query head": Case(
        lambda: llama(num_key_value_heads=4, **rotary("default"), rms_norm_eps=0.1)
    ),
    "llama, one key head, tied, linear scaling": Case(
        lambda: llama(
            num_key_value_heads=1, tie_word_embeddings=True, **rotary("linear", factor=3.0)
        )
    ),
    "llama, wide heads, biases": Case(lambda: llama(head_dim=10, attention_bias=True)),
    "llama 3.1": Case(lambda: llama(**rotary("llama3", **LLAMA3), max_position_embeddings=400)),
    "mistral, a short window": Case(lambda: mistral(sliding_window=3)),
    "qwen2": Case(qwen2),
    "qwen3": Case(qwen3),
    "qwen3, tied, biases, a window in every layer": Case(
        lambda: qwen3(
            tie_word_embeddings=True,
            attention_bias=True,
            use_sliding_window=True,
            sliding_window=4,
            max_window_layers=0,
        )
    ),
}
