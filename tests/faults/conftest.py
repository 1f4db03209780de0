from pathlib import Path

import pytest

from jax_lm.training.run import train
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import quiet, tiny_config


@pytest.fixture(scope="session")
def undisturbed_run(tiny_features: TinyFeatures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of ``tiny_config`` that nothing disturbs."""
    return train(tiny_config(tiny_features, tmp_path_factory.mktemp("whole") / "run"), quiet)
