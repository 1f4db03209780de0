"""BART's quirks."""

from tests.parity.parity_cases import SHAPE, Case

AUTO = "AutoModelForSeq2SeqLM"


def bart(**changes):
    from transformers import BartConfig

    rates = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)
    shape = {**SHAPE, "d_model": 24, "max_position_embeddings": 12}
    for stack in ("encoder", "decoder"):
        heads = {f"{stack}_attention_heads": 4, f"{stack}_layers": 2, f"{stack}_ffn_dim": 96}
        shape = {**shape, **heads}
    return BartConfig(**{**shape, **rates, **changes})


CASES = {
    "bart": Case(bart, AUTO),
    "bart scaled, stacks that differ": Case(
        lambda: bart(
            scale_embedding=True,
            activation_function="relu",
            decoder_layers=1,
            decoder_attention_heads=2,
            decoder_ffn_dim=20,
            encoder_ffn_dim=28,
        ),
        AUTO,
    ),
}
