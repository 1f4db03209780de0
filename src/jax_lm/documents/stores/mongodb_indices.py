"""Whether ``idx`` counts 0, 1, 2 ... in a collection, found without reading the collection."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from jax_lm.documents.stores.mongodb_server import MongoServer, announce
from jax_lm.errors import JaxLMError

if TYPE_CHECKING:
    from pymongo.collection import Collection

IDX = "idx"
ONLY_IDX = {IDX: 1, "_id": 0}
LOOKED_AT = 512
"""So few values of ``idx`` are read; a longer stretch is counted by the server and halved."""
SHOWN = 5


class Problem(NamedTuple):
    """A value of ``idx`` that does not occur once."""

    value: int
    times: int


def ensure_index(server: MongoServer, name: str) -> None:
    """Make an index on ``idx`` if the collection has none, and say so."""
    known = server.ask(lambda database: database[name].index_information())
    if any(index["key"][0][0] == IDX for index in known.values()):
        return
    try:
        server.ask(lambda database: database[name].create_index(IDX))
    except JaxLMError as error:
        announce(f"{error}; without an index on {IDX}, reading collection {name!r} is slow")
    else:
        announce(f"{server.address.place}: made an index on {IDX} of collection {name!r}")


def contiguous_length(server: MongoServer, name: str) -> int:
    """Number of documents of a collection whose ``idx`` counts from 0 without gap or duplicate.

    The smallest value, the largest and the count are compared; where duplicates make up for as
    many gaps, reading and ``documents verify`` find them.

    Raises:
        JaxLMError: ``idx`` is missing, has gaps or duplicates; the first few are named.
    """
    ends = [_end(server, name, direction) for direction in (1, -1)]
    if None in ends:
        return 0
    first, last = (_checked(server, name, end) for end in ends if end is not None)
    count = server.ask(lambda database: database[name].estimated_document_count())
    if first == 0 and count == last + 1:
        return count
    if first != 0 or count_documents(server, name, {}) != last + 1:
        below = [Problem(first, 1)] if first < 0 else []
        problems = [*below, *first_problems(server, name, 0, last + 1)]
        raise unusable(server, name, problems, last + 1)
    return last + 1


def every_problem(server: MongoServer, name: str, length: int) -> list[Problem]:
    """All values below ``length`` that do not occur once, found by reading every ``idx``."""
    return [
        problem
        for start in range(0, length, LOOKED_AT * 64)
        for problem in _problems_in(server, name, start, min(start + LOOKED_AT * 64, length))
    ]


def first_problems(server: MongoServer, name: str, start: int, stop: int) -> list[Problem]:
    """The first few values that do not occur once, found by halving where the counts are wrong."""
    if count_documents(server, name, {IDX: {"$gte": start, "$lt": stop}}) == stop - start:
        return []
    if stop - start <= LOOKED_AT:
        return _problems_in(server, name, start, stop)
    middle = (start + stop) // 2
    found = first_problems(server, name, start, middle)
    if len(found) < SHOWN:
        found += first_problems(server, name, middle, stop)
    return found


def unusable(server: MongoServer, name: str, problems: list[Problem], length: int) -> JaxLMError:
    """The error for a collection that cannot be read by index."""
    words = "; ".join(_words(problems)) or "some documents have no number there"
    return JaxLMError(
        f"{server.address.place}: collection {name!r}: {IDX} should count 0 to {length - 1} once "
        f"each: {words}; number the documents anew"
    )


def count_documents(server: MongoServer, name: str, condition: Mapping[str, Any]) -> int:
    """How many documents of a collection meet a condition."""
    return server.ask(lambda database: database[name].count_documents(condition))


def _end(server: MongoServer, name: str, direction: int) -> dict[str, Any] | None:
    def question(collection: "Collection[dict[str, Any]]") -> dict[str, Any] | None:
        return collection.find_one({}, ONLY_IDX, sort=[(IDX, direction)])

    return server.ask(lambda database: question(database[name]))


def _checked(server: MongoServer, name: str, record: Mapping[str, Any]) -> int:
    value = record.get(IDX)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        found = "no such field" if value is None else f"{value!r}"
        raise JaxLMError(
            f"{server.address.place}: collection {name!r}: expected whole numbers from 0 under "
            f"{IDX}, found {found} in a document; number the documents"
        )
    return int(value)


def _problems_in(server: MongoServer, name: str, start: int, stop: int) -> list[Problem]:
    condition = {IDX: {"$gte": start, "$lt": stop}}
    found = server.ask(
        lambda database: Counter(record[IDX] for record in database[name].find(condition, ONLY_IDX))
    )
    times = {value: found.pop(value, 0) for value in range(start, stop)}
    wrong = [Problem(value, count) for value, count in times.items() if count != 1]
    return sorted([*wrong, *(Problem(value, count) for value, count in found.items())])


def _words(problems: list[Problem]) -> Iterator[str]:
    kinds = {
        "negative": [problem.value for problem in problems if problem.value < 0],
        "not whole": [problem.value for problem in problems if problem.value != int(problem.value)],
        "missing": [problem.value for problem in problems if problem.times == 0],
        "more than once": [problem.value for problem in problems if problem.times > 1],
    }
    for words, values in kinds.items():
        if values:
            more = ", ..." if len(values) > SHOWN else ""
            yield f"{words}: {', '.join(map(str, values[:SHOWN]))}{more}"
