"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

os.environ.setdefault("JAX_PLATFORMS", "cpu")


@pytest.fixture
def shared_data() -> Path:
    """Real corpora and tokenizers that lie beside some checkouts; the test is skipped elsewhere."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the sample corpora in {SHARED_DATA}")
    return SHARED_DATA
