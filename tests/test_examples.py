"""The scripts of examples/: their flags and recipes exist; each runs from raw text to the end."""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.recipes.registry import RECIPES
from tests.documents.stores.mongo_server import running_server

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.sh"))
VERBS = (
    "documents build",
    "documents info",
    "documents show",
    "tokenizer train",
    "preprocess",
    "features show",
    "train quickstart",
    "evaluate",
    "generate",
)
FLAGS_OF_OTHERS = {"--xla_force_host_platform_device_count"}
TINY = (
    "--model.num-layers 1 --model.num-heads 2 --model.embed-dim 32 --steps 4 --batch-size 8 "
    "--optimizer.warmup-steps 1 --tracking.every 2 --evaluation.batch-size 8 "
    "--evaluation.max-rows 16 --evaluation.sample-tokens 0"
)
SECONDS = 600
"""For a machine that does much else; alone, each takes a minute or so."""


@pytest.fixture(scope="module")
def help_of_verbs() -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        codes = [main([*verb.split(), "--help"]) for verb in VERBS]
    assert not any(codes)
    return printed.getvalue()


@pytest.mark.parametrize("script", SCRIPTS)
def test_its_flags_and_recipes_exist(script: str, help_of_verbs: str) -> None:
    text = (EXAMPLES / f"{script}.sh").read_text(encoding="utf-8")
    known = set(re.findall(r"--[\w.-]+", help_of_verbs)) | FLAGS_OF_OTHERS
    assert set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w", text)) <= known
    named = re.findall(
        r"(?:jax-lm train |^learn |RECIPE=|RECIPE:-)([a-z][\w-]+)", text, re.MULTILINE
    )
    named += [f"{family}-norwegian" for family in re.findall(r"^journey (\w+)", text, re.MULTILINE)]
    assert named
    assert set(named) <= RECIPES.keys()
    assert text.startswith("#!/usr/bin/env bash\n# ")
    assert os.access(EXAMPLES / f"{script}.sh", os.X_OK)


def test_every_journey_has_a_script() -> None:
    assert SCRIPTS == [
        "conversation-mongodb",
        "mesh-finetune-pairs",
        "norwegian-four-objectives",
        "pile-random-access",
        "wikitext-gpt2",
    ]


