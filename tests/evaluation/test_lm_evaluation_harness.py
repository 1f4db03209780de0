"""The method ``disjoint`` against lm-evaluation-harness itself, on directories written here."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from jax_lm.evaluation.evaluate import evaluate
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.huggingface.directory import write_directory
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from tests.evaluation.stories_model import write_stories
from tests.evaluation.test_perplexity import small_model

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {path}}}}}
output_type: loglikelihood_rolling
test_split: test
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: word_perplexity}}, {{metric: byte_perplexity}}, {{metric: bits_per_byte}}]
"""
BY_HARNESS = """
import json, sys
import lm_eval.models  # theirs are not registered before
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from jax_lm.evaluation.downstream.adapter import adapter_class
adapter_class()
found = []
for model, name, directory, length in json.loads(sys.argv[2]):
    arguments = {"pretrained": directory, "dtype": "float32", "max_length": length}
    found.append(simple_evaluate(
        model=model, model_args=arguments, tasks=[name], device="cpu", batch_size=16,
        task_manager=TaskManager(include_path=sys.argv[1], include_defaults=False),
    )["results"][name])
print(json.dumps(found))
"""
NUMBERS = ("word_perplexity", "byte_perplexity", "bits_per_byte")
PAGES = 60
PAGE = re.compile(r"^(?= = [^=\n]+ = \n \n)", re.MULTILINE)
"""Where an article of wikitext begins: at a heading of the first level between empty lines."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("lm_eval") is None, reason="needs lm_eval: pip install lm_eval"),
]


class Run(NamedTuple):
    """One model of the harness on one task."""

    model: str
    """As the harness calls it."""
    task: str
    directory: str
    length: int


def by_harness(folder: Path, runs: list[Run]) -> list[dict[str, float]]:
    """What the harness itself finds, in a process of its own."""
    command = [sys.executable, "-c", BY_HARNESS, str(folder), json.dumps(runs)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache")}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=500, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return [{name: one[f"{name},none"] for name in NUMBERS} for one in found]


def write_task(folder: Path, name: str, texts: list[str]) -> str:
    """The texts as a task of the harness and as a SPEC."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    (folder / f"{name}.yaml").write_text(TASK.format(name=name, path=path))
    return str(path)


def by_verb(directory: Path, spec: str, length: int) -> dict[str, float]:
    options = EvaluateOptions(method="disjoint", window=length, compressors=False)
    found = evaluate(str(directory), [spec], options).to_json()
    return {name: found[f"eval_{name}"] for name in NUMBERS}


def test_disjoint_equals_the_harness(shared_data: Path, tmp_path: Path) -> None:
    """Byte-level and SentencePiece vocabularies; documents shorter and longer than the window."""
    text = (shared_data / "corpora/wikitext2/test.txt").read_text(encoding="utf-8")
    documents = [text[:3000], text[3000:3160], " short one\n", text[9000:10_400]]
    byte_level = train_byte_level_bpe(iter([text[:20_000]]), vocab_size=400, min_frequency=2)
    write_directory(small_model(byte_level), byte_level, tmp_path / "gpt2", card="# card")
    write_stories(shared_data / "weights" / "stories260K", tmp_path)
    # The harness reads "<unk>" as the unknown token of a vocabulary that has one; text, here.
    spelled = [document.replace("<unk>", "unk") for document in documents]
    cases = [("gpt2", documents, 16), ("stories", spelled, 128)]
    specs = [write_task(tmp_path, name, texts) for name, texts, _ in cases]
    runs = [Run("hf", name, str(tmp_path / name), length) for name, _, length in cases]
    theirs = by_harness(tmp_path, runs)
    for (name, _, length), spec, expected in zip(cases, specs, theirs, strict=True):
        ours = by_verb(tmp_path / name, spec, length)
        assert ours == pytest.approx(expected, rel=1e-5), name
        assert ours["bits_per_byte"] == pytest.approx(expected["bits_per_byte"], abs=1e-4)


def test_three_ways_agree_on_all_of_wikitext2(shared_data: Path, tmp_path: Path) -> None:
    """The harness on the exported directory, on our adapter, and our own verb: page by page."""
    text = (shared_data / "corpora/wikitext2/test.txt").read_text(encoding="utf-8")
    pages = [page for page in PAGE.split(text) if page.strip()]
    assert len(pages) == PAGES
    tokenizer = train_byte_level_bpe(iter([text]), vocab_size=1000, min_frequency=2)
    directory = tmp_path / "gpt2"
    write_directory(small_model(tokenizer, 128), tokenizer, directory, card="# card")
    spec = write_task(tmp_path, "wikitext", pages)
    runs = [Run(model, "wikitext", str(directory), 128) for model in ("hf", "jax-lm")]
    theirs, adapter = by_harness(tmp_path, runs)
    ours = by_verb(directory, spec, 128)
    assert ours["word_perplexity"] > ours["byte_perplexity"] > 1
    assert adapter == pytest.approx(theirs, rel=1e-4)
    assert ours == pytest.approx(theirs, rel=1e-4)
    for found in (ours, adapter):
        assert found["byte_perplexity"] == pytest.approx(theirs["byte_perplexity"], abs=1e-4)
        assert found["bits_per_byte"] == pytest.approx(theirs["bits_per_byte"], abs=1e-4)
