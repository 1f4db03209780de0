"""Texts written on several fake devices, all in one process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_texts_on_meshes_are_those_of_one_device():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.generation.texts_on_four_devices"],
        check=True,
        stdout=subprocess.PIPE,
        timeout=400,
        env=os.environ | flags,
        cwd=ROOT,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["same"]) == 6
    assert all(found["same"].values()), found["same"]
    cache, weight = found["where"]
    assert cache.startswith("P(('data', 'fsdp'), 'tensor'") or cache.startswith("P('data', 'tens")
    assert weight == "P(None, 'tensor', None)" or weight == "P(None, 'tensor')"
