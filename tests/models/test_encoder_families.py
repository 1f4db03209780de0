"""What is special to RoBERTa, BERT and BART beside the numbers: ids, padding, initial weights."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.models.bart import PRESETS as BART_PRESETS
from jax_lm.models.bart import BartConfig
from jax_lm.models.base import TokenIds
from jax_lm.models.registry import abstract_model, init_model
from jax_lm.models.roberta import PRESETS, RobertaConfig

SHAPE = {"vocab_size": 40, "context_length": 8, "num_layers": 1, "num_heads": 2, "embed_dim": 16}
TOKENS = TokenIds(vocab_size=300, pad=3, bos=0, eos=2)


def part_of_new(config, part):
    """Some arrays of a model with random weights; the others are not even compiled."""
    return jax.jit(lambda key: part(init_model(key, config)))(jax.random.key(0))


def test_positions_of_roberta_start_after_the_padding_id_of_the_tokenizer():
    config = dataclasses.replace(PRESETS["roberta-base"], vocab_size=None).with_tokens(TOKENS)
    assert (config.vocab_size, config.pad_id, config.first_position) == (300, 3, 4)
    assert config.context_length == 512
    bert = PRESETS["bert-base-uncased"].with_tokens(TOKENS)
    assert (bert.pad_id, bert.first_position) == (3, 0)


def test_roberta_needs_a_padding_token_and_bert_does_not():
    without = TOKENS._replace(pad=None)
    with pytest.raises(UsageError, match="no padding token, after whose id RoBERTa counts"):
        RobertaConfig(**SHAPE).with_tokens(without)
    assert PRESETS["bert-base-uncased"].with_tokens(without).pad_id is None


def test_outputs_of_bart_begin_with_eos_unless_told_otherwise():
    config = BART_PRESETS["bart-base"].with_tokens(TOKENS)
    assert (config.pad_id, config.decoder_start_id) == (3, 2)
    without = TOKENS._replace(eos=None, pad=None)
    with pytest.raises(UsageError, match="no end-of-sequence token, with which BART's outputs"):
        BART_PRESETS["bart-base"].with_tokens(without)
    told = BartConfig(decoder_start_id=0, pad_id=1).with_tokens(without)
    assert (told.pad_id, told.decoder_start_id) == (1, 0)
    with pytest.raises(UsageError, match="decoder_start_id is 1, an ordinary token"):
        dataclasses.replace(told, decoder_start_id=1).with_tokens(TOKENS)


def test_what_stands_for_padding_begins_at_zero():
    config = RobertaConfig(**SHAPE, pad_id=2)
    tables = part_of_new(config, lambda model: (model.token_embedding, model.position_embedding))
    assert [table.shape for table in tables] == [(128, 16), (11, 16)]
    for table in tables:
        rows = np.asarray(jnp.abs(table[:4]).sum(axis=1))
        assert (rows == 0).tolist() == [False, False, True, False]
    config = BartConfig(**SHAPE, pad_id=1)
    rows = part_of_new(config, lambda model: jnp.abs(model.token_embedding[:3]).sum(axis=1))
    assert (np.asarray(rows) == 0).tolist() == [False, True, False]


def test_the_output_bias_of_bart_counts_but_is_never_trained():
    shapes = abstract_model(BartConfig(**SHAPE))
    model = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), shapes)
    biased = dataclasses.replace(model, output_bias=jnp.arange(128.0))
    hidden = jnp.ones((1, 1, 16))

    def total(model):
        return model.unembedding.logits(hidden)[..., :40].sum()

    assert float(total(biased) - total(model)) == np.arange(40.0).sum() - 40
    gradient = jax.grad(total)(biased)
    assert float(jnp.abs(gradient.output_bias).max()) == 0.0
    assert float(jnp.abs(gradient.token_embedding).max()) > 0.0


def test_decoder_sizes_of_bart_follow_the_encoder_unless_given():
    follows = BartConfig(**SHAPE)
    assert follows.decoder == follows.encoder == (1, 2, 64)
    assert BartConfig(**SHAPE, num_decoder_layers=3, decoder_mlp_dim=20).decoder == (3, 2, 20)
    with pytest.raises(UsageError, match="embed_dim 16 is not a multiple of"):
        BartConfig(**SHAPE, num_decoder_heads=3)
