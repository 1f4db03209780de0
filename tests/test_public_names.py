"""Names that others may rely on are there."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api.md"
NAMES = re.findall(r"^\| `(jax_lm\.[\w.]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_lists_names_once() -> None:
    assert len(NAMES) == len(set(NAMES)) > 50


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert getattr(importlib.import_module(module), attribute).__doc__
