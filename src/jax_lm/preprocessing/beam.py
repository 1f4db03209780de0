"""The Apache Beam graph. Beam carries shards, not documents, so any runner gives equal files."""

import logging
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from jax_lm.errors import UsageError, missing_extra
from jax_lm.preprocessing.shards import Run


def run_on_beam(runs: Sequence[Run], write: Callable[[Run], int], flags: list[str]) -> None:
    """Write every run of shards; exceptions are Beam's own.

    Raises:
        JaxLMError: Apache Beam is not installed.
        UsageError: a flag is not one of Beam's.
    """
    with _quiet():
        beam = _apache_beam()
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


def unknown_flags(flags: list[str]) -> list[str]:
    """Those of the words that are no flag of Beam's, nor the value of one.

    Raises:
        JaxLMError: Apache Beam is not installed.
        UsageError: a flag has a value that Beam does not take.
    """
    with _quiet():
        _apache_beam()
    from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

    class Parser(_BeamArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(f"Apache Beam: {message}")

    parser = Parser(allow_abbrev=False, add_help=False)
    for group in PipelineOptions.__subclasses__():
        if hasattr(group, "_add_argparse_args"):
            group._add_argparse_args(parser)
    return list(parser.parse_known_args(flags)[1])


def _apache_beam() -> Any:  # parts of it are untyped
    try:
        import apache_beam
    except ImportError:
        raise missing_extra("apache-beam", "beam", "preprocess") from None
    return apache_beam


def beam_flags(runner: str, num_workers: int, workers: str, beam_options: str) -> list[str]:
    """Beam's own flags for a runner, so many local workers, and what the user adds."""
    flags = [f"--runner={runner}"]
    count = num_workers or os.cpu_count() or 1
    if count > 1 and runner == "DirectRunner":
        mode = "multi_threading" if workers == "threads" else "multi_processing"
        flags += [f"--direct_running_mode={mode}", f"--direct_num_workers={count}"]
        flags += ["--default_sdk_harness_log_level=CRITICAL"]
    try:
        return flags + shlex.split(beam_options)
    except ValueError as error:
        raise UsageError(f"--beam-options {beam_options!r}: {error}") from None


def _options(flags: list[str]) -> Any:
    from apache_beam.options.pipeline_options import PipelineOptions

    if unknown := unknown_flags(flags):  # Beam itself would drop it with a warning
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
