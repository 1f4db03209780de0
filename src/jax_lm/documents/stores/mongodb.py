"""``mongodb://...``: the documents of many collections under one index."""

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from jax_lm.documents.base import Cursor, DocumentRange, RejectedRecord, checked_target
from jax_lm.documents.conversations.templates import DEFAULT, ChatTemplate
from jax_lm.documents.stores.counts import text_bytes
from jax_lm.documents.stores.mongodb_address import parse_address
from jax_lm.documents.stores.mongodb_indices import (
    IDX,
    Problem,
    contiguous_length,
    ensure_index,
    unusable,
)
from jax_lm.documents.stores.mongodb_records import RecordReader
from jax_lm.documents.stores.mongodb_server import MongoServer
from jax_lm.documents.stores.payload import json_bytes
from jax_lm.errors import JaxLMError, nearest
from jax_lm.types import Document

META_INFO = "meta_info"
"""The collection in which dsGPT2 lists the others: ``collection_name``, ``num_docs``."""
FIRST_READ, MOST_READ = 64, 1000
READ_BYTES = 8 << 20
"""Text that a reader holds at once, about."""
SAMPLED = 64
"""Documents of a collection that stand for all of them in a fingerprint and in sizes."""


class Part(NamedTuple):
    """A collection of a store."""

    name: str
    length: int


