"""How documents become feature rows: every choice, beside what it means."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import UsageError

HOW_TO_RUN = ("num_workers", "runner", "beam_options", "overwrite")  # no influence on the rows


@dataclass(frozen=True, kw_only=True)
class PreprocessOptions(ReadingOptions):
    """How documents become feature rows."""

    mode: Literal["packed"] = "packed"
    """How documents are cut: packed joins them with a separator and cuts every T tokens."""
    max_sequence_length: int = 1024
    """T: how many tokens of a row are targets."""
    separator_token: str | None = None
    """Token between documents; default: EOS, else the only special token, else none."""
    labels: bool = False
    """Store labels even where they are the plain shift of input_ids."""
    shard_size: int = 16_000_000
    """Bytes of source text in a shard, the unit of work and of retry; a shard gives a file."""
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
        for name in ("max_sequence_length", "shard_size", "num_workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} is {value}, expected 1 or more")

    def settings(self) -> dict[str, Any]:
        """The options that decide what the rows are, as the manifest records them."""
        names = [field.name for field in dataclasses.fields(PreprocessOptions)]
        return {name: getattr(self, name) for name in names if name not in HOW_TO_RUN}
