import dataclasses

import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.objectives.base import RowDraws
from jax_lm.objectives.causal_lm import CausalLMConfig
from jax_lm.objectives.denoising import DenoisingConfig
from jax_lm.objectives.masked_lm import MaskedLMConfig
from jax_lm.objectives.registry import OBJECTIVES, described, objectives_of, usual_objective
from jax_lm.objectives.seq2seq import Seq2SeqConfig
from tests.objectives.objective_fakes import TOKENIZER, objective


def test_names_lead_to_configurations_that_document_every_field() -> None:
    for name, config in OBJECTIVES.items():
        assert config().name == name
        assert config.__doc__ and all(f.kw_only for f in dataclasses.fields(config))


def test_every_kind_has_its_usual_objective_first() -> None:
    kinds = ("decoder", "encoder", "encoder-decoder")
    assert [objectives_of(kind)[0] for kind in kinds] == [
        "causal-lm", "masked-lm", "span-corruption",
    ]  # fmt: skip


def test_families_have_what_they_were_published_with() -> None:
    assert usual_objective("bart", "encoder-decoder") == DenoisingConfig()
    assert usual_objective("t5", "encoder-decoder").name == "span-corruption"
    assert described(CausalLMConfig()) == "causal-lm"
    assert described(Seq2SeqConfig()) == "seq2seq (frame_inputs True)"


def test_an_objective_for_another_kind_of_model_is_refused() -> None:
    with pytest.raises(
        JaxLMError, match=r"masked-lm trains encoders, and this model is of kind decoder: .*causal"
    ):
        objective(MaskedLMConfig(), "decoder", 8)
    with pytest.raises(JaxLMError, match="seq2seq trains encoder-decoders and decoders, and this"):
        objective(Seq2SeqConfig(), "encoder", 8)
    with pytest.raises(JaxLMError, match="causal-lm trains decoders"):
        objective(CausalLMConfig(), "encoder-decoder", 8)


def test_a_decoder_without_a_start_is_refused() -> None:
    with pytest.raises(JaxLMError, match="no decoder_start_id, the token that"):
        objective(DenoisingConfig(), "encoder-decoder", 8, TOKENIZER, decoder_start_id=None)


def test_draws_are_of_their_row_alone() -> None:
    draws = RowDraws(-3, np.array([7, 2**40, 0]))
    numbers = draws.uniforms(5)
    assert np.array_equal(draws.chosen(np.array([1])).uniforms(3)[0], numbers[1, :3])
    assert np.array_equal(draws.generator(2).random(5), numbers[2])
    assert len(np.unique(numbers)) == 15
    assert numbers.min() >= 0 and numbers.max() < 1
