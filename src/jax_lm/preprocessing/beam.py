"""The Apache Beam graph. Beam carries shards, not documents, so any runner gives equal files."""

import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from jax_lm.errors import JaxLMError, UsageError, missing_extra
from jax_lm.preprocessing.options import PreprocessOptions

T = TypeVar("T")


def run_on_beam(runs: Sequence[T], write: Callable[[T], int], flags: list[str]) -> None:
    """Call ``write`` for every run of shards; exceptions are Beam's own.

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
            raise JaxLMError(f"Apache Beam: {_first_line(error)}") from error
        except (ImportError, ValueError) as error:  # a runner or a flag that cannot be
            raise UsageError(f"Apache Beam: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]


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


def local_threads(options: PreprocessOptions) -> int:
    """How many shards threads of this process make at once; 1 where Beam spreads the work."""
    elsewhere = options.runner != "DirectRunner" or "--direct_" in options.beam_options
    return 1 if elsewhere or options.workers == "processes" else options.num_local_workers


def beam_flags(options: PreprocessOptions) -> list[str]:
    """Beam's own flags: the runner, local processes, and what the user adds."""
    runner, beam_options = options.runner, options.beam_options
    flags = [f"--runner={runner}"]
    count = options.num_local_workers
    if count > 1 and runner == "DirectRunner" and options.workers == "processes":
        flags += ["--direct_running_mode=multi_processing", f"--direct_num_workers={count}"]
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
