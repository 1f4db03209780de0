"""``jax-lm evaluate MODEL SPEC...``: numbers with their definition attached."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.documents.reading import ReadingOptions

DESCRIPTION = """Loss, perplexity, accuracy and bits per byte of a model on text.

Example: jax-lm evaluate runs/quickstart 'stdlib?split=validation' --method rolling
"""


@dataclass(frozen=True, kw_only=True)
class Arguments(ReadingOptions):
    """What to evaluate, and how."""

    model: tyro.conf.Positional[str]
    """Run directory, RUN@STEP or Hugging Face directory."""
    specs: tyro.conf.Positional[tuple[str, ...]]
    """Where the text is, or a feature PREFIX."""
    method: Literal["rolling", "disjoint"] | None = None
    """How documents are cut; rolling if not given. rolling: each token sees at least
    --context-length tokens before it (the Pile paper's); disjoint: windows do not overlap
    (lm-evaluation-harness's)."""
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
    output: Annotated[Path | None, tyro.conf.arg(aliases=("--output-path",))] = None
    """Also write the numbers to this JSON file."""


def main(args: list[str]) -> None:
    """Run the verb."""
    parsed = parse(Arguments, args, "jax-lm evaluate", DESCRIPTION)
    from jax_lm.evaluation.evaluate import evaluate
    from jax_lm.evaluation.options import EvaluateOptions

    fields = {name: getattr(parsed, name) for name in vars(EvaluateOptions())}
    result = evaluate(parsed.model, parsed.specs, EvaluateOptions(**fields))
    print(result.table())
    if parsed.output is not None:
        parsed.output.write_text(json.dumps(result.to_json(), indent=1) + "\n")
        print(f"written to {parsed.output}")
