"""Trains tiny models on eight fake devices, as asked on stdin; prints what happened as JSON."""

import json
import math
import os
import re
import sys
from functools import partial
from typing import Any

DEVICES = 8
ROWS, LENGTH, LAYERS, EMBED, HEADS = 32, 8, 3, 64, 4
COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(-start)?\("
)
SHAPE = re.compile(r"\w+\[([\d,]*)\]")


def family_config(family: str, vocab_size: int, dropout: float) -> Any:
    from jax_lm.models.base import TokenIds
    from jax_lm.models.registry import FAMILIES

    sizes: dict[str, Any] = {"num_layers": LAYERS, "num_heads": HEADS, "embed_dim": EMBED}
    if family == "llama":
        sizes |= {"num_kv_heads": HEADS, "mlp_dim": 96}
    if family == "t5":
        sizes |= {"head_dim": 16, "mlp_dim": 96}
    config = FAMILIES[family].config
    made = config(context_length=LENGTH, dropout=dropout, **sizes)
    return made.with_tokens(TokenIds(vocab_size, pad=0, bos=1, eos=2))


def make_batch(kind: str, vocab_size: int, step: int) -> Any:
    import numpy as np

    from jax_lm.types import Batch

    draws = np.random.default_rng(step)
    ids = draws.integers(0, vocab_size, (ROWS, LENGTH + 1)).astype(np.int32)
    # Rows of very different weight: a mean of means would show.
    weights = (draws.random((ROWS, LENGTH)) < draws.random((ROWS, 1))).astype(np.float32)
    batch = Batch(input_ids=ids[:, :-1], targets=ids[:, 1:], loss_mask=weights)
    if kind == "encoder-decoder":
        batch = batch._replace(decoder_input_ids=np.roll(ids, 1, axis=1)[:, :-1])
    return batch


def run(case: dict[str, Any]) -> dict[str, Any]:
    import jax
    from jax.sharding import AxisType

    from jax_lm.optimizers.build import make_optimizer
    from jax_lm.sharding.mesh import MESH_AXES, MeshConfig, mesh_shape
    from jax_lm.sharding.placing import batch_sharding, put_batch
    from jax_lm.sharding.rules import on_mesh
    from jax_lm.training.beginning.state import abstract_state, first_state, keys_of, shardings_of
    from jax_lm.training.config import TrainConfig
    from jax_lm.training.step import make_train_step

    config = TrainConfig(
        model=family_config(case["family"], case["vocab_size"], case.get("dropout", 0.0)),
        objective=_objective(case["family"]),
        mesh=MeshConfig(**case["mesh"]),
        accumulation_steps=case.get("accumulation_steps", 1),
        remat=case.get("remat", "none"),
        steps=20,
        batch_size=ROWS,
    )
    shape = mesh_shape(config.mesh, case.get("devices", DEVICES))
    devices = jax.devices()[: math.prod(shape.values())]
    types = (AxisType.Auto,) * len(shape)
    mesh = jax.make_mesh(tuple(shape.values()), MESH_AXES, axis_types=types, devices=devices)
    with on_mesh(mesh, config.mesh):
        optimizer = make_optimizer(config.optimizer, 20)
        like = abstract_state(config, optimizer, mesh)
        state = first_state(config, optimizer, like, None)
        step = make_train_step(optimizer, keys_of(config).dropout, config, shardings_of(like))
        put = partial(put_batch, sharding=batch_sharding(mesh))
        found: dict[str, Any] = {"device_bytes": _device_bytes(state), "bytes": _bytes(state)}
        if case.get("collectives"):
            first = put(make_batch(config.model.kind, case["vocab_size"], 0))
            found["collectives"] = collectives(step.lower(state, first).compile().as_text())
            found["largest_parameter"] = _largest_parameter(state.model)
            found["outside"] = [leaf.shape for leaf in _leaves(state.model, stacked=False)]
        losses = []
        for index in range(case.get("steps", 20)):
            batch = put(make_batch(config.model.kind, case["vocab_size"], index))
            state, metrics = step(state, batch)
            losses.append(float(metrics.loss))
    return found | {"losses": losses}


def collectives(text: str) -> list[list[int]]:
    """The shape of everything that travels between devices in a compiled program."""
    shapes = []
    for line in text.splitlines():
        found = COLLECTIVE.search(line)
        if found:
            for dims in SHAPE.findall(found[1]):
                shapes.append([int(size) for size in dims.split(",") if size])
    return shapes


def _objective(family: str) -> Any:
    from jax_lm.objectives.registry import usual_objective

    kinds = {"gpt2": "decoder", "llama": "decoder", "roberta": "encoder", "t5": "encoder-decoder"}
    return usual_objective(family, kinds[family])


def _device_bytes(state: Any) -> int:
    import jax

    return sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(state))


def _bytes(state: Any) -> int:
    import jax

    return sum(leaf.nbytes for leaf in jax.tree.leaves(state))


def _largest_parameter(model: Any) -> int:
    """Elements of the largest parameter of one layer of the stack."""
    return max(leaf.size // LAYERS for leaf in _leaves(model, stacked=True))


def _leaves(model: Any, *, stacked: bool) -> list[Any]:
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(model)
    return [leaf for path, leaf in leaves if ("blocks" in jax.tree_util.keystr(path)) == stacked]


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={DEVICES} --xla_backend_optimization_level=0"
    )
    print(json.dumps([run(case) for case in json.load(sys.stdin)]))
