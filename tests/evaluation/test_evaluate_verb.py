"""The verb: its JSON, subsets, lists of documents, checkpoints, pictures and W&B rows."""

import json
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.huggingface.directory import write_directory
from jax_lm.pretrained.own_directory import write_own
from jax_lm.tokenizers.pretrained import load_tokenizer
from tests import wandb_file
from tests.conftest import TinyFeatures
from tests.evaluation.test_perplexity import small_model

SUBSETS = MappingProxyType({"ArXiv": 12, "Github": 11, "Ubuntu IRC": 3})
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def model(tiny_features: TinyFeatures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = load_tokenizer(tiny_features.tokenizer)
    folder = tmp_path_factory.mktemp("evaluated") / "model"
    write_directory(small_model(tokenizer), tokenizer, folder, card="# card")
    return folder


@pytest.fixture(scope="module")
def pile(tiny_features: TinyFeatures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of three subsets in turn, each of another length."""
    text = tiny_features.held_out_text.read_text(encoding="utf-8")
    left = dict(SUBSETS)
    lines = []
    while any(left.values()):
        for name in [name for name, count in left.items() if count]:
            left[name] -= 1
            place = 37 * len(lines)
            record = {"text": text[place : place + 20 + 5 * len(lines)], "number": left[name]}
            lines.append(json.dumps(record | {"meta": {"pile_set_name": name}}) + "\n")
    path = tmp_path_factory.mktemp("pile") / "pile.jsonl"
    path.write_text("".join(lines))
    return path


def evaluated(model: Path | str, spec: Path, output: Path, *flags: str) -> dict[str, Any]:
    args = ["evaluate", str(model), str(spec), "--output", str(output), "--no-compressors", *flags]
    assert main(args) == 0
    file = output if output.suffix == ".json" else output / "eval_results.json"
    values: dict[str, Any] = json.loads(file.read_text())
    return values


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    assert main(["evaluate", *args]) in (1, 2)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def documents(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_numbers_of_subsets_their_means_and_intervals(
    model: Path, pile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluated(model, pile, tmp_path / "results")
    printed = capsys.readouterr().out
    subsets, mean = found["subsets"], found["mean_over_subsets"]
    assert {name: values["documents"] for name, values in subsets.items()} == dict(SUBSETS)
    sizes = [subsets[name]["bytes"] for name in SUBSETS]
    bits = [subsets[name]["eval_bits_per_byte"] for name in SUBSETS]
    assert found["eval_bits_per_byte"] == pytest.approx(np.average(bits, weights=sizes))
    assert mean["eval_bits_per_byte"] == pytest.approx(np.mean(bits))
    losses = [subsets[name]["eval_loss"] for name in SUBSETS]
    assert mean["eval_perplexity"] == pytest.approx(math.exp(np.mean(losses)))
    for values in (found, subsets["ArXiv"], subsets["Github"]):
        for number in ("eval_loss", "eval_bits_per_byte"):
            low, high = values[f"{number}_interval"]
            assert low < values[number] < high
    assert subsets["Ubuntu IRC"]["eval_loss_interval"] is None
    assert mean["eval_bits_per_byte_interval"] is None
    assert "2,000 resamples, seed 0; a subset needs at least 10 documents" in printed
    assert "mean of subsets" in printed
    low, high = found["eval_bits_per_byte_interval"]
    assert f"{low:.4f} - {high:.4f}" in printed


def test_words_and_bytes_are_counted_as_the_harness_does(
    model: Path, pile: Path, tmp_path: Path
) -> None:
    found = evaluated(model, pile, tmp_path / "numbers.json", "--method", "disjoint")
    texts = [document["text"] for document in documents(pile)]
    nats = found["sums"]["text_nats"]
    words = sum(len(text.split()) + text[0].isspace() + text[-1].isspace() for text in texts)
    assert found["sums"]["num_words"] == words
    assert found["eval_word_perplexity"] == pytest.approx(math.exp(nats / words))
    size = sum(len(text.encode()) for text in texts)
    assert found["eval_byte_perplexity"] == pytest.approx(math.exp(nats / size))
    assert found["eval_bits_per_byte"] == pytest.approx(nats / size / math.log(2))


def test_few_documents_and_none_asked_for(
    model: Path, pile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluated(model, pile, tmp_path, "--max-documents", "4")
    printed = capsys.readouterr().out
    assert "bits per byte" in printed and "95%" not in printed
    assert found["eval_loss_interval"] is None
    assert found["intervals"]["how"] == "none: 4 documents are too few (at least 10 are needed)"
    assert evaluated(model, pile, tmp_path, "--resamples", "0")["eval_loss_interval"] is None
    assert "--resamples is 5" in refused(capsys, str(model), str(pile), "--resamples", "5")


def test_bfloat16_is_near(model: Path, pile: Path, tmp_path: Path) -> None:
    exact = evaluated(model, pile, tmp_path / "a", "--batch-size", "3")
    near = evaluated(model, pile, tmp_path / "b", "--dtype", "bfloat16")
    assert near["eval_loss"] == pytest.approx(exact["eval_loss"], rel=2e-2)
    assert near["eval_loss"] != exact["eval_loss"]


def test_documents_listed_by_number_within_their_subset(
    model: Path, pile: Path, tmp_path: Path
) -> None:
    """The Pile's folders; a subset without one is whole."""
    lists = tmp_path / "indices"
    chosen = {"arxiv": ("ArXiv", [0, 5, 11]), "Github": ("Github", [2])}
    for folder, (_, numbers) in chosen.items():
        (lists / folder).mkdir(parents=True)
        (lists / folder / "group3.json").write_text(json.dumps(numbers))
    flags = ("--document-indices", str(lists), "--group", "3")
    found = evaluated(model, pile, tmp_path / "a", *flags)
    wanted = dict(chosen.values()) | {"Ubuntu IRC": [0, 1, 2]}
    seen = dict.fromkeys(SUBSETS, 0)
    sizes = dict.fromkeys(SUBSETS, 0)
    for document in documents(pile):
        name = document["meta"]["pile_set_name"]
        if seen[name] in wanted[name]:
            sizes[name] += len(document["text"].encode())
        seen[name] += 1
    assert {name: values["bytes"] for name, values in found["subsets"].items()} == sizes
    assert found["counted"] == "7 documents"
    alone = tmp_path / "list.json"
    alone.write_text("[0, 5, 11]")
    flags = ("--document-indices", str(alone), "--subsets", "ArXiv")
    one_list = [document for document in documents(pile) if "ArXiv" in str(document)]
    (tmp_path / "arxiv.jsonl").write_text("".join(json.dumps(one) + "\n" for one in one_list))
    again = evaluated(model, tmp_path / "arxiv.jsonl", tmp_path / "b", *flags)
    assert again["eval_loss"] == found["subsets"]["ArXiv"]["eval_loss"]


@pytest.mark.parametrize(
    ("files", "flags", "message"),
    [
        ({"arxiv/group0.json": "[0, 12]"}, (), "document 12 is listed, and subset 'arxiv' has 12"),
        ({"arXivs/group0.json": "[0]"}, (), "no subset 'arXivs'"),
        ({"arxiv/group0.json": "[-1]"}, (), "-1 is no document number"),
        ({"arxiv/group0.json": "{}"}, (), "expected a JSON list"),
        ({"arxiv/group0.json": "[0"}, (), "not JSON"),
        ({"arxiv/group0.json": "[0]"}, ("--group", "1"), "no list SUBSET/group1.json"),
        ({}, (), "no such file or directory"),
        ({"arxiv/group0.json": "[0]"}, ("--on-bad-record", "skip"), "which document is which"),
        (None, ("--group", "1"), "--group chooses among --document-indices"),
    ],
)
def test_lists_that_do_not_fit_are_one_sentence(
    files: dict[str, str] | None,
    flags: tuple[str, ...],
    message: str,
    model: Path,
    pile: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, content in (files or {}).items():
        path = tmp_path / "lists" / name
        path.parent.mkdir(parents=True)
        path.write_text(content)
    given = () if files is None else ("--document-indices", str(tmp_path / "lists"))
    assert message in refused(capsys, str(model), str(pile), *given, *flags)


def test_one_list_is_for_one_subset(
    model: Path, pile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.json").write_text("[0]")
    given = ("--document-indices", str(tmp_path / "list.json"))
    error = refused(capsys, str(model), str(pile), *given)
    assert "the text has 'ArXiv', 'Github', 'Ubuntu IRC'" in error
    assert "is one list" in refused(capsys, str(model), str(pile), *given, "--group", "2")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_offline_row_is_the_json(model: Path, pile: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    flags = ("--wandb-project", "p", "--wandb-mode", "offline", "--step", "700", "--run-name", "n")
    found = evaluated(model, pile, tmp_path / "out", *flags)
    (row,) = wandb_file.history(tmp_path / "out")
    assert row["_step"] == 700
    for number in ("loss", "perplexity", "accuracy", "bits_per_byte", "word_perplexity"):
        assert row[f"eval_{number}"] == found[f"eval_{number}"]
    (file,) = (tmp_path / "out").glob(f"wandb/offline-run-*/files/{row['Test Metrics/path']}")
    content = json.loads(file.read_text())
    (line,) = content["data"]
    columns = dict(zip(content["columns"], line, strict=True))
    assert columns.pop("model") == str(model)
    assert columns.pop("all") == found["eval_bits_per_byte"]
    bits = {name: values["eval_bits_per_byte"] for name, values in found["subsets"].items()}
    assert columns == bits
    assert {name: row[f"eval_bits_per_byte/{name}"] for name in bits} == bits
    assert wandb_file.configuration(tmp_path / "out")["model"] == str(model)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--step", "3"), "--step does nothing without --wandb-project"),
        (("--step", "-3", "--wandb-project", "p"), "--step is -3, expected 0 or more"),
        (("--plot", "a.png"), "expected the name of an .svg file"),
        (("--method", "pseudo"), "--method pseudo is for masked models, and gpt2"),
        (("--batch-size", "0"), "--batch-size is 0, expected 1 or more"),
        (("--mesh.tensor", "3"), "does not divide the"),
        (("--all-checkpoints",), "no checkpoints there"),
        (("--objective", "causal-lm", "--group", "1"), "--group is about documents"),
    ],
)
def test_flags_that_lead_nowhere(
    flags: tuple[str, ...],
    message: str,
    model: Path,
    pile: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in refused(capsys, str(model), str(pile), *flags)


def test_an_output_that_is_in_the_way(
    model: Path, pile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.json").mkdir()
    where = (str(tmp_path / "no model"), str(pile))  # not looked for before the places are
    for flag, name in (("--output", "file"), ("--output", "file/x.json"), ("--plot", "file/x.svg")):
        assert "a file in the way" in refused(capsys, *where, flag, str(tmp_path / name))
    folder = str(tmp_path / "folder.json")
    assert "there is a directory" in refused(capsys, *where, "--output", folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.json"]


def test_subsets_that_the_text_has_not(
    model: Path, pile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(model), str(pile), "--subsets", "arxiv"]) == 1
    assert "the text's subsets are 'ArXiv', 'Github', 'Ubuntu IRC'" in capsys.readouterr().err
    flags = ("--subsets", "Ubuntu IRC,arxiv")
    assert evaluated(model, pile, tmp_path / "one", *flags)["counted"] == "3 documents"
    assert "no documents of subset 'arxiv'" in capsys.readouterr().err
    (tmp_path / "plain.txt").write_text("ab\n")
    assert main(["evaluate", str(model), str(tmp_path / "plain.txt"), "--subsets", "x"]) == 1
    assert "the text has no subsets" in capsys.readouterr().err


def test_a_text_without_subsets_has_none(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain.txt").write_text("abc abc\n")
    found = evaluated(model, tmp_path / "plain.txt", tmp_path)
    assert found["subsets"] == {}
    assert found["counted"] == "1 document"
    assert found["intervals"]["how"].startswith("none: 1 document is too few")


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder with two checkpoints."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    tokenizer = load_tokenizer(model)
    first = small_model(tokenizer)
    second = jax.tree.map(lambda leaf: leaf * 0.5, first)
    (folder / "checkpoints").mkdir(parents=True)
    for step, weights in ((3, first), (12, second)):
        write_own(weights, tokenizer, folder / "checkpoints" / f"step-{step:08d}")
    tokenizer.save(folder / "tokenizer")
    return folder


def texts_of(picture: Path) -> list[str]:
    tree = ElementTree.parse(picture)
    return ["".join(one.itertext()) for one in tree.iter(f"{SVG}text")]


def dashed(picture: Path) -> set[str]:
    groups = ElementTree.parse(picture).iter(f"{SVG}g")
    return {one.attrib["class"] for one in groups if "dashed" in one.attrib.get("class", "")}


def test_the_picture_of_subsets(model: Path, pile: Path, tmp_path: Path) -> None:
    path = tmp_path / "pictures" / "subsets.svg"
    assert main(["evaluate", str(model), str(pile), "--plot", str(path)]) == 0
    shown = " ".join(texts_of(path))
    words = ("bits per UTF-8 byte", "zlib -9", "xz -9", "value with 95% interval", *SUBSETS)
    for expected in (*words, "all", "mean of subsets"):
        assert expected in shown
    assert dashed(path) == {"c7 dashed", "c6 dashed"}  # zlib and xz, and no subset
    root = ElementTree.parse(path).getroot()
    assert root.attrib["width"] == "800"
    assert len(root.findall(f".//{SVG}path[@class='whisker']")) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_every_checkpoint_of_a_run(
    run: Path, pile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line, a row and a point a step; the numbers are those of each step alone."""
    pytest.importorskip("wandb")
    picture = tmp_path / "steps.svg"
    flags = ("--all-checkpoints", "--plot", str(picture), "--compressors")
    wandb = ("--wandb-project", "p", "--wandb-mode", "offline")
    found = evaluated(run, pile, tmp_path / "all", *flags, *wandb)["checkpoints"]
    printed = capsys.readouterr().out.splitlines()
    assert [one["step"] for one in found] == [3, 12]
    assert [line.split()[0] for line in printed if line.strip()[:2] in ("3 ", "12")] == ["3", "12"]
    assert sum("zlib -9" in line for line in printed) == 1
    (heading,) = (line for line in printed if line.lstrip().startswith("step "))
    lines = printed[printed.index(heading) + 1 :][:2]
    assert {len(line) for line in lines} == {len(heading)}
    assert heading.endswith("mean of subsets")
    for line, one in zip(lines, found, strict=True):
        assert line.split()[-1] == f"{one['mean_over_subsets']['eval_bits_per_byte']:.4f}"
    assert found[1]["compressors_bits_per_byte"] == found[0]["compressors_bits_per_byte"] != {}
    alone = evaluated(f"{run}@12", pile, tmp_path / "one")
    assert alone["step"] == 12
    assert alone["sums"] == found[1]["sums"] != found[0]["sums"]
    rows = wandb_file.history(tmp_path / "all")
    assert [(row["_step"], row["eval_loss"]) for row in rows] == [
        (one["step"], one["eval_loss"]) for one in found
    ]
    shown = " ".join(texts_of(picture))
    for expected in ("step", "bits per UTF-8 byte", "all", "bars: 95% intervals", "ArXiv", "xz -9"):
        assert expected in shown
    assert len(list(ElementTree.parse(picture).iter(f"{SVG}path"))) > 20
    assert dashed(picture) == {"c7 dashed", "c6 dashed"}


def test_all_checkpoints_have_steps_of_their_own(
    run: Path, pile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--all-checkpoints", "--step", "3", "--wandb-project", "p")
    assert "under its own step" in refused(capsys, str(run), str(pile), *flags)
