"""Lengths under span corruption, against the published ones and an independent restatement."""

import pytest

from jax_lm.objectives.span_corruption import corrupted_lengths, lengths_for_input


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
