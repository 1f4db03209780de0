"""Every recipe is what it says: its size, its mesh, its flags, its Python."""

import dataclasses
import re
import runpy
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.models.base import TokenIds
from jax_lm.models.registry import count_parameters
from jax_lm.objectives.registry import check_kind
from jax_lm.recipes.describing import PAGE_WIDTH, WIDTH, describe, full, listing, page
from jax_lm.recipes.registry import ALIASES, RECIPES, find_recipe
from jax_lm.recipes.showing import source_of
from jax_lm.sharding.mesh import DATA, FSDP, mesh_shape
from jax_lm.training.plan import make_plan

SIZE = re.compile(r"([\d.]+) ([MB]) parameters with .*?vocabulary of ([\d,]*\d)")
UNITS = {"M": 1e6, "B": 1e9}
DEVICES = {"8-gpus": (8,), "tpu-pod": (16, 64, 256), "gptj": (8,), "1b4": (4,), "2b6": (4,)}
"""Devices that recipes with a mesh are for; the others run on any number that divides the rows."""
VERBS = ("train quickstart", "preprocess", "evaluate", "tokenizer train", "documents build")


@pytest.mark.parametrize("name", RECIPES)
def test_its_model_has_the_size_it_says(name: str) -> None:
    said = SIZE.match(describe(RECIPES[name]).parts["Size"])
    assert said is not None
    number, unit, vocabulary = said.groups()
    ids = TokenIds(int(vocabulary.replace(",", "")), pad=1, bos=0, eos=2)
    model = RECIPES[name]().model
    counted = count_parameters(model.with_tokens(ids) if model.vocab_size is None else model)
    assert counted == pytest.approx(float(number) * UNITS[unit], rel=0.02)
    assert model.vocab_size in (None, ids.vocab_size)


@pytest.mark.parametrize("name", RECIPES)
def test_it_resolves_on_the_devices_it_is_for(name: str) -> None:
    config = RECIPES[name]()
    check_kind(config.objective, config.model.kind)
    known = next((devices for part, devices in DEVICES.items() if part in name), (1, 2))
    for num_devices in known:
        shape = mesh_shape(config.mesh, num_devices)
        plan = make_plan(config, rows=10_000_000, row_shards=shape[DATA] * shape[FSDP])
        assert plan.steps > config.optimizer.warmup_steps
        assert config.evaluation.every < plan.steps
    assert config.run_dir == f"runs/{name}"


def test_a_name_says_what_its_function_is_called() -> None:
    called = {name: recipe.__name__.replace("_", "-") for name, recipe in RECIPES.items()}
    assert called == {name: name for name in RECIPES}
    assert find_recipe("gpt2-small") is RECIPES[ALIASES["gpt2-small"]]


@pytest.mark.parametrize("name", RECIPES)
def test_its_python_can_be_copied(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "copied.py"
    copy.write_text(source_of(RECIPES[name]), encoding="utf-8")
    defined = runpy.run_path(str(copy))
    assert defined[RECIPES[name].__name__]() == RECIPES[name]()
    assert max(map(len, copy.read_text(encoding="utf-8").splitlines())) <= 100


def test_flags_in_docstrings_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        main([*verb.split(), "--help"])
    known = set(re.findall(r"--[\w.-]+", capsys.readouterr().out))
    for name, recipe in RECIPES.items():
        assert recipe.__doc__ is not None
        assert set(re.findall(r"--[\w.-]*\w", recipe.__doc__)) <= known, name


def test_the_list_is_readable() -> None:
    lines = list(listing())
    assert [line for line in lines if line in RECIPES] == list(RECIPES)
    assert max(map(len, lines)) <= WIDTH
    for recipe in RECIPES.values():
        parts = describe(recipe).parts
        assert parts.keys() >= {"Size", "Data", "Cost", "Reaches"}
        assert all(text.endswith(".") and text == text.strip() for text in parts.values())


def test_one_recipe_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "dsgpt2-conversation", "gpt2-small"]) == 0
    printed = capsys.readouterr().out
    assert "\n".join(full("dsgpt2-conversation", RECIPES["dsgpt2-conversation"])) in printed
    assert "learned by heart" in printed
    assert "OpenWebText" in printed
    assert main(["recipes", "dsgpt3"]) == 2
    assert "did you mean 'dsgpt2" in capsys.readouterr().err


def test_weights_of_a_recipe_are_not_read_for_its_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where runs/dsgpt2-112m is not
    assert main(["train", "dsgpt2-conversation", "--help"]) == 0
    assert "runs/dsgpt2-112m" in capsys.readouterr().out
    assert main(["train", "dsgpt2-conversation", "--data.train", "x"]) == 1
    assert "runs/dsgpt2-112m" in capsys.readouterr().err


def test_the_page_is_what_the_recipes_say() -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs" / "reference" / "recipes.md").read_text(encoding="utf-8")
    generated = list(page())
    assert text.endswith("\n".join(generated) + "\n"), (
        "end it with what jax-lm recipes --markdown prints"
    )
    assert all(len(line) <= PAGE_WIDTH for line in generated if not line.startswith("|"))


def test_recipes_are_frozen() -> None:
    assert all(dataclasses.is_dataclass(recipe()) for recipe in RECIPES.values())
