"""OPT's quirks."""

from tests.parity.parity_cases import SHAPE, Case


def opt(**changes):
    from transformers import OPTConfig

    shape = {
        **SHAPE,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "ffn_dim": 96,
        "max_position_embeddings": 16,
        "dropout": 0.0,
    }
    return OPTConfig(**{**shape, **changes})


CASES = {
    "opt": Case(opt),
    "opt 350m: norms after, projections": Case(
        lambda: opt(do_layer_norm_before=False, word_embed_proj_dim=16)
    ),
    "opt projected, norms before, none at the end, narrow": Case(
        lambda: opt(word_embed_proj_dim=16, _remove_final_layer_norm=True, ffn_dim=20)
    ),
    "opt without biases, norms without parameters": Case(
        lambda: opt(enable_bias=False, layer_norm_elementwise_affine=False)
    ),
}
