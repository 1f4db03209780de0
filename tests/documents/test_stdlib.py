import sysconfig
from pathlib import Path

import pytest

from jax_lm.documents.base import Cursor, iterate_texts
from jax_lm.documents.open import open_source
from jax_lm.documents.stdlib import split_of, stdlib_files
from jax_lm.errors import JaxLMError


def names(split: str | None = None) -> list[str]:
    return [name for _, name in stdlib_files(split)]


def test_it_is_code_without_tests_packages_and_tables() -> None:
    parts = {part for name in names() for part in name.split("/")}
    assert {"argparse.py", "json", "asyncio", "turtle.py"} <= parts
    assert not parts & {"test", "tests", "idle_test", "site-packages", "topics.py", "cp437.py"}
    assert names() == sorted(names())


def test_the_split_is_a_partition_that_names_alone_decide() -> None:
    train, validation = names("train"), names("validation")
    assert sorted(train + validation) == names()
    assert 0.02 < len(validation) / len(names()) < 0.10
    # Pinned: a split that moves would leak held-out files into training.
    assert split_of("turtle.py") == "validation"
    assert split_of("argparse.py") == "train"


def test_every_file_can_be_read_and_is_enough_to_learn_from() -> None:
    source = open_source("stdlib?split=train")
    assert 5e6 < sum(map(len, iterate_texts(source))) < 15e6
    assert all(not document.subset for _, document in source.read(Cursor(0, 0), Cursor(5, 0)))


def test_an_interpreter_without_source_files(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(JaxLMError, match=r"holds no \.py files"):
        open_source("stdlib")
