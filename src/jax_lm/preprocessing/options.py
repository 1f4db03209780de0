"""How documents become feature rows: every choice, beside what it means."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, Literal

from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import UsageError
from jax_lm.objectives.span_corruption import (
    MEAN_NOISE_SPAN_LENGTH,
    NOISE_DENSITY,
    SpanCorruptionConfig,
)
from jax_lm.preprocessing.cutting.base import Cutting
from jax_lm.preprocessing.cutting.modes import Mode
from jax_lm.preprocessing.manifest import SpecialIds

HOW_TO_RUN = (
    "engine",
    "num_workers",
    "workers",
    "runner",
    "beam_options",
    "overwrite",
)  # no influence on the rows


Objective = Literal["causal-lm", "masked-lm", "span-corruption", "denoising"]
"""What the rows are to be trained by, where it decides what they hold; pairs are a mode."""
MODE_FLAGS = {
    "stride": "windows",
    "min_sequence_length": "windows",
    "num_special_tokens": "windows",
    "seed_compatible": "windows",
    "context_length": "rolling",
    "max_input_length": "pairs",
    "max_output_length": "pairs",
    "segment_ids": "packed",  # elsewhere a row is of one document
}
"""Flags that mean something in one mode alone."""
SPAN_FLAGS = ("noise_density", "mean_noise_span_length")
"""Flags that mean something for span corruption alone."""
NOT_DRAWN = ("labels", "seed_compatible")
"""Flags that mean nothing where targets are drawn when rows are read."""
ENCODER_DECODER = ("span-corruption", "denoising")
"""Objectives whose decoder reads a row as one document."""
ONE_PIECE = ("packed", "windows", "documents")
"""Modes whose rows say no more than their ids: what draws its own targets can read them."""
AT_LEAST = {
    "max_sequence_length": 1,
    "shard_size": 1,
    "num_workers": 0,
    "context_length": 1,
    "stride": 1,
    "min_sequence_length": 1,
    "num_special_tokens": 0,
    "max_input_length": 1,
    "max_output_length": 1,
}


@dataclass(frozen=True, kw_only=True)
class PreprocessOptions(ReadingOptions):
    """How documents become feature rows."""

    mode: Mode = "packed"
    """How documents are cut: packed joins them with a separator and cuts every T tokens; windows
    strides over each document, with BOS and EOS; rolling scores every token once with context
    before it; documents gives each one a row; pairs keeps inputs and outputs apart."""
    max_sequence_length: int = 1024
    """T: how many tokens of a row are inputs."""
    separator_token: str | None = None
    """Token between documents; default: EOS, else the only special token, else none."""
    parse_special_tokens: bool = False
    """Read strings such as <|endoftext|> in the text as special tokens, not as text."""
    stride: int | None = None
    """Mode windows: tokens from a window's start to the next; default: they do not overlap."""
    min_sequence_length: int | None = None
    """Mode windows: leave out windows that offer fewer targets."""
    num_special_tokens: int | None = None
    """Mode windows: places of a row kept for BOS and EOS; default: as many as there are."""
    seed_compatible: bool = False
    """Mode windows: give the rows of the program that the mode comes from, which took every id 0
    for padding, also where it is a token of the text."""
    context_length: int = 1
    """Mode rolling: c; each window after a document's first scores T - c + 1 new tokens."""
    max_input_length: int | None = None
    """Mode pairs: keep so many of the input's last tokens; default: T."""
    max_output_length: int | None = None
    """Mode pairs: keep so many of the output's first tokens; default: T."""
    segment_ids: bool = False
    """Store which tokens of a row are of one document, so that others can be hidden from it."""
    sentences: bool = False
    """Store where sentences end, for objectives that permute them."""
    objective: Objective = "causal-lm"
    """masked-lm, denoising: rows of T ids, from which targets are drawn when they are read;
    span-corruption: rows so long that, corrupted, they have T input tokens."""
    noise_density: float = NOISE_DENSITY
    """Objective span-corruption: share of a row's tokens that the input lacks."""
    mean_noise_span_length: float = MEAN_NOISE_SPAN_LENGTH
    """Objective span-corruption: tokens a span has on average."""
    deduplicate: Literal["none", "exact", "near"] = "none"
    """Leave out documents seen before: equal ones, or also ones that share most 5-word runs."""
    labels: bool = False
    """Store labels even where they are the plain shift of input_ids."""
    shard_size: int = 16_000_000
    """Bytes of source text in a shard, the unit of work and of retry; a shard gives a file."""
    engine: Literal["auto", "gigatoken", "fastokens", "tokenizers"] = "auto"
    """What encodes: the fastest whose ids equal the tokenizers library's on this corpus."""
    num_workers: int = 0
    """How many shards are made at once on this machine; 0: one a core. The files are the same."""
    workers: Literal["threads", "processes"] = "threads"
    """Processes take seconds to start and pay where cleaning or a slow engine keeps Python busy."""
    runner: str = "DirectRunner"
    """Apache Beam runner; its workers must share the output folder."""
    beam_options: str = ""
    """More of Apache Beam's own flags, as in --beam-options="--flag=value --other=value"."""
    overwrite: bool = False
    """Replace a set that is already there."""

    def __post_init__(self) -> None:
        """Refuse numbers that are too small, and flags that do nothing here."""
        super().__post_init__()
        for name, least in AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{_flag(name)} is {value}, expected {least} or more")
        if self.context_length > self.max_sequence_length:
            raise UsageError(
                f"--context-length {self.context_length} is more than --max-sequence-length "
                f"{self.max_sequence_length}"
            )
        if self.sentences and self.parse_special_tokens:
            raise UsageError("--sentences does not go with --parse-special-tokens")
        self._refuse_flags_of_other_modes()
        self._refuse_flags_of_other_objectives()
        try:
            _ = self.row_length
        except ValueError as error:
            raise UsageError(f"--max-sequence-length: {error}") from None

    def _refuse_flags_of_other_modes(self) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(PreprocessOptions)}
        for name, mode in MODE_FLAGS.items():
            if self.mode != mode and getattr(self, name) != defaults[name]:
                raise UsageError(f"{_flag(name)} is for --mode {mode}; this is --mode {self.mode}")
        for name in ("sentences", "objective"):
            if self.mode not in ONE_PIECE and getattr(self, name) != defaults[name]:
                modes = ", ".join(ONE_PIECE)
                raise UsageError(f"{_flag(name)} is for --mode {modes}; this is --mode {self.mode}")
        if self.mode == "pairs" and self.labels:
            raise UsageError("--labels has no meaning in --mode pairs, whose outputs are apart")

    def _refuse_flags_of_other_objectives(self) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(PreprocessOptions)}
        useless = [] if self.objective == "span-corruption" else [*SPAN_FLAGS]
        useless += NOT_DRAWN if self.objective != "causal-lm" else ()
        useless += ["segment_ids"] if self.objective in ENCODER_DECODER else []
        for name in useless:
            if getattr(self, name) != defaults[name]:
                raise UsageError(f"{_flag(name)} does not go with --objective {self.objective}")

    @property
    def num_local_workers(self) -> int:
        """How many shards are made at once on this machine."""
        return self.num_workers or os.cpu_count() or 1

    @property
    def row_length(self) -> int:
        """T of the rows that are stored: for span corruption, long enough to be corrupted."""
        if self.objective == "span-corruption":
            spans = SpanCorruptionConfig(
                noise_density=self.noise_density, mean_noise_span_length=self.mean_noise_span_length
            )
            return spans.lengths(self.max_sequence_length).raw
        return self.max_sequence_length

    @property
    def target_length(self) -> int | None:
        """Width of the outputs, in mode pairs."""
        if self.mode != "pairs":
            return None
        return self.max_output_length or self.max_sequence_length

    @property
    def pad_id(self) -> int | None:
        """What to pad with, whatever the tokenizer has; None: as it has it."""
        return 0 if self.seed_compatible else None

    @property
    def least_kind(self) -> str:
        """The kind of targets to begin with; weights found in the text may need a greater one."""
        if self.mode == "pairs":
            return "pairs"
        if self.objective != "causal-lm":
            return "drawn"
        explicit = self.labels or self.segment_ids or self.mode in ("windows", "rolling")
        return "labels" if explicit else "shift"

    def cutting(self, special: SpecialIds, kind: str) -> Cutting:
        """What a shard's cutting needs of these options."""
        return Cutting(
            mode=self.mode,
            sequence_length=self.row_length,
            special=special,
            kind=kind,
            segment_ids=self.segment_ids,
            sentences=self.sentences,
            stride=self.stride,
            min_sequence_length=self.min_sequence_length,
            num_special_tokens=self.num_special_tokens,
            seed_compatible=self.seed_compatible,
            context_length=self.context_length,
            max_input_length=self.max_input_length,
            max_output_length=self.max_output_length,
        )

    def settings(self) -> dict[str, Any]:
        """The options that decide what the rows are, as the manifest records them."""
        names = [field.name for field in dataclasses.fields(PreprocessOptions)]
        values = {name: getattr(self, name) for name in names if name not in HOW_TO_RUN}
        # As JSON has them.
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
