"""What a mesh or a rule cannot be, is said before anything is placed."""

import jax
import pytest
from jax.sharding import AbstractMesh

from jax_lm.errors import UsageError
from jax_lm.models.layers.placement import PARAMETERS, mesh_axes, partition
from jax_lm.models.llama import LlamaConfig
from jax_lm.models.registry import abstract_model
from jax_lm.sharding.mesh import MESH_AXES, MeshConfig, mesh_shape
from jax_lm.sharding.rules import rules_of, state_shardings

LLAMA = LlamaConfig(
    vocab_size=256, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=32, mlp_dim=64
)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("embd=fsdp", "parameters have no axis 'embd'; did you mean 'embed'"),
        ("vocabulary=none", "no axis 'vocabulary'; did you mean 'vocab'"),
        ("embed=fdsp", "did you mean 'fsdp'"),
        ("embed", "expected AXIS=none or AXIS=MESH_AXIS"),
    ],
)
def test_a_misspelt_rule_is_refused(rule: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rules_of(MeshConfig(rules=(rule,)))


def test_rules_take_the_place_of_the_usual_ones() -> None:
    rules = rules_of(MeshConfig(rules=("kv_heads=none", "embed=fsdp+tensor")))
    assert rules["kv_heads"] == ()
    assert mesh_axes(rules["embed"]) == ("fsdp", "tensor")
    assert rules["mlp"] == PARAMETERS["mlp"]


def test_a_mesh_axis_splits_one_axis_only() -> None:
    rules = {"embed": ("fsdp", "tensor"), "mlp": "tensor"}
    spec = partition(("embed", "mlp"), (8, 8), rules, {"fsdp": 2, "tensor": 2})
    assert tuple(spec) == (("fsdp", "tensor"), None)


def test_a_size_that_does_not_divide_is_refused_with_the_way_out() -> None:
    mesh = AbstractMesh((1, 1, 4, 1), MESH_AXES)
    model = abstract_model(LLAMA)
    with pytest.raises(UsageError, match=r"--mesh.tensor 4 does not divide kv_heads, which is 2"):
        state_shardings(model, model, mesh, rules_of(MeshConfig(tensor=4)))
    kept = rules_of(MeshConfig(tensor=4, rules=("kv_heads=none",)))
    placed = state_shardings(model, model, mesh, kept)
    assert len(jax.tree.leaves(placed)) == len(jax.tree.leaves(model))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (MeshConfig(fsdp=3), "--mesh.fsdp 3 does not divide the 8 devices that there are"),
        (MeshConfig(data=3, tensor=2), "asks for 6 devices, and there are 8"),
    ],
)
def test_a_mesh_of_other_devices_is_refused(config: MeshConfig, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mesh_shape(config, 8)


def test_data_takes_what_is_left() -> None:
    assert mesh_shape(MeshConfig(fsdp=2, tensor=2), 8)["data"] == 2
