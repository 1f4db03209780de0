import numpy as np
import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.objectives.masked_lm import MaskedLMConfig
from jax_lm.types import Rows
from tests.objectives.objective_fakes import EOS, FIRST, MASK, TOKENIZER, draws, objective

IDS = np.arange(FIRST, FIRST + 40).reshape(2, 20)


def test_shares_are_kept_at_their_ends() -> None:
    rows = Rows(IDS, np.array([20, 20]))
    hide = objective(
        MaskedLMConfig(probability=1.0, mask_share=1.0, random_share=0.0), "encoder", 20
    )
    assert (hide(rows, draws(2)).input_ids == MASK).all()
    keep = objective(
        MaskedLMConfig(probability=1.0, mask_share=0.0, random_share=0.0), "encoder", 20
    )
    assert np.array_equal(keep(rows, draws(2)).input_ids, IDS)
    swap = objective(
        MaskedLMConfig(probability=1.0, mask_share=0.0, random_share=1.0), "encoder", 20
    )
    batch = swap(rows, draws(2))
    assert (batch.input_ids >= FIRST).all() and (batch.input_ids != IDS).mean() > 0.9
    assert np.array_equal(batch.targets, IDS) and (batch.loss_mask == 1).all()


def test_rows_of_causal_language_modelling_lose_their_last_id() -> None:
    rows = Rows(IDS, np.array([20, 7]), segment_ids=np.repeat([[1] * 4 + [2] * 16], 2, axis=0))
    batch = objective(MaskedLMConfig(), "encoder", 19)(rows, draws(2))
    assert batch.input_ids.shape == (2, 19)
    assert batch.segment_ids.tolist() == [[1] * 4 + [2] * 15] * 2
    assert (batch.loss_mask[1, 7:] == 0).all()


def test_special_tokens_and_padding_are_never_chosen() -> None:
    ids = IDS.copy()
    ids[:, ::3] = EOS
    config = MaskedLMConfig(probability=1.0)
    batch = objective(config, "encoder", 20)(Rows(ids, np.array([20, 8])), draws(2))
    assert np.array_equal(batch.loss_mask[0] > 0, ids[0] != EOS)
    assert (batch.input_ids[:, ::3] == EOS).all()
    assert batch.segment_ids[1].tolist() == [1] * 8 + [0] * 12
    assert (batch.loss_mask[1, 8:] == 0).all()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(JaxLMError, match=r"needs a mask token .* --special-tokens '<s>' .*<mask>'"):
        objective(MaskedLMConfig(), "encoder", 8, TOKENIZER.without("mask_id"))
    with pytest.raises(UsageError, match=r"mask_share 0\.9 and random_share 0\.2 are more than 1"):
        MaskedLMConfig(mask_share=0.9, random_share=0.2)
    with pytest.raises(UsageError, match="probability is 0, so"):
        MaskedLMConfig(probability=0.0)
    with pytest.raises(UsageError, match=r"probability is 1\.5, expected a share from 0 to 1"):
        MaskedLMConfig(probability=1.5)
