"""``jax-lm report``: one HTML file a person can read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.trackers.report import write_report

DESCRIPTION = """Write one HTML file with a run's curves, samples, configuration and environment;
several runs are laid over each other. Any browser opens it, no network needed.

Example: jax-lm report runs/first runs/second --output comparison.html"""


@dataclass(frozen=True, kw_only=True)
class ReportArguments:
    """Flags of ``jax-lm report``."""

    run_dir: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, as written by jax-lm train."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["--output-path"])] = None
    """The HTML file; None: report.html in the first run directory."""


def main(args: list[str]) -> None:
    """Write the report and say where it is."""
    arguments = parse(ReportArguments, args, "jax-lm report", DESCRIPTION)
    output = arguments.output
    if output is None and arguments.run_dir:
        output = arguments.run_dir[0] / "report.html"
    print(f"wrote {write_report(arguments.run_dir, output or Path('report.html'))}")
