"""Lengths under span corruption, against the published ones and an independent restatement."""

import numpy as np
import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.objectives.span_corruption import (
    SpanCorruptionConfig,
    corrupted_lengths,
    lengths_for_input,
)
from jax_lm.types import Rows
from tests.objectives.objective_fakes import (
    EOS,
    PAD,
    START,
    TOKENIZER,
    SpecialTokenizer,
    distinct_rows,
    draws,
    objective,
    sentinel,
)  # fmt: skip


@pytest.mark.parametrize(
    ("input_length", "raw", "target"),
    [(128, 141, 29), (256, 284, 58), (512, 568, 114), (1024, 1137, 229)],
)
def test_published_lengths(input_length, raw, target):
    assert lengths_for_input(input_length) == (raw, input_length, target)


def corrupted(raw, density, mean):
    """Lengths counted on a row that is really corrupted: spans spread evenly, then joined."""
    noise = max(1, min(round(raw * density), raw - 1))
    spans = max(1, round(min(noise, raw - noise) / mean))
    kept = list(range(raw - noise))
    removed = list(range(noise))
    inputs = [*kept, *["sentinel"] * spans, "end"]
    targets = [*removed, *["sentinel"] * spans, "end"]
    return len(inputs), len(targets)


@pytest.mark.parametrize("density", [0.15, 0.3, 0.5])
@pytest.mark.parametrize("mean", [1.0, 3.0, 10.0])
def test_the_longest_row_that_fits_is_found(density, mean):
    for input_length in range(4, 120):
        found = lengths_for_input(input_length, density, mean)
        assert (found.input, found.target) == corrupted(found.raw, density, mean)
        assert found == corrupted_lengths(found.raw, density, mean)
        assert found.input <= input_length
        assert corrupted(found.raw + 1, density, mean)[0] > input_length


def test_an_input_without_room_is_refused():
    with pytest.raises(ValueError, match="2 tokens is too short"):
        lengths_for_input(2)


def test_a_row_by_hand():
    """Four tokens, of which one is noise: the last, since noise does not come first."""
    config = SpanCorruptionConfig(noise_density=0.25, mean_noise_span_length=1.0)
    make = objective(config, "encoder-decoder", 5)
    batch = make(Rows(np.array([[10, 11, 12, 13]]), np.array([4])), draws(1))
    assert batch.input_ids.tolist() == [[10, 11, 12, sentinel(0), EOS]]
    assert batch.targets.tolist() == [[sentinel(0), 13, EOS]]
    assert batch.decoder_input_ids.tolist() == [[START, sentinel(0), 13]]


def test_short_rows_are_corrupted_by_their_own_length():
    make = objective(SpanCorruptionConfig(), "encoder-decoder", 64)
    raw = lengths_for_input(64).raw
    ids = distinct_rows(4, raw + 1).input_ids  # one id more, as causal language modelling stores
    sizes = [raw + 1, 20, 2, 1]
    batch = make(Rows(ids, np.array(sizes)), draws(4))
    for row, size in enumerate([raw, 20, 2]):
        _, inputs, targets = corrupted_lengths(size)
        assert (batch.segment_ids[row].sum(), batch.loss_mask[row].sum()) == (inputs, targets)
    assert batch.input_ids[3, :3].tolist() == [ids[3, 0], EOS, PAD]
    assert batch.loss_mask[3].sum() == 0  # one token cannot be hidden and seen


def test_wider_targets_are_padded():
    make = objective(SpanCorruptionConfig(), "encoder-decoder", 64, target_length=40)
    batch = make(distinct_rows(2, lengths_for_input(64).raw), draws(2))
    assert batch.targets.shape == batch.decoder_input_ids.shape == (2, 40)
    assert batch.loss_mask[0].sum() == lengths_for_input(64).target
    assert (batch.targets[0, lengths_for_input(64).target :] == PAD).all()


@pytest.mark.parametrize(
    ("tokenizer", "length", "target", "message"),
    [
        (SpecialTokenizer(sentinels=3), 128, None,
         r"7 sentinels here and the tokenizer has no <extra_id_3>: .*--preset t5, .*--sentinels"),
        (TOKENIZER.without("eos_id"), 128, None, "closes inputs and targets with EOS"),
        (TOKENIZER, 2, None, "2 tokens is too short for span corruption"),
        (TOKENIZER, 128, 20, "targets of 29 tokens for inputs of 128, more than .* of 20"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tokenizer, length, target, message):
    with pytest.raises(JaxLMError, match=message):
        objective(
            SpanCorruptionConfig(), "encoder-decoder", length, tokenizer, target_length=target
        )


def test_numbers_out_of_range_are_refused():
    with pytest.raises(UsageError, match=r"noise_density is 1\.0, expected between 0 and 1"):
        SpanCorruptionConfig(noise_density=1.0)
    with pytest.raises(UsageError, match=r"mean_noise_span_length is 0\.5, expected 1 or more"):
        SpanCorruptionConfig(mean_noise_span_length=0.5)
