import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SECONDS = 30


def on_terminal(slave: int) -> None:
    """As a shell starts what a person types: the terminal is its own, and Ctrl-C reaches it."""
    os.close(os.open(os.ttyname(slave), os.O_RDWR))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class TypedProcess:
    """A program on a terminal of its own."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "dumb"}
        program = Path(__file__).with_name("slow_talk.py")
        self.process = subprocess.Popen(
            [sys.executable, program],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: on_terminal(slave),
        )
        os.close(slave)
        self.printed = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Until the program has printed this after what was waited for before."""
        end = time.monotonic() + SECONDS
        while text not in self.printed:
            assert time.monotonic() < end, f"no {text!r} in {self.printed!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                self.printed += os.read(self._master, 4096).decode()
        self.printed = self.printed.partition(text)[2]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def typed() -> Iterator[TypedProcess]:
    program = TypedProcess()
    yield program
    program.close()


def test_ctrl_c_stops_the_answer_and_not_the_program(typed: TypedProcess) -> None:
    typed.wait_for("you> ")
    typed.type("a long story\n")
    typed.wait_for("model> ")
    typed.wait_for("3 ")
    typed.type("\x03")
    typed.wait_for("[work ended]")
    typed.wait_for("(stopped)")
    typed.wait_for("you> ")
    typed.type("short\n")
    typed.wait_for("0 1 ")
    typed.wait_for("you> ")
    typed.type("\x03")
    typed.wait_for("(Ctrl-D or /exit leaves)")
    typed.wait_for("you> ")
    typed.type("\x04")
    typed.wait_for("left")
    assert typed.process.wait(SECONDS) == 0
