"""Layers on a mesh of four fake devices, all in one process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    script = Path(__file__).with_name("on_four_devices.py")
    done = subprocess.run(
        [sys.executable, script],
        check=True,
        stdout=subprocess.PIPE,
        timeout=200,
        env=os.environ | flags,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_devices_draw_their_own_rows_of_dropout_alone(found):
    """No collective, and the masks of one device, whichever axes are split."""
    assert len(found["dropout"]) == 3
    assert all(value == [0, True] for value in found["dropout"].values()), found["dropout"]


def test_flash_attention_is_split_over_rows_and_heads(found):
    assert found["flash"]["kernels"] == 1
    assert len(found["flash"]["differences"]) == 4
    assert max(found["flash"]["differences"]) < 1e-4


def test_factors_lie_and_compute_where_their_weight_does(found):
    assert found["factors"]["difference"] < 1e-5
    assert found["factors"]["specs"] == [
        "P(None, 'fsdp', 'tensor', None)",
        "P(None, 'fsdp', None)",
        "P(None, None, 'tensor', None)",
    ]
