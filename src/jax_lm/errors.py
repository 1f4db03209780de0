"""Errors meant for people: one sentence that says what was wrong, where, and what to do."""

import difflib
from collections.abc import Iterable, Mapping


class JaxLMError(Exception):
    """Bad input or a failed run; the command line prints the message alone and exits 1."""

    exit_code = 1


class UsageError(JaxLMError):
    """An unknown flag or key, or flags that contradict each other; exit code 2."""

    exit_code = 2


class SavedAndStopped(JaxLMError):
    """A run saved itself and stopped because a signal asked it to; exit code 75."""

    exit_code = 75


class StoppedByUser(JaxLMError):
    """Ctrl-C, after whatever could be saved was saved; exit code 130."""

    exit_code = 130


def missing_extra(package: str, extra: str, purpose: str) -> JaxLMError:
    """The error for an optional dependency that is not installed."""
    return JaxLMError(f"{purpose} needs {package}: pip install 'jax-lm[{extra}]'")


def check_values(checks: Mapping[str, tuple[object, bool, str]]) -> None:
    """Refuse the first value that is not as expected.

    Args:
        checks: by flag, the value, whether it is valid, and what is expected, as in ``1 or more``.

    Raises:
        UsageError: naming all three.
    """
    for flag, (value, valid, expected) in checks.items():
        if not valid:
            raise UsageError(f"{flag} is {value}, expected {expected}")


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """``; did you mean 'x'?`` for the closest known word, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""
