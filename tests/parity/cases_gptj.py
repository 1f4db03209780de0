"""GPT-J's quirks."""

from tests.parity.parity_cases import SHAPE, Case


def gptj(**changes):
    from transformers import GPTJConfig

    shape = {**SHAPE, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16, "rotary_dim": 4}
    return GPTJConfig(**{**shape, "bos_token_id": 0, "eos_token_id": 0, **changes})


CASES = {
    "gptj, part of each head turned": Case(gptj),
    "gptj, all of each head turned, relu, narrow": Case(
        lambda: gptj(rotary_dim=8, activation_function="relu", n_inner=20)
    ),
}
