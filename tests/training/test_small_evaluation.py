"""An evaluation set smaller than a batch, on devices that do not divide it."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import TinyFeatures

SCRIPT = """
import json, sys
import jax
from jax.sharding import AxisType
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
"""


def test_three_rows_on_eight_devices(tiny_features: TinyFeatures) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tiny_features.tokenizer), tiny_features.held_out]
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=200, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, *others = [json.loads(line) for line in done.stdout.splitlines()]
    assert others[0] == pytest.approx(one, rel=1e-6)
    assert others[1] == pytest.approx(one, rel=1e-6)
    assert others[2]["val/loss"] != pytest.approx(one["val/loss"], rel=1e-5)
