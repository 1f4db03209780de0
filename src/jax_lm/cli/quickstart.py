"""``jax-lm quickstart``: the whole journey, on a CPU with no network."""

from dataclasses import dataclass
from pathlib import Path

from jax_lm.cli.arguments import parse

DESCRIPTION = """Learn Python from this interpreter's standard library: documents, tokenizer,
features, training, evaluation, generation, a Hugging Face directory and a report.

Stop it with Ctrl-C; the same command goes on.

Example: jax-lm quickstart
"""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Where, and whether to begin again."""

    run_dir: Path = Path("runs/quickstart")
    """Directory of the run; what it learns from lies beside it."""
    anew: bool = False
    """Remove what an earlier quickstart made, and begin again."""


def main(args: list[str]) -> None:
    """Run the verb."""
    parsed = parse(Arguments, args, "jax-lm quickstart", DESCRIPTION)
    from jax_lm.quickstart import Journey

    journey = Journey(parsed.run_dir)
    if parsed.anew:
        journey.forget()
    if journey.is_done:
        print(f"quickstart is done: {journey.result()}")
        journey.tell_where()
        print(f"\nRun it anew with: {journey.command} quickstart --anew")
        return
    journey.travel()
