"""The same losses on any mesh, parameters truly split, and little that travels."""

import json
import math
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

from tests.sharding.mesh_runs import EMBED, LAYERS, LENGTH, ROWS

FAMILIES = ("gpt2", "llama", "roberta", "t5")
MESHES = {
    "data 8": {"data": 8},
    "fsdp 8": {"data": 1, "fsdp": 8},
    "data 2 x fsdp 2 x tensor 2": {"data": 2, "fsdp": 2, "tensor": 2},
    "data 2 x tensor 4": {"data": 2, "tensor": 4},
}
ONE = {"mesh": {"data": 1}, "devices": 1}
VOCAB = 384


def runs(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run cases in one process of their own, which has eight devices."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sharding.mesh_runs"],
        input=json.dumps([{"vocab_size": VOCAB} | case for case in cases]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def assert_equal_losses(losses: list[float], expected: list[float]) -> None:
    assert len(losses) == len(expected) > 1
    assert losses == pytest.approx(expected, rel=1e-5)
    assert any(abs(a - b) > 1e-3 for a, b in pairwise(expected)), "nothing was learnt"


def assert_little_travels(
    found: dict[str, Any], mesh: dict[str, int], accumulation: int, vocabulary: int = VOCAB
) -> None:
    """Nothing larger than a layer's largest parameter or a micro-batch's hidden states.

    But for what lies outside the layers, such as the table of tokens: it travels by itself.
    """
    activations = ROWS // accumulation * LENGTH * EMBED
    limit = max(found["largest_parameter"], activations)
    padded = vocabulary + -vocabulary % 128
    vocabularies = {vocabulary, padded, padded // mesh.get("tensor", 1)}
    assert found["collectives"]
    for shape in found["collectives"]:
        assert math.prod(shape) <= limit or is_part_of(shape, found["outside"]), shape
        assert not (len(shape) == 3 and shape[-1] in vocabularies), f"logits: {shape}"
        assert not (len(shape) > 1 and shape[0] == LAYERS), f"a stack of layers: {shape}"


def is_part_of(shape: list[int], arrays: list[list[int]]) -> bool:
    """Whether a shape is that of one of the arrays, or of a device's part of it."""
    return any(
        len(whole) == len(shape) and not any(a % b for a, b in zip(whole, shape, strict=True))
        for whole in arrays
    )


def test_dropout_and_parts_of_a_batch_on_three_axes_at_once() -> None:
    options = {"family": "gpt2", "steps": 4, "dropout": 0.1}
    mesh = MESHES["data 2 x fsdp 2 x tensor 2"]
    one, split = runs(
        [
            options | ONE,
            options | {"mesh": mesh, "accumulation_steps": 4, "collectives": True},
        ]
    )
    assert_equal_losses(split["losses"], one["losses"])
    assert_little_travels(split, mesh, 4)
    # Vectors along embed are split by fsdp alone, and so is a quarter of the heads' state.
    assert split["device_bytes"] < split["bytes"] / 3


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_mesh_gives_one_devices_losses(family: str) -> None:
    meshes = [
        {"family": family, "mesh": mesh, "collectives": True} | extra
        for mesh in MESHES.values()
        for extra in ({}, {"dropout": 0.1, "accumulation_steps": 4})
    ]
    plain, dropped, *found = runs(
        [{"family": family} | ONE, {"family": family, "dropout": 0.1} | ONE, *meshes]
    )
    for case, one_run in zip(meshes, found, strict=True):
        expected = dropped if "dropout" in case else plain
        assert_equal_losses(one_run["losses"], expected["losses"])
        assert_little_travels(one_run, case["mesh"], case.get("accumulation_steps", 1))
    assert dropped["losses"] != plain["losses"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_four_parts_of_a_batch_and_every_remat_policy_on_a_mesh(family: str) -> None:
    options = {"family": family, "dropout": 0.1}
    mesh = {"mesh": {"data": 1, "fsdp": 2, "tensor": 2}, "devices": 4, "accumulation_steps": 4}
    policies = [options | mesh | {"remat": name} for name in ("attention", "dots", "full")]
    one, *found = runs([options | ONE, *policies])
    for one_run in found:
        assert_equal_losses(one_run["losses"], one["losses"])


@pytest.mark.slow
def test_positions_are_split_too() -> None:
    options = {"family": "gpt2", "dropout": 0.1}
    mesh = {"data": 2, "fsdp": 2, "sequence": 2}
    one, split = runs([options | ONE, options | {"mesh": mesh}])
    assert_equal_losses(split["losses"], one["losses"])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_vocabulary_of_odd_size_is_split_over_tensor(family: str) -> None:
    options = {"family": family, "vocab_size": 50_257}
    mesh = {"data": 1, "tensor": 2}
    one, split = runs([options | ONE, options | {"mesh": mesh, "devices": 2, "collectives": True}])
    assert_equal_losses(split["losses"], one["losses"])
    assert_little_travels(split, mesh, 1, 50_257)
    assert split["device_bytes"] < 0.51 * split["bytes"]


@pytest.mark.slow
def test_fsdp_splits_everything_by_eight() -> None:
    (found,) = runs([{"family": "llama", "mesh": {"data": 1, "fsdp": 8}, "steps": 2}])
    assert found["device_bytes"] == pytest.approx(found["bytes"] / 8, rel=0.01)
