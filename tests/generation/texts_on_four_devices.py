"""Texts written on meshes of four fake devices, as JSON: run in a process of its own."""

import json
from dataclasses import replace

import jax
import numpy as np

from jax_lm.generation.decode import DecodeOptions, write
from jax_lm.generation.requests import Request
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.slots import SlotDecoder
from jax_lm.models.registry import abstract_model
from jax_lm.sharding.mesh import MeshConfig, make_mesh
from jax_lm.sharding.rules import on_mesh
from tests.contracts.family_cases import CONFIGS

MESHES = {"rows and heads": {"tensor": 2}, "parameters": {"data": 2, "fsdp": 2}}
PROMPTS = [[5, 6, 7], [9], [3, 30, 8, 8, 2], [11, 12], [4]]
SETTINGS = {
    "greedy": SamplingConfig(max_new_tokens=10, temperature=0.0, repetition_penalty=1.2),
    "drawn": SamplingConfig(max_new_tokens=10, temperature=1.0, top_k=20, top_p=0.95, seed=3),
}


def drawn_model(name):
    draw = np.random.default_rng(0)
    config = CONFIGS[name]
    if config.kind == "encoder-decoder":
        config = replace(config, decoder_start_id=1)

    def fill(path, leaf):
        scale = jax.tree_util.keystr(path).endswith("scale")
        return np.float32(scale) + draw.normal(0, 0.3, leaf.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(fill, abstract_model(config))


def texts(model, options=None):
    return {
        name: [one.ids for one in write(model, PROMPTS, config, eos_id=0, options=options)]
        for name, config in SETTINGS.items()
    }


def where(model, mesh):
    """How a cache and a parameter lie after a step."""
    decoder = SlotDecoder(model, num_slots=4, eos_id=None, mesh=mesh)
    decoder.admit([Request([1, 2], SETTINGS["greedy"])])
    decoder.step()
    cache = decoder._slots.cache.layers[0].key.sharding.spec
    return str(cache), str(decoder._model.blocks[0].attention.query_weight.sharding.spec)


def main():
    found = {"same": {}}
    for family in ("llama, few key heads", "t5"):
        model = drawn_model(family)
        alone = texts(jax.device_put(model, jax.devices()[0]))
        for name, shape in MESHES.items():
            config = MeshConfig(**shape)
            mesh = make_mesh(config)
            found["same"][f"{family}, {name}"] = texts(model, DecodeOptions(mesh=mesh)) == alone
        with on_mesh(mesh, config):
            found["same"][f"{family}, the mesh that is set"] = texts(model) == alone
    model = drawn_model("gpt2")
    found["where"] = where(model, make_mesh(MeshConfig(data=2, tensor=2)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
