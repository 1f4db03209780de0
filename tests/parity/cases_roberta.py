"""RoBERTa's quirks, and BERT's."""

from tests.parity.parity_cases import SHAPE, Case

WIDTHS = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
RATES = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def roberta(**changes):
    from transformers import RobertaConfig

    published = {"intermediate_size": 96, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    positions = {"max_position_embeddings": 18}
    return RobertaConfig(**{**SHAPE, **WIDTHS, **RATES, **published, **positions, **changes})


def bert(**changes):
    from transformers import BertConfig

    sizes = {"intermediate_size": 96, "max_position_embeddings": 16}
    return BertConfig(**{**SHAPE, **WIDTHS, **RATES, **sizes, **changes})


CASES = {
    "roberta": Case(roberta, "AutoModelForMaskedLM"),
    "roberta other padding id, relu, narrow, types": Case(
        lambda: roberta(
            pad_token_id=2,
            hidden_act="relu",
            intermediate_size=20,
            type_vocab_size=3,
            max_position_embeddings=12,
        ),
        "AutoModelForMaskedLM",
        pad=2,
    ),
    "bert": Case(bert, "AutoModelForMaskedLM", pad=0),
    "bert tanh gelu": Case(
        lambda: bert(hidden_act="gelu_new", intermediate_size=20), "AutoModelForMaskedLM", pad=0
    ),
}
