"""An evaluation set smaller than a batch, on devices that do not divide it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.evaluation.evaluate import evaluate
from jax_lm.evaluation.options import EvaluateOptions
from tests.conftest import FAST_COMPILATION, TinyFeatures

SCRIPT = """
import json, sys
from pathlib import Path
import jax
from jax.sharding import AxisType
from jax_lm.evaluation.evaluate import evaluate as score
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.huggingface.directory import write_directory
from jax_lm.loading.rows import open_rows
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.registry import init_model
from jax_lm.sharding.mesh import MESH_AXES
from jax_lm.sharding.placing import replicated
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.training.hosts.agreement import Agreement
from jax_lm.training.config import EvaluationConfig, TrainConfig
from jax_lm.training.data import TrainingData, open_objective
from jax_lm.training.evaluating import Evaluator
from jax_lm.training.signals import StopRequest

tokenizer, held_out = load_tokenizer(sys.argv[1]), open_rows(sys.argv[2], lambda line: None)
shape = GPT2Config(context_length=32, num_layers=1, num_heads=2, embed_dim=16, vocab_size=300)
model = init_model(jax.random.key(0), shape)
for devices, data, fsdp, rows in ((1, 1, 1, 3), (8, 8, 1, 3), (8, 2, 4, 3), (8, 8, 1, 11)):
    mesh = jax.make_mesh(
        (data, fsdp, 1, 1), MESH_AXES, (AxisType.Auto,) * 4, devices=jax.devices()[:devices]
    )
    config = TrainConfig(model=shape, evaluation=EvaluationConfig(max_rows=rows, sample_tokens=0))
    seen = TrainingData((), held_out, None, {}, {"val": held_out}, tokenizer,
                        open_objective(config, tokenizer))
    tracker = type("Tracker", (), {"log": lambda self, step, metrics: None})()
    with jax.set_mesh(mesh):
        agreement = Agreement(StopRequest(), mesh)
        evaluate = Evaluator(config, seen, mesh, tracker, agreement, batch_size=4)
        print(json.dumps(evaluate(jax.device_put(model, replicated(mesh)), 1)))
write_directory(model, tokenizer, Path(sys.argv[3]), card="a model")
found = score(sys.argv[3], [sys.argv[2]], EvaluateOptions(batch_size=3))
print(json.dumps(found.to_json() | {"devices": jax.device_count()}))
"""


@pytest.mark.slow
def test_three_rows_on_eight_devices(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tiny_features.tokenizer), tiny_features.held_out]
    command.append(str(tmp_path / "model"))
    flags = f"{FAST_COMPILATION} --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=200, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *found, evaluated = [json.loads(line) for line in done.stdout.splitlines()]
    one, *others = found
    assert others[0] == pytest.approx(one, rel=1e-6)
    assert others[1] == pytest.approx(one, rel=1e-6)
    assert others[2]["val/loss"] != pytest.approx(one["val/loss"], rel=1e-5)
    assert evaluated.pop("devices") == 8
    alone = evaluate(str(tmp_path / "model"), [tiny_features.held_out], EvaluateOptions()).to_json()
    assert evaluated["sums"] == pytest.approx(alone["sums"], rel=1e-6)
    assert evaluated["eval_loss"] == pytest.approx(alone["eval_loss"], rel=1e-6)
