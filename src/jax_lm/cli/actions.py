"""Verbs with a second word, as in ``jax-lm documents info``."""

import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from jax_lm.errors import UsageError, nearest


class Action(NamedTuple):
    """What a second word does."""

    run: Callable[[list[str], str, str], None]
    """Called with the words that follow, the program's name and the description."""
    description: str
    """What it does, ending with a worked example."""


def run_action(verb: str, actions: Mapping[str, Action], args: list[str]) -> None:
    """Run the action that ``args`` begins with, or say which there are.

    Raises:
        UsageError: there is none, or none of that name.
    """
    if args and args[0] in actions:
        action = actions[args[0]]
        action.run(args[1:], f"jax-lm {verb} {args[0]}", action.description)
    elif args and args[0] in ("-h", "--help"):
        listed = [f"jax-lm {verb} {name}\n  {actions[name].description}" for name in actions]
        print("\n".join([*listed, f"`jax-lm {verb} {next(iter(actions))} --help` shows its flags"]))
    else:
        given = f"{args[0]!r}{nearest(args[0], actions)}" if args else "nothing"
        expected = " or ".join(actions)
        raise UsageError(f"{verb}: expected {expected}, found {given}; see jax-lm {verb} --help")


def say_aside(line: str) -> None:
    """Tell what is done on standard error: standard output is for what was asked."""
    print(line, file=sys.stderr)
