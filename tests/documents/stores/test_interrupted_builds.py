"""A build that dies before any of its writes, or before it is finished, and goes on."""

from pathlib import Path
from typing import Any

import pytest

from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.stores import building
from jax_lm.documents.stores.building import StoreWriter, build
from jax_lm.documents.stores.counts import Counts
from jax_lm.documents.stores.mongodb import open_mongodb
from jax_lm.documents.stores.mongodb_address import parse_address
from jax_lm.documents.stores.mongodb_writer import MongoWriter
from jax_lm.documents.stores.sqlite_writer import SqliteWriter

GOOD, SHORT, BAD = '{"text": "document"}', '{"text": "x"}', "{bad"
CORPORA = {
    "bad in the middle": [GOOD, BAD, GOOD],
    "whole steps": [GOOD, SHORT, GOOD, BAD, GOOD, GOOD],
    "bad at the end of a step": [GOOD, GOOD, BAD, SHORT],
    "bad at both ends": [BAD, GOOD, GOOD, SHORT, GOOD, BAD],
    "nothing good": [BAD, SHORT, BAD],
    "nothing": [],
}


class Died(Exception):
    """What a kill comes to."""


class Dying:
    """A writer that dies before its write number ``last``, or else before it is finished."""

    def __init__(self, writer: StoreWriter, last: int):
        self._writer = writer
        self._left = last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def write(self, *given: Any) -> None:
        if not self._left:
            raise Died
        self._left -= 1
        self._writer.write(*given)

    def finish(self, *given: Any) -> None:
        raise Died


@pytest.fixture(params=CORPORA)
def corpus(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(building, "STEP_DOCUMENTS", 2)
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(line + "\n" for line in CORPORA[request.param]))
    return path


def run(writer: StoreWriter | Dying, corpus: Path) -> Counts:
    options = ReadingOptions(on_bad_record="skip", min_characters=3)
    return build(open_source(str(corpus), options), writer, watch=lambda progress: None).counts


def sqlite(output: Path, documents_a_file: int | None = None) -> SqliteWriter:
    return SqliteWriter(
        output,
        {"format": 1},
        train=bytes,
        level=1,
        documents_a_file=documents_a_file,
        say=lambda line: None,
    )


def content(output: Path) -> dict[str, bytes]:
    files = sorted(output.iterdir()) if output.is_dir() else [output]
    rejected = output.with_name(f"_{output.name}.rejected.jsonl")
    files += [rejected] if rejected.exists() else []
    return {path.name.replace(output.name, ""): path.read_bytes() for path in files}


@pytest.mark.parametrize("documents_a_file", [None, 3])
def test_a_store_is_the_same_wherever_its_build_died(
    corpus: Path, tmp_path: Path, documents_a_file: int | None
) -> None:
    lines = corpus.read_text().splitlines()
    counts = run(sqlite(tmp_path / "whole.db", documents_a_file), corpus)
    assert counts.documents == lines.count(GOOD)
    assert counts.rejected == lines.count(BAD)
    assert sum(counts.dropped.values()) == lines.count(SHORT)
    whole = content(tmp_path / "whole.db")
    for last in range(6):
        output = tmp_path / f"died {last}.db"
        for _ in range(2):
            with pytest.raises(Died):
                run(Dying(sqlite(output, documents_a_file), last), corpus)
        assert run(sqlite(output, documents_a_file), corpus) == counts
        assert content(output) == whole


def test_a_collection_is_the_same_wherever_its_upload_died(corpus: Path, mongo_uri: str) -> None:
    def writer(name: str) -> MongoWriter:
        return MongoWriter(parse_address(f"{mongo_uri}?collections={name}"), {"format": 1}, print)

    def found(name: str) -> tuple[list[str], list[Any]]:
        whole = open_mongodb(f"{mongo_uri}?collections={name}") if counts.documents else []
        stored = [whole[index].text for index in range(counts.documents)]
        kept = writer(name)
        records = kept.server.ask(lambda database: list(database[kept.rejected].find({})))
        kept.close()
        return stored, sorted((record["line"], record["raw"]) for record in records)

    counts = run(writer("whole"), corpus)
    assert len(found("whole")[1]) == counts.rejected
    for last in range(6):
        with pytest.raises(Died):
            run(Dying(writer(f"c{last}"), last), corpus)
        assert run(writer(f"c{last}"), corpus) == counts
        assert found(f"c{last}") == found("whole")