def run(script: str, folder: Path, **variables: str) -> str:
    """What a script prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(EXAMPLES / f"{script}.sh")],
        cwd=folder,
        env=os.environ | {"PATH": path, "JAX_PLATFORMS": "cpu", "OUT": "out", **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


def start_of(path: Path, folder: Path, size: int) -> str:
    """A file in ``folder`` with the first whole lines of another, about ``size`` characters."""
    text = path.read_text(encoding="utf-8")[:size].rpartition("\n")[0] + "\n"
    (folder / path.name).write_text(text, encoding="utf-8")
    return path.name


def bits_per_byte(printed: str) -> float:
    """Of the last table that ``evaluate`` printed."""
    return float(re.findall(r"^all +[\d,]+(?: +[\d.]+){3} +([\d.]+)$", printed, re.MULTILINE)[-1])


def written(printed: str, prompt: str) -> str:
    """What ``generate`` wrote after the prompt, which is the last thing printed."""
    assert prompt in printed, printed[-500:]
    return printed.rpartition(prompt)[2].strip()


@pytest.mark.slow
def test_wikitext_gpt2(shared_data: Path, tmp_path: Path) -> None:
    corpus = shared_data / "corpora" / "wikitext2"
    variables = {
        "TRAIN": start_of(corpus / "valid.txt", tmp_path, 60_000),
        "HELD_OUT": start_of(corpus / "test.txt", tmp_path, 8_000),
        "VOCABULARY": "500",
        "LENGTH": "32",
        "STRIDE": "16",
        "FLAGS": TINY,
        "PROMPT": "The history of",
    }
    printed = run("wikitext-gpt2", tmp_path, **variables)
    assert 0 < bits_per_byte(printed) < 6
    assert written(printed, "The history of")
    again = run("wikitext-gpt2", tmp_path, **variables)
    assert "already done" in again
    assert bits_per_byte(again) == bits_per_byte(printed)


@pytest.mark.slow
def test_pile_random_access(shared_data: Path, tmp_path: Path) -> None:
    corpus = shared_data / "corpora" / "commoncrawl"
    printed = run(
        "pile-random-access",
        tmp_path,
        DATA=str(corpus / "cc_en_head-0091.jsonl"),
        HELD_OUT=str(corpus / "cc_en_head-0174.jsonl.gz"),
        DOCUMENT="3",
        VOCABULARY="500",
        LENGTH="32",
        CONTEXT="16",
        FLAGS=TINY,
        PROMPT="The people",
    )
    assert "documents         10" in printed
    assert "rolling (window 32, context 16 tokens" in printed
    assert 0 < bits_per_byte(printed) < 6
    assert written(printed, "The people")


@pytest.mark.slow
def test_mesh_finetune_pairs(tmp_path: Path) -> None:
    lines = [
        {"in_text": f"What is {i} plus one?\n", "out_text": f"It is {i + 1}."} for i in range(200)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "text.txt").write_text("".join("".join(line.values()) + "\n" for line in lines))
    pretrained = run(
        "wikitext-gpt2",
        tmp_path,
        TRAIN="text.txt",
        HELD_OUT="text.txt",
        VOCABULARY="300",
        LENGTH="32",
        STRIDE="32",
        OUT="pretrained",
        FLAGS=TINY,
    )
    assert "final     pretrained/run/final" in pretrained
    printed = run(
        "mesh-finetune-pairs",
        tmp_path,
        MODEL="pretrained/run/final",
        INPUT="16",
        OUTPUT="16",
        HELD_OUT="20",
        FAKE_DEVICES="4",
        MESH="--mesh.fsdp 2 --mesh.tensor 2",
        FLAGS="--dtype float32 --steps 4 --batch-size 8 --evaluation.batch-size 8",
        PROMPT="What is 7 plus one?",
    )
    assert "4 x cpu" in printed
    assert 0 < bits_per_byte(printed) < 10
    assert written(printed, "What is 7 plus one?")


@pytest.mark.slow
def test_norwegian_four_objectives(shared_data: Path, tmp_path: Path) -> None:
    corpus = shared_data / "corpora" / "norwegian_ud"
    printed = run(
        "norwegian-four-objectives",
        tmp_path,
        TRAIN=start_of(corpus / "no_bokmaal-ud-dev.txt", tmp_path, 40_000),
        HELD_OUT=start_of(corpus / "no_bokmaal-ud-test.txt", tmp_path, 6_000),
        VOCABULARY="500",
        PIECES="400",
        LENGTH="32",
        FLAGS=TINY,
        PROMPT="Det var en gang",
    )
    methods = re.findall(r"^method +([\w-]+)", printed, re.MULTILINE)
    assert methods == ["causal-lm", "masked-lm", "span-corruption", "denoising"]
    losses = [float(loss) for loss in re.findall(r"^all +[\d,]+ +([\d.]+)", printed, re.MULTILINE)]
    assert len(losses) == 4
    assert all(3 < loss < 9 for loss in losses)
    assert written(printed, "Det var en gang")


@pytest.mark.slow
def test_conversation_mongodb(shared_data: Path, tmp_path: Path) -> None:
    corpus = shared_data / "corpora" / "korean_chatbot" / "ChatbotData.csv"
    talks = start_of(corpus, tmp_path, 12_000)
    with running_server() as address:
        printed = run(
            "conversation-mongodb",
            tmp_path,
            TEXTS=f"{talks}?text=A",
            TALKS=talks,
            MONGODB=f"mongodb://{address}/chat",
            VOCABULARY="500",
            SPARE="10",
            LENGTH="32",
            HELD_OUT="10",
            FLAGS=TINY,
            QUESTION="안녕하세요",
        )
    assert "weights   out/run-texts/final" in printed
    assert re.search(r"^method +dialogue", printed, re.MULTILINE)
    assert 0 < bits_per_byte(printed) < 6
    assert written(printed, "안녕하세요</s><sys><s>")
