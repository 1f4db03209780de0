"""What models do on several devices, as JSON: run in a process of its own with four fake ones."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import tpu
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from jax_lm.models.layers import dot_product
from jax_lm.models.layers.attention_kernel import Platform
from jax_lm.models.layers.dropout import DropoutKey, dropout
from jax_lm.models.layers.mask import causal_mask
from jax_lm.models.llama import LlamaConfig
from jax_lm.models.low_rank import LoraConfig, with_low_rank
from jax_lm.models.registry import init_model
from jax_lm.sharding.mesh import MeshConfig, make_mesh
from jax_lm.sharding.rules import rules_of, state_shardings

SHAPE = {"vocab_size": 40, "context_length": 8, "num_layers": 2, "embed_dim": 16}
COLLECTIVES = "all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute"


def dropout_under_sharding():
    """Collectives in the compiled gradient, and whether the values are those of one device."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4, 6, 8)), jnp.float32)
    key = jax.random.key(3)

    def loss(x, key):
        return jnp.square(dropout(x, 0.5, DropoutKey(key, jnp.arange(4) + 7))).sum(axis=(1, 2, 3))

    def gradient(x, key):
        return jax.grad(lambda x: loss(x, key).sum())(x)

    expected, found = jax.jit(gradient)(x, key), {}
    mesh = make_mesh(MeshConfig(data=2, tensor=2))
    with jax.set_mesh(mesh):
        for spec in (P("data"), P("data", "tensor"), P(("data", "tensor"))):
            placed = NamedSharding(mesh, spec)
            compiled = jax.jit(gradient, out_shardings=placed).lower(jax.device_put(x, placed), key)
            compiled = compiled.compile()
            actual = compiled(jax.device_put(x, placed), key)
            found[str(spec)] = [
                len(re.findall(COLLECTIVES, compiled.as_text())),
                bool((np.asarray(actual) == np.asarray(expected)).all()),
            ]
    return found


def flash_under_mesh():
    """How far flash attention on the mesh and its gradients are from the plain products."""
    draw = np.random.default_rng(0)
    query, key, value = (
        jnp.asarray(draw.normal(size=(2, 2, 128, 64)), jnp.float32) for _ in range(3)
    )
    segments = jnp.repeat(jnp.array([[1, 2, 0], [1, 1, 0]]), jnp.array([60, 40, 28]), axis=1)
    hardware = Platform("tpu", devices=4)
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return flash(*arguments)

    def both():
        def total(query, key, value):
            attended = dot_product.attend(query, key, value, causal_mask(segments))
            return jnp.square(attended).sum(), attended

        return jax.jit(jax.grad(total, (0, 1, 2), has_aux=True))(query, key, value)

    expected = both()
    flash, dot_product._pallas = dot_product._pallas, counted
    plain = dot_product.platform
    dot_product.platform = lambda: hardware._replace(mesh=plain().mesh)
    with jax.set_mesh(make_mesh(MeshConfig(data=2, tensor=2))), tpu.force_tpu_interpret_mode():
        actual = both()
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    differences = [float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs]
    return {"differences": differences, "kernels": len(calls)}


def factors_under_mesh():
    """Largest difference of factors' gradients from one device's, and how some are split."""
    config = LlamaConfig(**SHAPE, num_heads=4, num_kv_heads=2, mlp_dim=32)
    base = init_model(jax.random.key(0), config)
    model = with_low_rank(jax.random.key(1), base, LoraConfig(rank=2, targets=("*",)))
    ids = jnp.arange(32, dtype=jnp.int32).reshape(4, 8)

    @jax.jit
    def gradient(model):
        return jax.grad(lambda m: jnp.square(m.unembedding.logits(m(ids))[..., :40]).mean())(model)

    expected = gradient(model)
    mesh = make_mesh(MeshConfig(data=1, fsdp=2, tensor=2))
    with jax.set_mesh(mesh):
        shardings = state_shardings(model, model, mesh, rules_of(MeshConfig()))
        sharded = jax.device_put(model, shardings)
        actual = gradient(sharded)
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    query = sharded.blocks.attention.query_weight
    return {
        "difference": max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs),
        "specs": [str(leaf.sharding.spec) for leaf in (query.weight, query.a, query.b)],
    }


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "dropout": dropout_under_sharding(),
                "flash": flash_under_mesh(),
                "factors": factors_under_mesh(),
            }
        )
    )
