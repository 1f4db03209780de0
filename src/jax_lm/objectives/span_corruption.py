"""T5's span corruption: how long a raw row must be for the corrupted one to fill the input.

Raffel et al. 2020 (arXiv 1910.10683, section 3.1.4): a share of the tokens is noise, drawn as
spans; each span becomes one sentinel in the input, and the target lists the spans, each led by
its sentinel. An end token closes both.
"""

from typing import NamedTuple

NOISE_DENSITY = 0.15
MEAN_NOISE_SPAN_LENGTH = 3.0


class CorruptedLengths(NamedTuple):
    """Tokens of a raw row, and of the input and target it becomes, end tokens included."""

    raw: int
    input: int
    target: int


def corrupted_lengths(
    raw: int,
    noise_density: float = NOISE_DENSITY,
    mean_noise_span_length: float = MEAN_NOISE_SPAN_LENGTH,
) -> CorruptedLengths:
    """Input and target lengths that a row of ``raw`` tokens gives."""
    noise = min(max(round(raw * noise_density), 1), raw - 1)
    spans = max(round(min(noise, raw - noise) / mean_noise_span_length), 1)
    return CorruptedLengths(raw, raw - noise + spans + 1, noise + spans + 1)


def lengths_for_input(
    input_length: int,
    noise_density: float = NOISE_DENSITY,
    mean_noise_span_length: float = MEAN_NOISE_SPAN_LENGTH,
) -> CorruptedLengths:
    """The longest raw row whose corrupted input still fits into ``input_length`` tokens.

    Raises:
        ValueError: not even a row of two tokens fits.
    """
    best = corrupted_lengths(2, noise_density, mean_noise_span_length)
    if best.input > input_length:
        raise ValueError(f"an input of {input_length} tokens is too short for span corruption")
    while True:
        longer = corrupted_lengths(best.raw + 1, noise_density, mean_noise_span_length)
        if longer.input > input_length:
            return best
        best = longer
