import numpy as np
import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.objectives.denoising import DenoisingConfig, span_lengths
from jax_lm.types import Rows
from tests.objectives.objective_fakes import (
    BOS,
    EOS,
    FIRST,
    MASK,
    TOKENIZER,
    distinct_rows,
    draws,
    objective,
)  # fmt: skip

KIND = "encoder-decoder"


def test_sentences_change_places_within_their_document_alone() -> None:
    a, b, c, d, e = range(FIRST, FIRST + 5)
    ids = np.array([[BOS, a, a, b, EOS, c, d, d, e]] * 60)
    ends = np.array([[3, 4, 6, 8, 9, -1]] * 60)
    make = objective(DenoisingConfig(mask_ratio=0.0), KIND, 9)
    batch = make(Rows(ids, np.full(60, 9), sentence_ends=ends), draws(60))
    seen = {tuple(row) for row in batch.input_ids.tolist()}
    first = [(a, a, b), (b, a, a)]
    rest = [(c, d, d, e), (c, e, d, d), (d, d, c, e), (d, d, e, c), (e, c, d, d), (e, d, d, c)]
    assert seen == {(BOS, *one, EOS, *two) for one in first for two in rest}
    assert np.array_equal(batch.targets, ids)


def test_without_permutation_no_sentences_are_needed() -> None:
    rows = distinct_rows(6, 40, special=(0, 20, 39))
    make = objective(DenoisingConfig(permute_ratio=0.0), KIND, 40)
    batch = make(rows, draws(6))
    for ids, targets, real in zip(
        batch.input_ids, batch.targets.tolist(), batch.segment_ids, strict=True
    ):
        rest = iter(targets)
        kept = [token for token in ids[real > 0].tolist() if token != MASK]
        assert all(token in rest for token in kept)  # in the same order
    with pytest.raises(
        JaxLMError, match=r"preprocess with --sentences, or train with --objective.permute-ratio 0"
    ):
        objective(DenoisingConfig(), KIND, 40)(rows, draws(6))


def test_everything_may_be_masked_but_special_tokens() -> None:
    rows = distinct_rows(50, 12, special=(0, 6, 11))
    config = DenoisingConfig(mask_ratio=1.0, poisson_lambda=30.0, permute_ratio=0.0)
    batch = objective(config, KIND, 12)(rows, draws(50))
    for row in batch.input_ids[:-1].tolist():
        assert row.count(EOS) == 3 and MASK in row
        # One span that starts a document hides all of it, and no span goes on behind a mark.
        assert row[0] == EOS and row[1] != EOS


def test_a_full_row_grows_no_longer() -> None:
    rows = distinct_rows(300, 8)
    config = DenoisingConfig(mask_ratio=0.2, poisson_lambda=0.3, permute_ratio=0.0)
    batch = objective(config, KIND, 8)(rows, draws(300))
    assert batch.input_ids.shape == (300, 8)
    assert (batch.segment_ids[:-1].sum(axis=1) == 8).any()
    assert (batch.input_ids[:-1] == MASK).sum(axis=1).max() <= 3


def test_lone_tokens_and_empty_rows_pass() -> None:
    config = DenoisingConfig(permute_ratio=0.0, poisson_lambda=0.1)
    ids = np.array([[FIRST, 0, 0], [EOS, 0, 0], [0, 0, 0]])
    batch = objective(config, KIND, 3)(Rows(ids, np.array([1, 1, 0])), draws(3))
    assert batch.input_ids[0, 0] == MASK and batch.input_ids[1, 0] == EOS
    assert batch.loss_mask.sum(axis=1).tolist() == [1, 1, 0]


@pytest.mark.parametrize("mean", [0.1, 3.0, 500.0])
@pytest.mark.parametrize("budget", [1, 7, 150])
def test_spans_add_up(mean: float, budget: int) -> None:
    for seed in range(20):
        lengths = span_lengths(budget, mean, np.random.default_rng(seed))
        assert lengths.sum() == budget and lengths[-1] > 0 and (lengths >= 0).all()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(JaxLMError, match="objective denoising needs a mask token"):
        objective(DenoisingConfig(), KIND, 8, TOKENIZER.without("mask_id"))
    with pytest.raises(
        JaxLMError, match=r"inputs of 8 tokens, .* target length cannot be 4: leave"
    ):
        objective(DenoisingConfig(), KIND, 8, target_length=4)
    with pytest.raises(UsageError, match=r"poisson_lambda is 0\.0, expected 0\.1 to 1000"):
        DenoisingConfig(poisson_lambda=0.0)
    with pytest.raises(UsageError, match="mask_ratio is -1"):
        DenoisingConfig(mask_ratio=-1)
