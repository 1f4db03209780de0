import subprocess
import sys
from types import ModuleType

import pytest

import jax_lm
from jax_lm.cli import main as command_line
from jax_lm.cli.main import VERBS, main

Capture = pytest.CaptureFixture[str]


def verb_that(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make ``doctor`` raise."""

    def fail(args: list[str]) -> None:
        raise error

    module = ModuleType("jax_lm.cli.doctor")
    module.main = fail  # type: ignore[attr-defined]
    monkeypatch.setattr(command_line, "import_module", lambda name: module)


def test_help_names_every_verb(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [verb for verb in VERBS if f"\n  {verb} " not in shown] == []


def test_no_verb_is_a_usage_error(capsys: Capture) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: jax-lm VERB")


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jax-lm {jax_lm.__version__}\n"


def test_an_unknown_verb_names_the_nearest(capsys: Capture) -> None:
    assert main(["evalute"]) == 2
    assert capsys.readouterr().err == (
        "jax-lm: unknown verb 'evalute'; did you mean 'evaluate'?; see jax-lm --help\n"
    )


def test_an_unknown_flag_names_the_nearest(capsys: Capture) -> None:
    assert main(["report", "run", "--outptu", "x"]) == 2
    error = capsys.readouterr().err
    assert "unknown flag --outptu; did you mean --output?" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, capsys: Capture) -> None:
    assert main([verb, "--help"]) == 0
    assert f"jax-lm {verb}" in capsys.readouterr().out


def test_an_error_is_one_sentence_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    verb_that(monkeypatch, FileNotFoundError(2, "No such file or directory", "corpus.txt"))
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == "jax-lm: corpus.txt: No such file or directory\n"
    with pytest.raises(FileNotFoundError):
        main(["doctor", "--traceback"])


def test_a_defect_of_ours_asks_to_be_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    verb_that(monkeypatch, ZeroDivisionError("oops"))
    assert main(["doctor"]) == 1
    assert "please report it" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        main(["--traceback", "doctor"])


def test_control_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    verb_that(monkeypatch, KeyboardInterrupt())
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "jax-lm: stopped\n"


def test_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "jax_lm", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"jax-lm {jax_lm.__version__}\n"
