"""What a person sees of ``jax-lm train``: flags, files of settings, mistakes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jax_lm.cli.config_file import read_config_file
from jax_lm.cli.main import main
from jax_lm.cli.train_arguments import configure
from jax_lm.recipes.registry import RECIPES
from jax_lm.recipes.shakespeare_char import shakespeare_char
from jax_lm.tokenizers.characters import train_characters
from tests.conftest import TinyFeatures


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "cache"))
    yield


def tree() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*"))


def bad_inputs(features: TinyFeatures) -> dict[str, tuple[list[str], str, int]]:
    tokenizer = ["--data.tokenizer", str(features.tokenizer)]
    Path("empty.txt").touch()
    Path("short.txt").write_text("short")
    Path("latin.txt").write_bytes("blåbær".encode("latin-1"))
    lines = ['{"text": "fine"}\n'] * 6 + ['{"text": "broken\n', '{"text": "fine"}\n']
    Path("broken.jsonl").write_text("".join(lines))
    train_characters(iter(["abc"])).save(Path("other"))
    train = ["--data.train", features.train, "--model.context-length", "32"]
    return {
        "missing file": (["--data.train", "nowhere.txt", *tokenizer], "nowhere.txt", 1),
        "empty corpus": (["--data.train", "empty.txt", *tokenizer], "empty.txt", 1),
        "too short": (["--data.train", "short.txt", *tokenizer], "--max-sequence-length", 1),
        "broken line": (["--data.train", "broken.jsonl", *tokenizer], "broken.jsonl:7", 1),
        "not UTF-8": (["--data.train", "latin.txt", *tokenizer], "latin.txt", 1),
        "no tokenizer": (["--data.train", "short.txt"], "--data.tokenizer", 1),
        "another tokenizer": ([*train, "--data.tokenizer", "other"], "cut by tokenizer", 1),
        "another length": (
            ["--data.train", features.train],
            "holds rows of 32, the model wants",
            1,
        ),
        "no data": ([], "no training data: pass --data.train", 2),
        "unknown flag": (
            [*train, "--learning-rat", "1e-3"],
            "unknown flag --learning-rat; did you mean --optimizer.learning-rate?",
            2,
        ),
        "two lengths": ([*train, "--steps", "3", "--epochs", "1"], "give exactly one of", 2),
        "two batches": (
            [*train, "--batch-size", "3", "--batch-size-per-device", "1"],
            "give exactly one of",
            2,
        ),
        "other vocabulary": ([*train, "--model.vocab-size", "7"], "the tokenizer 300", 1),
        "heads": ([*train, "--model.num-heads", "3"], "not a multiple of num_heads 3", 2),
        "config file": ([*train, "--config", "missing.json"], "missing.json: no such file", 1),
        "no value": ([*train, "--config"], "--config needs a value", 2),
    }


CASES = [
    "missing file",
    "empty corpus",
    "too short",
    "broken line",
    "not UTF-8",
    "no tokenizer",
    "another tokenizer",
    "another length",
    "no data",
    "unknown flag",
    "two lengths",
    "two batches",
    "other vocabulary",
    "heads",
    "config file",
    "no value",
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    case: str, tiny_features: TinyFeatures, capsys: pytest.CaptureFixture[str]
) -> None:
    args, message, code = bad_inputs(tiny_features)[case]
    before = tree()
    assert main(["train", "shakespeare-char", *args]) == code
    printed = capsys.readouterr()
    last = printed.err.strip().splitlines()[-1]
    assert last.startswith("jax-lm: ")
    assert message in last
    assert "Traceback" not in printed.err
    made = [path for path in tree() if path not in before]
    assert [path for path in made if Path(path).is_file()] == []


def test_a_length_flag_replaces_the_recipes() -> None:
    config = configure(shakespeare_char(), ["--epochs", "2", "--batch_size_per_device=3"], "r")
    assert (config.steps, config.epochs) == (None, 2)
    assert (config.batch_size, config.batch_size_per_device) == (None, 3)


def test_a_saved_configuration_gives_the_defaults() -> None:
    Path("saved.json").write_text(json.dumps({"steps": 7, "optimizer": {"learning_rate": 0.5}}))
    config = configure(shakespeare_char(), ["--config", "saved.json", "--seed=4"], "r")
    assert (config.steps, config.seed, config.optimizer.learning_rate) == (7, 4, 0.5)
    Path("saved.yaml").write_text("optimizer: {learning_rate: 1e-3}\n")
    config, rest = read_config_file(shakespeare_char(), ["--config=saved.yaml", "--seed", "1"])
    assert config.optimizer.learning_rate == 1e-3
    assert rest == ["--seed", "1"]


def test_a_broken_file_of_settings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.json").write_text("{")
    assert main(["train", "quickstart", "--config", "broken.json"]) == 1
    assert "broken.json: not valid JSON or YAML" in capsys.readouterr().err


@pytest.mark.parametrize("args", [[], ["--steps", "3"], ["gpt5"]])
def test_a_recipe_comes_first(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *args]) == 2
    assert "quickstart" in capsys.readouterr().err


def test_help_shows_every_flag_with_the_recipes_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", "shakespeare-char", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--optimizer.learning-rate" in printed
    assert "0.001" in printed
    assert "Example: jax-lm train" in printed


def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in RECIPES)
    assert main(["train", "gpt2-small", "--show"]) == 0
    assert "def gpt2_small_openwebtext() -> TrainConfig:" in capsys.readouterr().out
