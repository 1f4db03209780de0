import itertools
from collections.abc import Iterator

import pytest

from jax_lm.cli.main import main
from tests.documents.stores.mongo_server import CuttingProxy, running_server

names = (f"test{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[str]:
    with running_server() as address:
        yield address


@pytest.fixture
def mongo_uri(mongo_server: str) -> str:
    """A database of its own for each test."""
    return f"mongodb://{mongo_server}/{next(names)}"


@pytest.fixture
def proxy(mongo_server: str) -> Iterator[CuttingProxy]:
    cutting = CuttingProxy(mongo_server)
    yield cutting
    cutting.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run ``jax-lm documents ...``; gives the exit code and what was printed."""

    def call(*args: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["documents", *map(str, args)])
        return code, *capsys.readouterr()

    return call
