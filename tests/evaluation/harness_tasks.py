"""Tasks of lm-evaluation-harness over files of our own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def write_tasks(folder: Path, pages: list[str]) -> Path:
    """Three tasks over files: whole texts, choices between two, and texts to write."""
    folder.mkdir()
    choices = ["The cat sat on the mat", "The dog saw the cat", "Once there was a dog"]
    records = {
        "pages": [{"page": page} for page in pages],
        "choices": [
            {"question": text, "one": " and a dog", "other": " happy.", "answer": i % 2}
            for i, text in enumerate(choices * 4)
        ],
        "texts": [{"question": text, "answer": text[:3]} for text in [*choices, *pages[:2]]],
    }
    for name, some in records.items():
        lines = "".join(json.dumps(record) + "\n" for record in some)
        (folder / f"{name}.jsonl").write_text(lines)
        data = (
            f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {folder / name}.jsonl\n"
        )
        (folder / f"own_{name}.yaml").write_text(
            f"task: own_{name}\n{data}test_split: test\n{TASKS[name]}"
        )
    return folder


TASKS = {
    "pages": """output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{page}}"
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity
  - metric: bits_per_byte
""",
    "choices": """output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{[one, other]}}"
doc_to_target: answer
metric_list:
  - metric: acc
  - metric: acc_norm
""",
    "texts": """output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs:
  until: ["t"]
  max_gen_toks: 6
  do_sample: false
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
""",
}


def by_command(module: str, arguments: str, tasks: Path, output: Path) -> dict[str, Any]:
    """The numbers that the harness's own command line writes, and the texts it saw."""
    pytest.importorskip("lm_eval")
    names = ",".join(f"own_{name}" for name in TASKS)
    command = [sys.executable, "-m", module, "run", *arguments.split(), "--tasks", names]
    command += ["--include_path", str(tasks), "--output_path", str(output), "--log_samples"]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    subprocess.run(command, env=offline, check=True, capture_output=True, timeout=540)
    (found,) = output.rglob("results*.json")
    samples = [json.loads(line) for line in _lines(output, "own_texts")]
    written = [one["resps"] for one in sorted(samples, key=lambda one: one["doc_id"])]
    return {"texts": written, **json.loads(found.read_text())["results"]}


def _lines(output: Path, task: str) -> list[str]:
    (path,) = output.rglob(f"samples_{task}*.jsonl")
    return path.read_text().splitlines()
