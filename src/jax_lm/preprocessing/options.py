"""How documents become feature rows: every choice, beside what it means."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import UsageError
from jax_lm.objectives.span_corruption import lengths_for_input
from jax_lm.preprocessing.cutting.base import Cutting
from jax_lm.preprocessing.cutting.modes import Mode
from jax_lm.preprocessing.manifest import SpecialIds

HOW_TO_RUN = (
    "engine",
    "num_workers",
    "runner",
    "beam_options",
    "overwrite",
)  # no influence on the rows


MODE_FLAGS = {
    "stride": "windows",
    "min_sequence_length": "windows",
    "context_length": "rolling",
    "max_input_length": "pairs",
    "max_output_length": "pairs",
}
"""Flags that mean something in one mode alone."""


@dataclass(frozen=True, kw_only=True)
class PreprocessOptions(ReadingOptions):
    """How documents become feature rows."""

    mode: Mode = "packed"
    """How documents are cut: packed joins them with a separator and cuts every T tokens; windows
    strides over each document, with BOS and EOS; rolling scores every token once with context
    before it; documents gives each one a row; pairs keeps inputs and outputs apart."""
    max_sequence_length: int = 1024
    """T: how many tokens of a row are targets."""
    separator_token: str | None = None
    """Token between documents; default: EOS, else the only special token, else none."""
    parse_special_tokens: bool = False
    """Read strings such as <|endoftext|> in the text as special tokens, not as text."""
    stride: int | None = None
    """Mode windows: tokens from a window's start to the next; default: they do not overlap."""
    min_sequence_length: int | None = None
    """Mode windows: leave out windows with fewer tokens, special ones included."""
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
    objective: Literal["causal-lm", "span-corruption"] = "causal-lm"
    """span-corruption stores rows so long that, corrupted, they have T input tokens."""
    deduplicate: Literal["none", "exact", "near"] = "none"
    """Leave out documents seen before: equal ones, or also ones that share most 5-word runs."""
    labels: bool = False
    """Store labels even where they are the plain shift of input_ids."""
    shard_size: int = 16_000_000
    """Bytes of source text in a shard, the unit of work and of retry; a shard gives a file."""
    engine: Literal["auto", "gigatoken", "fastokens", "tokenizers"] = "auto"
    """What encodes: the fastest whose ids equal the tokenizers library's on this corpus."""
    num_workers: int = 1
    """Processes on this machine; the files are the same for any number."""
    runner: str = "DirectRunner"
    """Apache Beam runner; its workers must share the output folder."""
    beam_options: str = ""
    """More of Apache Beam's own flags, as in --beam-options="--flag=value --other=value"."""
    overwrite: bool = False
    """Replace a set that is already there."""

    def __post_init__(self) -> None:
        """Refuse numbers below 1."""
        super().__post_init__()
        for name in ("max_sequence_length", "shard_size", "num_workers", "context_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} is {value}, expected 1 or more")
        self._refuse_flags_of_other_modes()

    def _refuse_flags_of_other_modes(self) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(PreprocessOptions)}
        for name, mode in MODE_FLAGS.items():
            if self.mode != mode and getattr(self, name) != defaults[name]:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} is for --mode {mode}; this is --mode {self.mode}")

    @property
    def row_length(self) -> int:
        """T of the rows that are stored: for span corruption, long enough to be corrupted."""
        if self.objective == "span-corruption":
            return lengths_for_input(self.max_sequence_length).raw
        return self.max_sequence_length

    @property
    def target_length(self) -> int | None:
        """Width of the outputs, in mode pairs."""
        if self.mode != "pairs":
            return None
        return self.max_output_length or self.max_sequence_length

    @property
    def least_kind(self) -> str:
        """The kind of targets to begin with; weights found in the text may need a greater one."""
        if self.mode == "pairs":
            return "pairs"
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
