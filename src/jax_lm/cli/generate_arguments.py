"""What ``jax-lm generate`` is told."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jax_lm.errors import UsageError, check_values
from jax_lm.generation.beam import BeamConfig
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.sharding.mesh import MeshConfig

DESCRIPTION = """Continue prompts: prints each one and what the model writes after it.

An encoder-decoder reads the prompt as its input, and writes its output.

--url asks a server that `jax-lm serve` started.

Example: jax-lm generate runs/quickstart --prompt "def main(" --max-new-tokens 200 --num-samples 2
"""


@dataclass(frozen=True, kw_only=True)
class Arguments(SamplingConfig):
    """What to continue, and how."""

    model: Annotated[str | None, tyro.conf.Positional] = None
    """A run directory, RUN@STEP, a Hugging Face directory or a name on its hub."""
    url: str | None = None
    """Address of a running server, such as http://127.0.0.1:8000, in place of MODEL. The
    environment variable JAX_LM_TOKEN is its bearer token, where it asks for one."""
    prompt: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Text to continue; may be given several times. "" starts a new document."""
    prompt_file: Path | None = None
    """One more prompt: the text of this file, without its last line break."""
    prompts: Path | None = None
    """More prompts: a .txt file with one a line, or a .jsonl file with records such as
    {"prompt": "..."} or {"in_text": "..."}."""
    num_samples: int = 1
    """Continuations of each prompt."""
    stop: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Text that ends a continuation, and is not part of it; may be given several times."""
    num_beams: int = 1
    """Search for the most probable continuations with so many hypotheses (beam search) instead of
    drawing tokens; 1: no search."""
    length_penalty: float = 1.0
    """Of a beam search: above 0 favours long continuations, below 0 short ones."""
    parse_special_tokens: bool = False
    """Read strings such as <usr> in prompts as special tokens, not as text."""
    stream: bool = False
    """Print text as it is drawn, as is done anyway where one text goes to a terminal."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=("--output-path",))] = None
    """Write the continuations to this .jsonl file instead: prompt, text, num_tokens,
    finish_reason."""
    batch_size: int = 16
    """Texts continued at once; where one ends, the next one begins."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the computation, and of the cache of keys and values."""
    mesh: MeshConfig = field(default_factory=MeshConfig)
    """How devices share the work."""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing, alone or together."""
        super().__post_init__()
        counts = {"--num-samples": self.num_samples, "--batch-size": self.batch_size}
        check_values({flag: (count, count >= 1, "1 or more") for flag, count in counts.items()})
        if self.num_beams != 1:
            _ = self.beam
        drawing = ("temperature", "top_k", "top_p", "min_p", "seed")
        searching = ("length_penalty",)
        idle = drawing if self.num_beams != 1 else searching
        self._refuse(idle, f"with{'' if self.num_beams != 1 else 'out'} --num-beams")
        if self.output is not None and self.output.suffix != ".jsonl":
            raise UsageError(f"--output {self.output}: expected the name of a .jsonl file")
        if (self.model is None) == (self.url is None):
            raise UsageError("name a MODEL to load, or a server with --url: exactly one of them")
        if self.url is not None:
            decided = ("num_beams", "length_penalty", "parse_special_tokens", "dtype", "mesh")
            self._refuse(decided, "with --url")
        if self.stream and self.num_beams != 1:
            raise UsageError("--stream with --num-beams: a search knows its text at its end only")
        if self.stream and self.output is not None:
            raise UsageError("--stream prints text and --output writes it to a file: give one")

    def _refuse(self, names: Sequence[str], where: str) -> None:
        defaults = {one.name: one.default for one in fields(self)} | {"mesh": MeshConfig()}
        for name in names:
            if getattr(self, name) != defaults[name]:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} has no effect {where}: leave it out")

    @property
    def beam(self) -> BeamConfig:
        """The same as the settings of a beam search.

        Raises:
            UsageError: they mean nothing there.
        """
        return BeamConfig(
            num_beams=self.num_beams,
            num_returns=self.num_samples,
            max_new_tokens=self.max_new_tokens,
            min_new_tokens=self.min_new_tokens,
            length_penalty=self.length_penalty,
            repetition_penalty=self.repetition_penalty,
            stop_ids=self.stop_ids,
        )
