"""RoBERTa's, BERT's and BART's files as others write them, and their parameters as others count."""

import dataclasses
import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.directory import load_config, load_model
from jax_lm.huggingface.families import config_from_json, config_to_json
from jax_lm.models.bart import PRESETS as BART_PRESETS
from jax_lm.models.gpt2 import PRESETS as GPT2_PRESETS
from jax_lm.models.registry import count_parameters
from jax_lm.models.roberta import PRESETS
from tests.parity.cases_bart import bart
from tests.parity.cases_gpt2 import gpt2
from tests.parity.cases_roberta import bert, roberta
from tests.parity.parity_cases import VOCABULARY, Case, make_inputs, random_model, their_logits

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

MASKED, SEQ2SEQ, CAUSAL = "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM", "AutoModelForCausalLM"
# Of the published directories: what changes the numbers, and what older versions wrote beside it.
ROBERTA_BASE = {
    "model_type": "roberta",
    "architectures": ["RobertaForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "vocab_size": 50265,
}
BERT_BASE = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "gradient_checkpointing": False,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "vocab_size": 30522,
}
BART_BASE = {
    "model_type": "bart",
    "architectures": ["BartModel"],
    "activation_dropout": 0.1,
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "attention_dropout": 0.1,
    "classif_dropout": 0.1,
    "d_model": 768,
    "decoder_attention_heads": 12,
    "decoder_ffn_dim": 3072,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 6,
    "decoder_start_token_id": 2,
    "encoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 6,
    "forced_eos_token_id": 2,
    "normalize_before": False,
    "normalize_embedding": True,
    "num_hidden_layers": 6,
    "scale_embedding": False,
    "vocab_size": 50265,
}
PUBLISHED = {
    "roberta-base": (ROBERTA_BASE, {"pad_id": 1}),
    "bert-base-uncased": (BERT_BASE, {"pad_id": 0}),
    "bart-base": (BART_BASE, {"pad_id": 1, "decoder_start_id": 2}),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_config_is_the_preset(name):
    values, ids = PUBLISHED[name]
    preset = {**PRESETS, **BART_PRESETS}[name]
    assert config_from_json(values, name) == dataclasses.replace(preset, **ids)


@pytest.mark.parametrize(
    "name", ["roberta-base", "roberta-large", "bert-base-uncased", "bart-base", "gpt2"]
)
def test_full_sizes_have_as_many_parameters_as_in_transformers(name):
    ids = {"pad_id": 1} if name.startswith("roberta") else {}
    config = dataclasses.replace({**PRESETS, **BART_PRESETS, **GPT2_PRESETS}[name], **ids)
    values = config_to_json(config)
    theirs = transformers.AutoConfig.for_model(**values)
    auto = {"encoder": MASKED, "encoder-decoder": SEQ2SEQ, "decoder": CAUSAL}[config.kind]
    with torch.device("meta"):
        model = getattr(transformers, auto).from_config(theirs)
    # BART's output bias is no parameter in transformers, as it is not trained.
    buffers = config.vocab_size if name.startswith("bart") else 0
    assert count_parameters(config) == model.num_parameters() + buffers


@pytest.mark.parametrize(
    ("config", "auto"),
    [(gpt2, CAUSAL), (roberta, MASKED), (bert, MASKED)],
    ids=["gpt2", "roberta", "bert"],
)
def test_a_config_that_transformers_saved_gives_as_many_parameters(config, auto, tmp_path):
    model = getattr(transformers, auto).from_config(config())
    model.config.save_pretrained(tmp_path)
    assert count_parameters(load_config(tmp_path / "config.json")) == model.num_parameters()


def rewritten(folder, rename, extra=()):
    """The tensors of a directory under other names, with ``extra`` ones."""
    tensors = load_file(folder / "model.safetensors")
    tensors = {rename(name): tensor for name, tensor in tensors.items()}
    save_file({**tensors, **dict(extra)}, folder / "model.safetensors")


def test_files_of_bert_for_pretraining_with_their_first_names_are_read(tmp_path):
    case = Case(bert, "AutoModelForPreTraining", pad=0)
    theirs = random_model(case)
    theirs.save_pretrained(tmp_path)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert {"bert.pooler.dense.weight", "cls.seq_relationship.weight"} <= names

    def older(name):
        if "LayerNorm" in name:
            return name.replace(".weight", ".gamma").replace(".bias", ".beta")
        return name

    plain = leaves_by_path(load_model(tmp_path))
    rewritten(tmp_path, older, {"bert.embeddings.position_ids": np.arange(16)[None]}.items())
    for path, leaf in leaves_by_path(load_model(tmp_path)).items():
        np.testing.assert_array_equal(leaf, plain[path], err_msg=path)


def test_files_of_the_bare_bart_are_read(tmp_path):
    whole = random_model(Case(bart, SEQ2SEQ))
    whole.save_pretrained(tmp_path / "whole")
    whole.model.save_pretrained(tmp_path / "bare")
    config = json.loads((tmp_path / "bare" / "config.json").read_text())
    assert config["architectures"] == ["BartModel"]
    shared = load_file(tmp_path / "bare" / "model.safetensors")["shared.weight"]
    copies = {f"{stack}.embed_tokens.weight": shared for stack in ("encoder", "decoder")}
    rewritten(tmp_path / "bare", str, copies.items())
    expected = leaves_by_path(load_model(tmp_path / "whole"))
    found = leaves_by_path(load_model(tmp_path / "bare"))
    assert found.keys() == expected.keys()
    for path, leaf in found.items():
        np.testing.assert_array_equal(leaf, expected[path], err_msg=path)


def test_the_fixed_bias_of_bart_is_read(tmp_path):
    def prepare(model):
        model.final_logits_bias.copy_(torch.linspace(-1, 1, VOCABULARY)[None])

    case = Case(bart, SEQ2SEQ, prepare)
    theirs = random_model(case)
    theirs.save_pretrained(tmp_path)
    bias = np.asarray(load_model(tmp_path).unembedding.bias)
    np.testing.assert_array_equal(bias[:VOCABULARY], theirs.final_logits_bias.numpy()[0])
    assert not bias[VOCABULARY:].any()
    inputs = make_inputs(case, encoder_decoder=True)
    with torch.no_grad():
        biased = their_logits(theirs, inputs)
        theirs.final_logits_bias.zero_()
        difference = biased - their_logits(theirs, inputs)
    np.testing.assert_allclose(difference[0, 0], bias[:VOCABULARY], atol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**BART_BASE, "normalize_before": True}, "normalize_before is true; only false is"),
        ({**BART_BASE, "decoder_layerdrop": 0.1}, "decoder_layerdrop is 0.1; only 0.0 is"),
        ({**BART_BASE, "num_hidden_layers": 5}, "encoder_layers 6, num_hidden_layers 5; they must"),
        ({**BART_BASE, "decoder_ffn_dim": "wide"}, "decoder_ffn_dim must be a positive integer"),
        ({**BART_BASE, "model_type": "mbart"}, "model_type is 'mbart'"),
        ({**BERT_BASE, "position_embedding_type": "relative_key"}, 'only "absolute" is'),
        ({**BERT_BASE, "is_decoder": True}, "is_decoder is true; only false is implemented"),
        ({**ROBERTA_BASE, "max_position_embeddings": 2}, "an integer above pad_token_id + 1"),
        ({**ROBERTA_BASE, "pad_token_id": None}, "pad_token_id must be a token id, not None"),
    ],
)
def test_what_is_not_implemented_is_named(values, message):
    with pytest.raises(JaxLMError, match=re.escape(message)):
        config_from_json(values, "config.json")