class MongoStore:
    """Documents of collections under one index, in the order of the collections.

    Its cursors are ``Cursor(0, index)``. Each process connects for itself, and only when it reads.
    """

    def __init__(self, name: str, server: MongoServer, reader: RecordReader, parts: Sequence[Part]):
        """Asks nothing yet.

        Args:
            name: what the user wrote, without secrets.
            server: where the collections are.
            reader: how their records become documents.
            parts: the collections in their order.
        """
        self.name = name
        self.server = server
        self.parts = tuple(parts)
        self.rejects: list[RejectedRecord] = []
        self.dropped: Counter[str] = Counter()
        self._reader = reader
        self._firsts = [0, *accumulate(part.length for part in parts)]

    def __len__(self) -> int:
        """Number of documents."""
        return self._firsts[-1]

    def __getitem__(self, index: int) -> Document:
        """Document ``index``, counting from 0.

        Raises:
            IndexError: the store has fewer documents.
        """
        return self.read_batch([index])[0]

    def read_batch(self, indices: Sequence[int]) -> list[Document]:
        """The documents at ``indices``, in that order, with one query a collection.

        Raises:
            JaxLMError: the server does not answer, or ``idx`` has a gap or a duplicate.
        """
        wanted: dict[int, list[int]] = {}
        for index in dict.fromkeys(indices):
            part, number = self._place(index)
            wanted.setdefault(part, []).append(number)
        found = {
            self._firsts[part] + number: document
            for part, numbers in wanted.items()
            for number, document in self._numbered(self.parts[part], sorted(numbers))
        }
        return [found[index] for index in indices]

    def fingerprint(self) -> str:
        """Hex sha256 over the lengths of the collections and a sample of their documents.

        A server tells no cheaper what has changed: an edit in place that keeps the length and
        misses the sample goes unnoticed.
        """
        digest = hashlib.sha256(f"mongodb {self._reader!r}\n".encode())
        for part in self.parts:
            length = contiguous_length(self.server, part.name)
            digest.update(json_bytes([part.name, length]))
            for record in self._sample(part):
                digest.update(json_bytes({k: v for k, v in record.items() if k != "_id"}))
        return digest.hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Runs of about ``target_bytes`` bytes, going by the mean of a sample of documents.

        Raises:
            JaxLMError: ``target_bytes`` is below 1.
        """
        checked_target(target_bytes)
        cuts = [0]
        for first, part in zip(self._firsts, self.parts, strict=False):
            sizes = [self._size(record, part) for record in self._sample(part)]
            mean = max(1, sum(sizes) // max(1, len(sizes)))
            step = max(1, target_bytes // mean)
            cuts.extend(first + number for number in range(step, part.length, step))
            if part.length:
                cuts.append(first + part.length)
        return [DocumentRange(Cursor(0, start), Cursor(0, stop)) for start, stop in pairwise(cuts)]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a record holds no text where text is expected.
            JaxLMError: the server does not answer, or ``idx`` has a gap or a duplicate.
        """
        index = len(self) if start.file else start.offset
        last = len(self) if stop is None or stop.file else min(stop.offset, len(self))
        at_once = FIRST_READ
        while index < last:
            documents = self.read_batch(range(index, min(index + at_once, last)))
            for document in documents:
                index += 1
                yield Cursor(0, index), document
            mean = sum(text_bytes(document.text) for document in documents) // len(documents)
            at_once = max(1, min(MOST_READ, READ_BYTES // max(1, mean)))

    def _place(self, index: int) -> tuple[int, int]:
        """The collection of a document, and its ``idx`` there."""
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name}: no document {index}; it holds {len(self):,}")
        part = bisect_right(self._firsts, index) - 1
        return part, index - self._firsts[part]

    def _numbered(self, part: Part, numbers: list[int]) -> Iterator[tuple[int, Document]]:
        for number, record in zip(numbers, self._records(part, numbers), strict=True):
            yield number, self._reader.document(record, part.name)

    def _records(self, part: Part, numbers: list[int]) -> list[dict[str, Any]]:
        """The records with these ascending numbers, by one query."""
        condition: Mapping[str, Any] = {IDX: {"$in": numbers}}
        if numbers[-1] - numbers[0] + 1 == len(numbers):
            condition = {IDX: {"$gte": numbers[0], "$lte": numbers[-1]}}
        if len(numbers) == 1:
            condition = {IDX: numbers[0]}
        found = self.server.ask(
            lambda database: list(
                database[part.name].find(condition, {"_id": 0}, batch_size=len(numbers) + 1)
            )
        )
        found.sort(key=lambda record: record[IDX])
        if [record[IDX] for record in found] != numbers:
            times = Counter(record[IDX] for record in found)
            wrong = [Problem(n, times[n]) for n in (*numbers, *times) if times[n] != 1]
            raise unusable(self.server, part.name, list(dict.fromkeys(wrong)), part.length)
        return found

    def _sample(self, part: Part) -> list[dict[str, Any]]:
        numbers = {step * (part.length - 1) // (SAMPLED - 1) for step in range(SAMPLED)}
        return self._records(part, sorted(numbers)) if part.length else []

    def _size(self, record: Mapping[str, Any], part: Part) -> int:
        return text_bytes(self._reader.document(record, part.name).text)


def open_mongodb(spec_written: str, template: ChatTemplate = DEFAULT) -> MongoStore:
    """Open the collections that a SPEC names; makes an index on ``idx`` where there is none.

    Args:
        spec_written: ``mongodb://HOST/DB?collections=a,b&text=FIELD``, ``mongodb+srv://...`` or
            ``mongodb-config:FILE``. Options that are not ours go to pymongo.
        template: how conversations become text.

    Raises:
        UsageError: the SPEC cannot be read; a password in it is not repeated.
        JaxLMError: the server does not answer, a collection is not there, or its ``idx`` does not
            count 0, 1, 2 ...
    """
    address = parse_address(spec_written)
    server = MongoServer(address)
    names = address.collections or _listed(server)
    _refuse_unknown(server, names)
    for name in names:
        ensure_index(server, name)
    parts = [Part(name, contiguous_length(server, name)) for name in names]
    reader = RecordReader(address.place, address.text, address.subset, template)
    return MongoStore(address.name, server, reader, parts)


def _listed(server: MongoServer) -> tuple[str, ...]:
    records = server.ask(lambda database: list(database[META_INFO].find({})))
    listed = {str(record["collection_name"]) for record in records if "collection_name" in record}
    if not listed:
        there = ", ".join(_collections(server)) or "none at all"
        raise JaxLMError(
            f"{server.address.place}: which collections? {META_INFO!r} lists none; name them with "
            f"?collections=a,b (there are: {there})"
        )
    return tuple(sorted(listed))


def _refuse_unknown(server: MongoServer, names: Sequence[str]) -> None:
    known = _collections(server)
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none at all"
            raise JaxLMError(
                f"{server.address.place}: no collection {name!r}{nearest(name, known)} (there "
                f"are: {there})"
            )


def _collections(server: MongoServer) -> list[str]:
    names = server.ask(lambda database: database.list_collection_names())
    return sorted(name for name in names if not name.startswith(("_", "system.")))
