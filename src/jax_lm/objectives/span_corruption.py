"""T5's span corruption: spans of a row become sentinels, and the target lists what they were.

Raffel et al. 2020 (arXiv 1910.10683, section 3.1.4): a share of the tokens is noise, drawn as
spans; each span becomes one sentinel in the input, and the target lists the spans, each led by
its sentinel. An end token closes both. The spans are those of the published ``random_spans``: a
fixed number of noise and of other tokens, each cut at random into as many parts, which take turns.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.objectives.base import RowDraws, Wanted, first_ids, pad_id_of, places, shifted_right
from jax_lm.tokenizers.base import Tokenizer, special_names
from jax_lm.types import Batch, Rows

NOISE_DENSITY = 0.15
MEAN_NOISE_SPAN_LENGTH = 3.0
SENTINEL = "<extra_id_{}>"
FEWEST = 2
"""Tokens a row must have for one of them to be noise and another not."""


@dataclass(frozen=True, kw_only=True)
class SpanCorruptionConfig:
    """Spans of tokens are replaced by sentinels and predicted, as T5 trains."""

    name: Literal["span-corruption"] = "span-corruption"
    """The objective."""
    noise_density: float = NOISE_DENSITY
    """Share of a row's tokens that the input lacks."""
    mean_noise_span_length: float = MEAN_NOISE_SPAN_LENGTH
    """Tokens a span has on average."""

    def __post_init__(self) -> None:
        """Refuse what gives no spans.

        Raises:
            UsageError: a number is out of its range.
        """
        if not 0 < self.noise_density < 1:
            raise UsageError(f"noise_density is {self.noise_density}, expected between 0 and 1")
        if self.mean_noise_span_length < 1:
            raise UsageError(
                f"mean_noise_span_length is {self.mean_noise_span_length}, expected 1 or more"
            )

    def lengths(self, input_length: int) -> "CorruptedLengths":
        """Lengths of the longest raw row whose input fits into ``input_length`` tokens.

        Raises:
            ValueError: not even a row of two tokens fits.
        """
        return lengths_for_input(input_length, self.noise_density, self.mean_noise_span_length)


class CorruptedLengths(NamedTuple):
    """Tokens of a raw row, and of the input and target it becomes, end tokens included."""

    raw: int
    input: int
    target: int


class Noise(NamedTuple):
    """How much of a row is noise."""

    tokens: int
    spans: int
    """Spans of noise, and as many of other tokens."""


def noise_of(raw: int, noise_density: float, mean_noise_span_length: float) -> Noise:
    """Noise of a row of ``raw`` tokens, at least two."""
    noise = min(max(round(raw * noise_density), 1), raw - 1)
    return Noise(noise, max(round(min(noise, raw - noise) / mean_noise_span_length), 1))


def corrupted_lengths(
    raw: int,
    noise_density: float = NOISE_DENSITY,
    mean_noise_span_length: float = MEAN_NOISE_SPAN_LENGTH,
) -> CorruptedLengths:
    """Input and target lengths that a row of ``raw`` tokens gives."""
    noise, spans = noise_of(raw, noise_density, mean_noise_span_length)
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
    best = corrupted_lengths(FEWEST, noise_density, mean_noise_span_length)
    if best.input > input_length:
        raise ValueError(f"an input of {input_length} tokens is too short for span corruption")
    while True:
        longer = corrupted_lengths(best.raw + 1, noise_density, mean_noise_span_length)
        if longer.input > input_length:
            return best
        best = longer


