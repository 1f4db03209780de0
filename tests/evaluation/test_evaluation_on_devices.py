"""Documents on one device and on eight, split in every way: the same numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.evaluation.evaluate import evaluate
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.huggingface.directory import write_directory
from jax_lm.tokenizers.pretrained import load_tokenizer
from tests.conftest import FAST_COMPILATION, TinyFeatures
from tests.evaluation.test_perplexity import small_model

MESHES = ({}, {"fsdp": 2, "tensor": 2}, {"sequence": 2, "fsdp": 4})
SCRIPT = """
import json, sys
import jax
from jax_lm.evaluation.evaluate import evaluate
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.sharding.mesh import MeshConfig
assert jax.device_count() == 8
for mesh in json.loads(sys.argv[3]):
    options = EvaluateOptions(mesh=MeshConfig(**mesh), batch_size=3, compressors=False)
    print(json.dumps(evaluate(sys.argv[1], [sys.argv[2]], options).to_json()))
"""


@pytest.mark.slow
def test_eight_devices_give_the_numbers_of_one(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tiny_features.tokenizer)
    write_directory(small_model(tokenizer, 128), tokenizer, tmp_path / "model", card="# card")
    text = tiny_features.held_out_text.read_text(encoding="utf-8")
    texts = [text[place : place + 40 + place // 10] for place in range(0, 4000, 170)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model"), str(path), json.dumps(MESHES)]
    flags = f"{FAST_COMPILATION} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"XLA_FLAGS": flags},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    options = EvaluateOptions(compressors=False)
    alone = evaluate(str(tmp_path / "model"), [str(path)], options).to_json()
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(MESHES)
    for one in found:
        assert one["sums"] == pytest.approx(alone["sums"], rel=1e-6)
        for number in ("eval_bits_per_byte", "eval_loss"):
            assert one[number] == pytest.approx(alone[number], abs=1e-6)
            interval = f"{number}_interval"
            assert one[interval] == pytest.approx(alone[interval], abs=1e-5)
