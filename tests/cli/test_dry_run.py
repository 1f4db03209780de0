"""What a person sees of ``jax-lm train ... --dry-run``."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.training import dry_run
from jax_lm.training.memory import remedies
from tests.conftest import TinyFeatures

MODEL = "--model.num-layers 2 --model.num-heads 2 --model.embed-dim 64 --model.context-length 32"
BATCH = "--batch-size 8 --accumulation-steps 1"
SMALL = f"{MODEL} {BATCH}".split()
FIGURE = r"[\d,.]+ MB"


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["train", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert not list(Path().iterdir()), "a dry run leaves nothing behind"
    return captured.out


def test_a_screen_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(["gpt2-small-openwebtext", "--dry-run", *SMALL], capsys)
    lines = said.splitlines()
    assert len(lines) < 24 and max(map(len, lines)) < 130
    assert "vocabulary 50,257, as dsgpt2-112m-half has; --model.vocab-size N" in said
    assert re.search(r"^weights   3,317,120 parameters, 3,218,496 of them embeddings", said, re.M)
    assert re.search(r"^memory    of the device, at most +on a CPU +GPU or TPU$", said, re.M)
    for name in ("parameters", "optimizer moments", "total, estimated"):
        assert re.search(rf"^ +{name} +({FIGURE}) +({FIGURE})$", said, re.M), name
    assert re.search(r"^fits      \d+% of the [\d.]+ GB that there are$", said, re.M)
    assert re.search(r"^work      .* a step .* for each of 256 tokens", said, re.M)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model.config", "roberta-base", *SMALL, "--objective", "masked-lm"], "50,265"),
        (["--model.config", "t5-small", *SMALL, "--steps", "3"], "vocabulary 32,128, as t5-small"),
    ],
)
def test_every_kind_of_model(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told([*arguments, "--dry-run"], capsys)
    assert expected in said and "total, estimated" in said


def test_compiled_beside_rows_of_a_training_set(
    tiny_features: TinyFeatures, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data.train", tiny_features.train, "--steps", "3", "--run-dir", "run"]
    (tmp_path / "c.json").write_text("{}")
    code = main(["train", "--config", "c.json", *SMALL, *data, "--dry-run", "--compile"])
    said = capsys.readouterr().out
    assert code == 0 and [path.name for path in tmp_path.iterdir()] == ["c.json"]
    assert "length    3 steps of 8 rows" in said and "vocabulary 300" in said
    assert re.search(rf"^ +total, by XLA once compiled +({FIGURE})$", said, re.M)
    off = re.search(r"^compiled  in \d+ s: .* the estimate is ([+-][\d.]+)% off$", said, re.M)
    assert off is not None and abs(float(off[1])) < 25


def test_what_does_not_fit_names_flags_that_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["gpt2-small-openwebtext", *SMALL, "--model.vocab-size", "64", "--dry-run"]
    for room in (dry_run, remedies):
        monkeypatch.setattr(room, "device_memory", lambda mesh: 4e6)
    said = told(arguments, capsys)
    assert re.search(r"^too much  \d+% of the 4.00 MB that there are$", said, re.M)
    assert re.search(r"^try       --accumulation-steps \d \([\d.]+ \w+\)", said, re.M)


def test_where_no_flag_helps_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dry_run, "device_memory", lambda mesh: 1e6)
    monkeypatch.setattr(dry_run, "remedies", lambda *_: [])
    tiny = ["quickstart", *SMALL, "--model.vocab-size", "64", "--dry-run"]
    assert "try       a smaller model, or --mesh.fsdp over more devices" in told(tiny, capsys)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--compile"], "--compile belongs to --dry-run"),
        (["--devices", "8"], "--devices belongs to --dry-run"),
        (["--dry-run", "--devices", "none"], "--devices is none, expected a number of devices"),
        (["--dry-run", "--devices", "0"], "--devices is 0, expected a number of devices"),
    ],
)
def test_flags_that_make_no_sense(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "quickstart", *arguments]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.slow
def test_seven_billion_parameters_compile_for_eight_devices() -> None:
    command = "train llama-7b-8-gpus --dry-run --compile --devices 8 --mesh.fsdp 8"
    done = subprocess.run(
        [sys.executable, "-m", "jax_lm", *command.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "6,738,415,616 parameters" in said
    assert "memory    of each of 8 devices" in said
    state = re.search(r"^compiled  in \d+ s: state and batch ([\d.]+) GB", said, re.M)
    assert state is not None and float(state[1]) == pytest.approx(12 * 6.738 / 8, rel=0.01)
    off = re.search(r"the estimate is ([+-][\d.]+)% off$", said, re.M)
    assert off is not None and abs(float(off[1])) < 15