@dataclass(frozen=True, kw_only=True, eq=False)
class SpanCorruption:
    """Replaces spans of rows by sentinels and asks for them."""

    config: SpanCorruptionConfig
    lengths: CorruptedLengths
    input_width: int
    target_width: int
    sentinels: Int[np.ndarray, "sentinels"]
    """``<extra_id_0>`` first."""
    eos_id: int
    pad_id: int
    decoder_start_id: int

    @classmethod
    def of(cls, config: SpanCorruptionConfig, tokenizer: Tokenizer, wanted: Wanted) -> Self:
        """The objective for a tokenizer and a model.

        Raises:
            JaxLMError: too few sentinels, no EOS, or lengths that do not fit.
        """
        lengths = _lengths(config, wanted)
        if tokenizer.eos_id is None:
            raise JaxLMError(
                f"objective {config.name} closes inputs and targets with EOS, and the tokenizer "
                "has none: train one with --preset t5"
            )
        noise = noise_of(lengths.raw, config.noise_density, config.mean_noise_span_length)
        return cls(
            config=config,
            lengths=lengths,
            input_width=wanted.input_length,
            target_width=wanted.target_length or lengths.target,
            sentinels=sentinel_ids(tokenizer, noise.spans),
            eos_id=tokenizer.eos_id,
            pad_id=pad_id_of(tokenizer),
            decoder_start_id=wanted.started(),
        )

    def __call__(self, rows: Rows, draws: RowDraws) -> Batch:
        """Corrupted inputs, and targets that list the spans; the tail row by its own length."""
        ids, lengths = first_ids(rows, self.lengths.raw)
        inputs = np.full((len(ids), self.input_width), self.pad_id, np.int32)
        targets = np.full((len(ids), self.target_width), self.pad_id, np.int32)
        sizes = np.zeros((2, len(ids)), np.int64)
        for length in np.unique(lengths).tolist():  # nearly always one
            alike = np.flatnonzero(lengths == length)
            parts = self._corrupted(ids[alike, :length], draws.chosen(alike))
            for part, whole, size in zip(parts, (inputs, targets), sizes, strict=True):
                whole[alike, : part.shape[1]] = part
                size[alike] = part.shape[1]
        return Batch(
            inputs,
            targets,
            places(sizes[1], self.target_width).astype(np.float32),
            places(sizes[0], self.input_width).astype(np.int32),
            decoder_input_ids=shifted_right(targets, self.decoder_start_id),
        )

    def _corrupted(
        self, ids: Int[np.ndarray, "batch raw"], draws: RowDraws
    ) -> tuple[Int[np.ndarray, "batch input"], Int[np.ndarray, "batch target"]]:
        """Inputs and targets of rows of one length."""
        batch, raw = ids.shape
        eos = np.full((batch, 1), self.eos_id, np.int32)
        if raw < FEWEST:
            return np.concatenate([ids, eos], axis=1), ids[:, :0]
        noise = noise_of(raw, self.config.noise_density, self.config.mean_noise_span_length)
        mask = noise_mask(draws.uniforms(raw - 2), raw, noise)
        inputs, targets = (self._with_sentinels(ids, hidden) for hidden in (mask, ~mask))
        return np.concatenate([inputs, eos], axis=1), np.concatenate([targets, eos], axis=1)

    def _with_sentinels(
        self, ids: Int[np.ndarray, "batch raw"], hidden: Bool[np.ndarray, "batch raw"]
    ) -> Int[np.ndarray, "batch shorter"]:
        """Each hidden span as one sentinel, the first span's first; as many in every row."""
        begins = hidden.copy()
        begins[:, 1:] &= ~hidden[:, :-1]
        number = np.cumsum(begins, axis=1) - 1
        replaced = np.where(begins, self.sentinels[number], ids)
        kept: np.ndarray = replaced[begins | ~hidden].reshape(len(ids), -1)
        return kept


def noise_mask(
    uniforms: Float[np.ndarray, "batch draws"], raw: int, noise: Noise
) -> Bool[np.ndarray, "batch raw"]:
    """Where noise is: spans of other tokens and of noise in turn, the first no noise.

    Args:
        uniforms: ``raw - 2`` numbers a row.
        raw: tokens of a row.
        noise: how many are noise, in how many spans.
    """
    border = noise.tokens - 1
    noisy = _random_parts(uniforms[:, :border], noise.tokens, noise.spans)
    others = _random_parts(uniforms[:, border:], raw - noise.tokens, noise.spans)
    sizes = np.stack([others, noisy], axis=2).reshape(-1)
    return np.repeat(np.arange(len(sizes)) % 2 == 1, sizes).reshape(len(uniforms), raw)


def _random_parts(
    uniforms: Float[np.ndarray, "batch borders"], items: int, parts: int
) -> Int[np.ndarray, "batch parts"]:
    """Sizes of ``parts`` parts of ``items`` items, every cut of them as likely as any other."""
    batch = len(uniforms)
    cuts = np.zeros((batch, parts + 1), np.int64)
    cuts[:, -1] = items
    if parts > 1:  # the borders between items with the least numbers
        least = np.argpartition(uniforms, parts - 2, axis=1)[:, : parts - 1]
        cuts[:, 1:-1] = np.sort(least, axis=1) + 1
    return np.diff(cuts, axis=1)


def sentinel_ids(tokenizer: Tokenizer, count: int) -> Int[np.ndarray, "sentinels"]:
    """The first ``count`` sentinels, found by name: ``<extra_id_0>``, ``<extra_id_1>`` ...

    Raises:
        JaxLMError: the tokenizer has fewer.
    """
    names = special_names(tokenizer)
    wanted = [SENTINEL.format(number) for number in range(count)]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise JaxLMError(
            f"objective span-corruption needs {count} sentinels here and the tokenizer has no "
            f"{missing[0]}: train one with --preset t5, or with --sentinels {max(count, 100)}"
        )
    return np.array([names[name] for name in wanted], np.int32)


def _lengths(config: SpanCorruptionConfig, wanted: Wanted) -> CorruptedLengths:
    try:
        lengths = config.lengths(wanted.input_length)
    except ValueError as error:
        raise JaxLMError(str(error)) from None
    if wanted.target_length is not None and wanted.target_length < lengths.target:
        raise JaxLMError(
            f"objective {config.name} gives targets of {lengths.target} tokens for inputs of "
            f"{wanted.input_length}, more than the target length of {wanted.target_length}"
        )
    return lengths
