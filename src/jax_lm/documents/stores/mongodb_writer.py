"""Uploads documents to a collection, and goes on after a kill without loss or duplicate.

The documents gather in ``_NAME.partial``; how far they are is kept in ``_jax_lm_builds`` after each
step. A server alone has no transactions, so what a broken step left is taken away before it is
taken again. The last act is a rename, which is atomic, and an entry in ``meta_info``.
"""

import json
from collections.abc import Sequence
from typing import Any

from jax_lm.documents.stores.building import Plan, Say, Step, plan_differences
from jax_lm.documents.stores.counts import Progress, beginning
from jax_lm.documents.stores.mongodb import META_INFO
from jax_lm.documents.stores.mongodb_address import MongoAddress
from jax_lm.documents.stores.mongodb_indices import IDX, count_documents
from jax_lm.documents.stores.mongodb_records import encode_record
from jax_lm.documents.stores.mongodb_server import MongoServer
from jax_lm.documents.stores.originals import take_original
from jax_lm.errors import JaxLMError, UsageError

BUILDS = "_jax_lm_builds"
UNLIMITED = 1 << 62
LARGEST_RECORD = 16 << 20
AFTER = "after"


class MongoWriter:
    """Writes one collection."""

    def __init__(self, address: MongoAddress, plan: Plan, say: Say):
        """Asks nothing yet.

        Raises:
            UsageError: the address does not name one collection.
        """
        if len(address.collections) != 1 or address.collections[0] == META_INFO:
            raise UsageError(
                f"{address.name}: expected the one collection to write, as in "
                f"{address.place}?collections=NAME"
            )
        self.name = address.collections[0]
        self.plan = dict(plan)
        self.server = MongoServer(address)
        self._partial = f"_{self.name}.partial"
        self.rejected = f"_{self.name}.rejected"
        self._say = say
        self._written = 0

    def is_there(self, overwrite: bool) -> bool:
        """Whether the collection holds what is to be written.

        Raises:
            JaxLMError: it holds something else, which is not to be replaced.
        """
        if overwrite or not count_documents(self.server, self.name, {}):
            return False
        entry = self.server.ask(
            lambda database: database[META_INFO].find_one({"collection_name": self.name})
        )
        if (entry or {}).get("plan") == self.plan:
            return True
        raise JaxLMError(
            f"{self.server.address.name}: the collection holds other documents; --overwrite "
            "replaces them, or name another"
        )

    def begin(self) -> Progress:
        """What an earlier run left, or the beginning."""
        state = self.server.ask(lambda database: database[BUILDS].find_one({"_id": self.name}))
        if state and not (differ := plan_differences(state["plan"], self.plan)):
            progress = Progress.from_json(json.loads(state["progress"]))
            self._written = progress.counts.documents
            if not progress.complete:
                self._take_back()
            self._say(f"going on after {self._written:,} documents that an interrupted build left")
            return progress
        if state:
            self._say(f"discarding an unfinished upload in {self._partial}: {'; '.join(differ)}")
        progress = beginning()
        self.server.ask(lambda database: database[self._partial].drop())
        self.server.ask(lambda database: database[self.rejected].drop())
        self.server.ask(lambda database: database[self._partial].create_index(IDX, unique=True))
        self._keep(progress)
        return progress

    def room(self) -> int:
        """A collection takes any number of documents."""
        return UNLIMITED

    def encode(self, step: Step) -> Sequence[dict[str, Any]]:
        """The documents as records; counts their bytes as BSON."""
        import bson.errors

        first = self._written
        records = []
        for number, document in enumerate(step.documents, first):
            record = encode_record(*take_original(document), number)
            try:
                size = len(bson.encode(record))
            except (bson.errors.InvalidDocument, OverflowError, ValueError) as error:
                raise JaxLMError(f"{document.id}: MongoDB cannot hold it ({error})") from error
            if size > LARGEST_RECORD:
                raise JaxLMError(
                    f"{document.id}: {size:,} bytes as a record, MongoDB holds {LARGEST_RECORD:,}; "
                    "cut it, or build an SQLite store"
                )
            step.counts.stored_bytes += size
            records.append(record)
        return records

    def write(self, step: Step, encoded: Sequence[dict[str, Any]], progress: Progress) -> None:
        """Add a step, then the progress after it."""
        rejected = [{**record._asdict(), AFTER: self._written} for record in step.rejected]
        tried = False

        def question(database: Any) -> None:
            nonlocal tried
            if tried:  # the connection dropped: some of it may have arrived
                self._delete_after(database)
            tried = True
            if encoded:
                database[self._partial].insert_many([dict(record) for record in encoded])
            if rejected:
                database[self.rejected].insert_many([dict(record) for record in rejected])

        self.server.ask(question)
        self._keep(progress)
        self._written = progress.counts.documents

    def finish(self, progress: Progress) -> None:
        """Give the collection its name and its entry in ``meta_info``.

        Raises:
            JaxLMError: another process has written to the unfinished collection.
        """
        partial, name = self._partial, self.name
        known = self.server.ask(lambda database: database.list_collection_names())
        if partial in known:
            found = count_documents(self.server, partial, {})
            if found != progress.counts.documents:
                raise JaxLMError(
                    f"{self.server.address.place}: collection {partial!r} holds {found:,} "
                    f"documents, expected {progress.counts.documents:,}: another process writes "
                    "to it; drop it and build again, one process at a time"
                )
        entry = {"collection_name": name, "num_docs": progress.counts.documents, "plan": self.plan}

        def question(database: Any) -> None:
            if partial in database.list_collection_names():
                database[partial].rename(name, dropTarget=True)
            database[META_INFO].update_one({"collection_name": name}, {"$set": entry}, upsert=True)
            database[BUILDS].delete_one({"_id": name})

        self.server.ask(question)

    def close(self) -> None:
        """Close the connections."""
        self.server.close()

    def _keep(self, progress: Progress) -> None:
        state = {"plan": self.plan, "progress": json.dumps(progress.as_json())}
        self.server.ask(
            lambda database: database[BUILDS].replace_one({"_id": self.name}, state, upsert=True)
        )

    def _take_back(self) -> None:
        self.server.ask(self._delete_after)

    def _delete_after(self, database: Any) -> None:
        """Take away what a step left that is not known to be whole."""
        database[self._partial].delete_many({IDX: {"$gte": self._written}})
        database[self.rejected].delete_many({AFTER: {"$gte": self._written}})
