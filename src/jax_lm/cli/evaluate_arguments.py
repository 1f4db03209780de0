"""What ``jax-lm evaluate`` is told."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import UsageError
from jax_lm.sharding.mesh import MeshConfig

DESCRIPTION = """Loss, perplexity, accuracy and bits per byte of a model on text.

Example: jax-lm evaluate runs/quickstart 'stdlib?split=validation' --method rolling
         --output results --plot results/subsets.svg
"""


@dataclass(frozen=True, kw_only=True)
class Arguments(ReadingOptions):
    """What to evaluate, and how."""

    model: tyro.conf.Positional[str]
    """Run directory, RUN@STEP or Hugging Face directory."""
    specs: tyro.conf.Positional[tuple[str, ...]]
    """Where the text is, or a feature PREFIX."""
    method: Literal["rolling", "disjoint", "pseudo"] | None = None
    """How documents are scored; rolling if not given. rolling: each token sees at least
    --context-length tokens before it (the Pile paper's); disjoint: windows do not overlap
    (lm-evaluation-harness's); pseudo, for masked models: each token is hidden once."""
    window: int | None = None
    """Tokens of a window; default: the model's context length."""
    context_length: int | None = None
    """Tokens of context in rolling windows; default: half the window."""
    batch_size: int = 16
    """Windows scored at once; the numbers do not depend on it."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the computation."""
    objective: str | None = None
    """Score what an objective asks for (masked-lm, span-corruption, denoising, seq2seq ...), over
    feature rows; default: as the model was trained, and documents for a decoder."""
    compressors: bool = True
    """Print what zlib and xz reach on the same documents."""
    resamples: int = 2000
    """Draws of the documents for 95 % intervals; 0: no intervals."""
    resampling_seed: int = 0
    """Decides those draws."""
    document_indices: Path | None = None
    """Score the listed documents alone: a JSON list of numbers counted within the text's subset, or
    a directory with SUBSET/groupN.json, as the Pile's are published."""
    group: int = 0
    """N, in a directory of --document-indices."""
    mesh: MeshConfig = field(default_factory=MeshConfig)
    """How devices share the work; the numbers do not depend on it."""
    all_checkpoints: bool = False
    """Evaluate every checkpoint that the run keeps, not one model."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=("--output-path",))] = None
    """Also write the numbers there as JSON: a .json file, or a directory for eval_results.json."""
    plot: Path | None = None
    """Draw bits per byte by subset, or by step with --all-checkpoints, into this .svg file."""
    wandb_project: str | None = None
    """Log the numbers to this Weights & Biases project, one row for each model evaluated."""
    wandb_mode: Literal["online", "offline"] = "online"
    """offline writes to wandb/ beside the output, for `wandb sync` later."""
    run_name: str | None = None
    """Of the Weights & Biases run; default: the model's name."""
    step: int | None = None
    """Step of that row; default: the checkpoint's, where it is one."""

    generate: bool = False
    """Write a text after each input of in/out pairs and compare it with the output: exact match,
    ROUGE, distinct-2 and -3, length."""
    generations: Path | None = None
    """With --generate: write every text to this .jsonl file."""
    max_new_tokens: int = 128
    """With --generate: longest text, in tokens."""
    num_beams: int = 1
    """With --generate: hypotheses of a beam search; 1: always the most probable token."""
    rouge_words: Literal["ascii", "unicode"] = "ascii"
    """With --generate: words are runs of ASCII letters and digits, as the package rouge_score has
    them, or of any script's, which Korean needs."""
    lm_eval: str | None = None
    """Run these tasks of lm-evaluation-harness, as in wikitext,piqa, in the place of SPECs."""
    lm_eval_include: Path | None = None
    """With --lm-eval: a directory with tasks of your own."""
    limit: int | None = None
    """With --lm-eval: first so many documents of each task."""

    def __post_init__(self) -> None:
        """Refuse what leads nowhere.

        Raises:
            UsageError: a flag has nothing to act on, a step is below 0, or a plot is no .svg file.
        """
        super().__post_init__()
        for flag in ("wandb_mode", "run_name", "step"):
            if self.wandb_project is None and getattr(self, flag) not in (None, "online"):
                name = flag.replace("_", "-")
                raise UsageError(f"--{name} does nothing without --wandb-project: give that too")
        if self.all_checkpoints and self.step is not None:
            raise UsageError("--all-checkpoints logs each checkpoint under its own step: no --step")
        if self.step is not None and self.step < 0:
            raise UsageError(f"--step is {self.step}, expected 0 or more")
        if self.plot is not None and self.plot.suffix != ".svg":
            raise UsageError(f"--plot {self.plot}: expected the name of an .svg file")
        refuse_idle_flags(self)


GENERATING = ("generations", "max_new_tokens", "num_beams", "rouge_words")
TASKS = ("lm_eval_include", "limit")
SCORING = (
    "method",
    "window",
    "context_length",
    "objective",
    "document_indices",
    "all_checkpoints",
    "plot",
    "wandb_project",
)
"""Flags about scoring text; the others act on every evaluation, or their defaults do no harm."""


def refuse_idle_flags(given: Arguments) -> None:
    """Refuse flags that --generate or --lm-eval would leave unused, or that need them.

    Raises:
        UsageError: one was given.
    """
    if given.generate and given.lm_eval is not None:
        raise UsageError("--generate and --lm-eval are two evaluations: give one of them")
    if (given.lm_eval is None) != bool(given.specs):
        raise UsageError(
            "--lm-eval runs tasks that bring their own text: leave the SPEC out"
            if given.specs
            else f"the text is missing: name a SPEC or a feature PREFIX after {given.model}"
        )
    defaults = {one.name: one.default for one in fields(Arguments)}
    otherwise = "--generate" if given.generate else "--lm-eval"
    groups = (
        (GENERATING, given.generate, "does nothing without --generate: give that too"),
        (TASKS, given.lm_eval is not None, "does nothing without --lm-eval: give that too"),
        (SCORING, _scores(given), f"has no effect with {otherwise}: leave it out"),
    )
    for names, has_effect, sentence in groups:
        for name in names:
            if not has_effect and getattr(given, name) != defaults[name]:
                raise UsageError(f"--{name.replace('_', '-')} {sentence}")


def _scores(given: Arguments) -> bool:
    return not given.generate and given.lm_eval is None
