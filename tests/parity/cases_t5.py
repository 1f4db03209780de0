"""T5's quirks: version 1.0 and 1.1, and each way in which their files say so."""

from tests.parity.parity_cases import SHAPE, Case

AUTO = "AutoModelForSeq2SeqLM"


def t5(**changes):
    """Few buckets and short distances, so that nine positions fall into all of them."""
    from transformers import T5Config

    shape = {"d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_heads": 4}
    distances = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}
    rest = {"dropout_rate": 0.0, "decoder_start_token_id": 0}
    return T5Config(**{**SHAPE, **shape, **distances, **rest, **changes})


def version_1_1():
    return t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def untie(model):
    """Give the head values of its own, as the published files of version 1.1 have."""
    from torch.nn import Parameter

    model.lm_head.weight = Parameter(model.shared.weight.detach().clone())


def publish(model):
    """As ``untie``; and config.json says so, as before transformers 5."""
    untie(model)
    model.config.tie_word_embeddings = False


CASES = {
    "t5, one block against two, heads wider than the stream": Case(
        lambda: t5(num_layers=1, num_decoder_layers=2, d_kv=9), AUTO
    ),
    "t5 v1.1": Case(version_1_1, AUTO, publish),
    "t5 v1.1 as transformers 5 writes it, gated silu, narrow heads": Case(
        lambda: t5(feed_forward_proj="gated-silu", tie_word_embeddings=False, d_kv=4), AUTO, untie
    ),
}
