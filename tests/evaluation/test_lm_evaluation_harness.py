"""The method ``disjoint`` against lm-evaluation-harness itself, on directories written here."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

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
THEIR_RUN = """
import json, sys
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
found = {}
for name, directory, length in json.loads(sys.argv[2]):
    arguments = {"pretrained": directory, "dtype": "float32", "max_length": length}
    found[name] = simple_evaluate(
        model="hf", model_args=arguments, tasks=[name], device="cpu", batch_size=4,
        task_manager=TaskManager(include_path=sys.argv[1], include_defaults=False),
    )["results"][name]
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("lm_eval") is None, reason="needs lm_eval: pip install lm_eval")
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
    for name, texts, _ in cases:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name, path=path))
    asked = [(name, str(tmp_path / name), length) for name, _, length in cases]
    command = [sys.executable, "-c", THEIR_RUN, str(tmp_path), json.dumps(asked)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=400, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = json.loads(done.stdout.splitlines()[-1])
    for name, _, length in cases:
        options = EvaluateOptions(method="disjoint", window=length, compressors=False)
        ours = evaluate(str(tmp_path / name), [str(tmp_path / f"{name}.jsonl")], options).to_json()
        for number in ("word_perplexity", "byte_perplexity", "bits_per_byte"):
            expected = theirs[name][f"{number},none"]
            assert ours[f"eval_{number}"] == pytest.approx(expected, rel=1e-5), (name, number)
        assert ours["eval_bits_per_byte"] == pytest.approx(
            theirs[name]["bits_per_byte,none"], abs=1e-4
        )
