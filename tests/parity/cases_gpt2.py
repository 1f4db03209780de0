"""GPT-2's quirks."""

from tests.parity.parity_cases import SHAPE, Case


def gpt2(**changes):
    from transformers import GPT2Config

    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    shape = {**SHAPE, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16}
    return GPT2Config(**{**shape, **rates, "bos_token_id": 0, "eos_token_id": 0, **changes})


CASES = {
    "gpt2": Case(gpt2),
    "gpt2 exact gelu, narrow": Case(lambda: gpt2(activation_function="gelu", n_inner=20)),
}
