"""The terminal's side: lines in, answers out as they come, Ctrl-C for the answer alone."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import current_thread, main_thread
from types import FrameType
from typing import TextIO
from unicodedata import category

from jax_lm.errors import JaxLMError

MOST_PRESSES = 2
QUOTES = '"""'
BOLD, DIM, PLAIN = "\033[1m", "\033[2m", "\033[0m"


class Terminal:
    """Reads what a person types, and prints what the model says."""

    def __init__(self, lines: TextIO, output: TextIO) -> None:
        """Talk over these two; colours and line editing where they are a terminal."""
        self._lines, self._output = lines, output
        self.interactive = lines.isatty() and output.isatty()
        self._styled = self.interactive and not os.environ.get("NO_COLOR")
        if self.interactive:
            with suppress(ImportError):  # editing and recall of lines, where Python has them
                import readline  # noqa: F401

    def read(self, prompt: str) -> str | None:
        """What was typed: a line, or several; None at the end of input.

        A line that ends in a backslash goes on in the next; three double quotes begin a text of
        several lines, and end it.

        Raises:
            JaxLMError: what was typed is not UTF-8.
        """
        line = self._line(prompt)
        if line is None:
            return None
        if line.lstrip().startswith(QUOTES):
            return self._quoted(line.lstrip().removeprefix(QUOTES))
        parts = [line]
        while parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1]
            more = self._line("... ")
            if more is None:
                break
            parts.append(more)
        return "\n".join(parts)

    def tell(self, text: str) -> None:
        """A line about the conversation that is no part of it."""
        self._output.write(f"{self._style(DIM, text)}\n")
        self._output.flush()

    def speak(
        self, name: str, pieces: Iterator[str], interrupt: Callable[[], None]
    ) -> tuple[str, bool]:
        """Print an answer as it comes.

        Args:
            name: who speaks.
            pieces: of the answer.
            interrupt: called at Ctrl-C, to end an answer that is waited for.

        Returns:
            What was said, and whether Ctrl-C stopped it.

        Raises:
            JaxLMError: the answer failed, and not because it was stopped.
        """
        said = ""
        self._output.write(self._style(BOLD, f"{name}> "))
        self._output.flush()
        with stoppable(interrupt) as stopped, closing(pieces):  # type: ignore[type-var]
            try:
                for piece in pieces:
                    piece = piece if said else piece.lstrip()
                    said += piece
                    self._output.write(printable(piece))
                    self._output.flush()
                    if stopped:
                        break
            except JaxLMError:
                if not stopped:
                    raise
        self._output.write("\n")
        return said.rstrip(), bool(stopped)

    def _quoted(self, first: str) -> str:
        parts: list[str] = []
        line: str | None = first
        while line is not None and QUOTES not in line:
            parts.append(line)
            line = self._line("... ")
        parts.append("" if line is None else line.partition(QUOTES)[0])
        return "\n".join(parts).strip("\n")

    def _line(self, prompt: str) -> str | None:
        if self.interactive:
            try:
                return checked(input(prompt))
            except EOFError:
                self._output.write("\n")
                return None
        line = self._lines.readline()
        if not line:
            return None
        line = checked(line.rstrip("\n"))
        self._output.write(f"{prompt}{line}\n")  # so that a transcript reads as a conversation
        return line

    def _style(self, style: str, text: str) -> str:
        return f"{style}{text}{PLAIN}" if self._styled else text


@contextmanager
def stoppable(interrupt: Callable[[], None]) -> Iterator[list[bool]]:
    """The list is empty until Ctrl-C, which so stops what asks for it, and calls ``interrupt``.

    An answer ends between two tokens, never inside the model, which can go on answering. Where
    nothing helps, the third Ctrl-C ends the program.
    """
    stopped: list[bool] = []
    if current_thread() is not main_thread():
        yield stopped
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(True)
        if len(stopped) > MOST_PRESSES:
            raise KeyboardInterrupt
        interrupt()

    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def checked(line: str) -> str:
    """A line that was typed or piped in.

    Raises:
        JaxLMError: it is not UTF-8.
    """
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise JaxLMError("a line of the input is not UTF-8 text: convert it") from error
    return line


def printable(text: str) -> str:
    """The text with characters that would command a terminal, such as escape, made visible."""
    return "".join(
        character if character in "\n\t" or category(character) != "Cc" else repr(character)[1:-1]
        for character in text
    )


def standard_terminal() -> Terminal:
    """Over standard input and output."""
    return Terminal(sys.stdin, sys.stdout)
