"""The Apache Beam graph. Beam carries shards, not documents, so any runner gives equal files."""

import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jax_lm.errors import UsageError, missing_extra
from jax_lm.preprocessing.shards import Run


def run_on_beam(runs: Sequence[Run], write: Callable[[Run], int], flags: list[str]) -> None:
    """Write every run of shards; exceptions are Beam's own.

    Raises:
        JaxLMError: Apache Beam is not installed.
        UsageError: a flag is not one of Beam's.
    """
    with _quiet():
        try:
            import apache_beam
        except ImportError:
            raise missing_extra("apache-beam", "beam", "preprocess") from None
        beam: Any = apache_beam  # parts of it are untyped
        try:
            with beam.Pipeline(options=_options(flags)) as pipeline:
                _ = (
                    pipeline
                    | "Shards" >> beam.Create(runs)
                    | "Spread over workers" >> beam.Reshuffle()
                    | "Write" >> beam.Map(write)
                )
        except RuntimeError as error:
            if "KeyboardInterrupt" in str(error):  # Beam wraps Ctrl-C, too
                raise KeyboardInterrupt from None
            raise


def beam_flags(runner: str, num_workers: int, beam_options: str) -> list[str]:
    """Beam's own flags for a runner, a number of local processes, and what the user adds."""
    flags = [f"--runner={runner}"]
    if num_workers > 1:
        flags += ["--direct_running_mode=multi_processing", f"--direct_num_workers={num_workers}"]
        flags += ["--default_sdk_harness_log_level=CRITICAL"]
    try:
        return flags + shlex.split(beam_options)
    except ValueError as error:
        raise UsageError(f"--beam-options {beam_options!r}: {error}") from None


def _options(flags: list[str]) -> Any:
    from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

    parser = _BeamArgumentParser(allow_abbrev=False, add_help=False)
    for group in PipelineOptions.__subclasses__():
        if hasattr(group, "_add_argparse_args"):
            group._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(flags)
    if unknown:  # Beam itself would drop it with a warning
        raise UsageError(f"--beam-options: Apache Beam has no flag {unknown[0]}")
    return PipelineOptions(flags)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Beam's log off the terminal: it repeats as tracebacks what is raised anyway."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
