"""``jax-lm VERB``: finds the verb's module, runs it and turns errors into one sentence."""

import io
import os
import sys
from collections.abc import Callable
from importlib import import_module

import jax_lm
from jax_lm.errors import JaxLMError, StoppedByUser, UsageError, nearest

VERBS = {
    "quickstart": "the whole journey in minutes, on a CPU with no network",
    "documents": "look at documents and store them: info, show, build, export, verify",
    "tokenizer": "train a tokenizer, or look at how it cuts a text: train, show",
    "preprocess": "documents -> Parquet features",
    "features": "look at feature rows and check every byte: info, show, verify",
    "recipes": "the recipes with their cost and expected result",
    "train": "pretrain or fine-tune, from a recipe",
    "evaluate": "loss, perplexity, accuracy and bits per byte on text",
    "generate": "continue a prompt",
    "chat": "talk to a model in the terminal",
    "serve": "a model behind HTTP: OpenAI's API, streaming, a chat page",
    "models": "the model shapes that train knows by name",
    "convert": "Hugging Face <-> ours, in either direction",
    "report": "one HTML file: curves, throughput, samples, configuration, environment",
    "doctor": "versions, devices, optional parts present or missing",
}
HELP_FLAGS = ("-h", "--help", "help")


def usage() -> str:
    """The text of ``jax-lm --help``."""
    verbs = "\n".join(f"  {verb:<12}{line}" for verb, line in VERBS.items())
    return (
        f"usage: jax-lm VERB [options]\n\n{verbs}\n\n"
        "`jax-lm VERB --help` shows every flag and a worked example; `jax-lm --version`.\n"
        "`--traceback` with any verb shows where an error came from.\n"
        "Start with: jax-lm quickstart"
    )


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if argv is not None:
        return guarded(_run, argv)
    return leave(guarded(_run, sys.argv[1:]))


def leave(code: int) -> int:
    """The exit code of this process; if it was stopped, threads of libraries cannot hold it up."""
    if code == StoppedByUser.exit_code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def guarded(run: Callable[[list[str]], int], args: list[str]) -> int:
    """Run a command, telling its errors in one sentence, and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of what a terminal does not know
    show_traceback = "--traceback" in args
    args = [arg for arg in args if arg != "--traceback"]
    try:
        return run(args)
    except (JaxLMError, OSError, KeyboardInterrupt) as error:
        if show_traceback:
            raise
        return _explain(error)
    except SystemExit as error:  # argument parsing: 0 after --help, 2 after a bad value
        return error.code if isinstance(error.code, int) else 2
    except Exception as error:
        if show_traceback:
            raise
        return _say(f"internal error: {error!r}; please report it with --traceback's output", 1)


def _run(args: list[str]) -> int:
    if not args or args[0] in HELP_FLAGS:
        print(usage())
        return 0 if args else 2
    if args[0] in ("--version", "-V"):
        print(f"jax-lm {jax_lm.__version__}")
        return 0
    verb, rest = args[0], args[1:]
    if verb not in VERBS:
        raise UsageError(f"unknown verb {verb!r}{nearest(verb, VERBS)}; see jax-lm --help")
    import_module(f"jax_lm.cli.{verb}").main(rest)
    return 0


def _explain(error: BaseException) -> int:
    if isinstance(error, JaxLMError):
        return _say(str(error), error.exit_code)
    if isinstance(error, KeyboardInterrupt):
        return _say("stopped", 130)
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return 0
    assert isinstance(error, OSError)
    where = f"{error.filename}: " if error.filename else ""
    return _say(f"{where}{error.strerror or error}", 1)


def _say(message: str, code: int) -> int:
    print(f"jax-lm: {message}", file=sys.stderr)
    return code
