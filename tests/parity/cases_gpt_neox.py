"""GPT-NeoX's quirks."""

from tests.parity.parity_cases import SHAPE, Case


def gpt_neox(*, rotary=None, **changes):
    from transformers import GPTNeoXConfig

    shape = {
        **SHAPE,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 96,
        "max_position_embeddings": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, **(rotary or {})},
    }
    return GPTNeoXConfig(**{**shape, **changes})


CASES = {
    "gpt-neox, parallel": Case(gpt_neox),
    "gpt-neox, one after the other, no attention biases": Case(
        lambda: gpt_neox(use_parallel_residual=False, attention_bias=False)
    ),
    "gpt-neox tied, whole heads turned by another base, tanh gelu, narrow": Case(
        lambda: gpt_neox(
            tie_word_embeddings=True,
            hidden_act="gelu_fast",
            intermediate_size=20,
            rotary={"partial_rotary_factor": 1.0, "rope_theta": 500.0},
        )
    ),
}
