"""Command-line arguments from dataclasses: tyro, with unknown flags told in one sentence."""

import dataclasses
import difflib
import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, TypeVar, get_type_hints

import tyro

from jax_lm.errors import UsageError

Arguments = TypeVar("Arguments")


def parse(
    arguments: type[Arguments],
    args: list[str],
    prog: str,
    description: str,
    default: Arguments | None = None,
) -> Arguments:
    """Parse ``args`` into the dataclass ``arguments``.

    Args:
        arguments: a dataclass; a docstring under each field becomes its help.
        args: the words after the verb.
        prog: shown in usage, such as ``jax-lm train``.
        description: shown by ``--help``; ends with a worked example.
        default: an instance whose values are the defaults.

    Raises:
        UsageError: a flag is not known; the nearest one is named.
    """
    given: dict[str, Any] = {} if default is None else {"default": default}
    parsed: Arguments
    with _one_sentence(prog):
        parsed, unknown = tyro.cli(
            arguments,
            args=args,
            prog=prog,
            description=description,
            return_unknown_args=True,
            **given,
        )
    if unknown:
        raise UsageError(_unknown_message(unknown[0], flags_of(parsed), prog))
    return parsed


@contextmanager
def _one_sentence(prog: str) -> Iterator[None]:
    """Turn the box that tyro draws around a mistake into a UsageError.

    Raises:
        UsageError: a flag has a wrong value or none, or one that is needed is missing.
    """
    drawn = io.StringIO()
    try:
        with redirect_stderr(drawn):
            yield
    except SystemExit as end:
        if not end.code or not drawn.getvalue():
            raise
        raise UsageError(f"{_first_part(drawn.getvalue())} (see {prog} --help)") from None


def _first_part(box: str) -> str:
    """What stands between a box's frame and its first rule, on one line."""
    words: list[str] = []
    for line in box.splitlines():
        inside = line.strip("│╭╮╰╯ ")
        if words and set(inside) <= {"─"}:
            break
        if not inside.startswith("─"):
            words += inside.split()
    return " ".join(words).rstrip(".")


def flags_of(arguments: Any, prefix: str = "") -> list[str]:
    """Every flag of a dataclass, or of an instance of one, in kebab case, nested ones with dots."""
    flags = []
    of_class = isinstance(arguments, type)
    parts = get_type_hints(arguments) if of_class else vars(arguments)
    for field in dataclasses.fields(arguments):
        name = f"{prefix}{field.name.replace('_', '-')}"
        part = parts[field.name]
        if dataclasses.is_dataclass(part):
            flags.extend(flags_of(part, f"{name}."))
        else:
            flags.append(f"--{name}")
    return flags


def _unknown_message(word: str, flags: list[str], prog: str) -> str:
    if not word.startswith("-"):
        return f"unexpected argument {word!r}; see {prog} --help"
    flag = word.split("=", 1)[0].replace("_", "-")
    leaves = {f"--{known.removeprefix('--').rsplit('.', 1)[-1]}": known for known in flags}
    close = difflib.get_close_matches(flag, [*flags, *leaves], n=1, cutoff=0.5)
    meant = f"; did you mean {leaves.get(close[0], close[0])}?" if close else ""
    return f"unknown flag {flag}{meant} (see {prog} --help)"


def take_flag(args: list[str], flag: str) -> tuple[bool, list[str]]:
    """Whether ``flag`` is among the arguments, and the others."""
    return flag in args, [arg for arg in args if arg != flag]


def take_value(args: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of ``--flag VALUE`` or ``--flag=VALUE``, if it is given, and the others.

    Raises:
        UsageError: the flag has no value.
    """
    for index, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if name != flag:
            continue
        if equals:
            return value, args[:index] + args[index + 1 :]
        if index + 1 == len(args):
            raise UsageError(f"{flag} needs a value")
        return args[index + 1], args[:index] + args[index + 2 :]
    return None, args
