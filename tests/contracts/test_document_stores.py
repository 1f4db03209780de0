"""What every store keeps to; a new store is a new row of STORES."""

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from jax_lm.documents.base import Cursor, DocumentRange, DocumentStore, RejectedRecord
from jax_lm.documents.stores.building import build
from jax_lm.documents.stores.making import StoreOptions, make_sqlite_store
from jax_lm.documents.stores.mongodb import open_mongodb
from jax_lm.documents.stores.mongodb_address import parse_address
from jax_lm.documents.stores.mongodb_writer import MongoWriter
from jax_lm.documents.stores.sqlite import open_sqlite
from jax_lm.types import Document, Segment
from tests.documents.stores.mongo_server import running_server

START = Cursor(0, 0)
ONE_FILE = StoreOptions()
TEXTS = [
    "plain\n",
    "",
    "CRLF\r\nstays\rso \x00 NUL",
    "blåbærsyltetøy e\u0301 안녕 👩‍👩‍👧",
    "\u2028 line\x85separators\x0b\x0c",
    "z" * 3000,
    *(f"document {i}\n" * i for i in range(1, 40)),
]
DOCUMENTS = [
    *(Document((Segment(text),), f"a@{index}") for index, text in enumerate(TEXTS)),
    Document((Segment("q", 0.0, markup=True), Segment("", 1.0), Segment("å", 0.5)), "b", "Books"),
    Document((Segment("", ids=np.arange(70_000, 70_005, dtype=np.int32)),), "c", "Ids"),
    Document((), "d", metadata={"url": "http://x", "nested": {"n": [1, 2.5, None, "å"]}}),
]


class Listed:
    """Documents in memory as a source."""

    def __init__(self, documents: list[Document]):
        self.documents = documents
        self.name = "listed"
        self.rejects: list[RejectedRecord] = []
        from collections import Counter

        self.dropped: Counter[str] = Counter()

    def fingerprint(self) -> str:
        return "0"

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        return [DocumentRange(START, Cursor(0, len(self.documents)))]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        last = len(self.documents) if stop is None else stop.offset
        for index in range(start.offset, last):
            yield Cursor(0, index + 1), self.documents[index]


def one_file(folder: Path, _: str) -> DocumentStore:
    make(folder / "corpus.db", DOCUMENTS)
    return open_sqlite(str(folder / "corpus.db"))


def files_by_count(folder: Path, _: str) -> DocumentStore:
    make(folder / "corpus", DOCUMENTS, StoreOptions(shard_documents=7))
    return open_sqlite(f"sqlite:{folder / 'corpus'}")


def files_by_glob(folder: Path, _: str) -> DocumentStore:
    for index, part in enumerate((DOCUMENTS[:5], [], DOCUMENTS[5:6], DOCUMENTS[6:])):
        make(folder / f"corpus-{index}.db", part)
    return open_sqlite(f"{folder}/corpus-*.db")


def one_collection(_: Path, uri: str) -> DocumentStore:
    upload(f"{uri}?collections=corpus", DOCUMENTS)
    return open_mongodb(f"{uri}?collections=corpus")


def collections_in_the_order_named(_: Path, uri: str) -> DocumentStore:
    for name, part in (("z", DOCUMENTS[:10]), ("a", DOCUMENTS[10:11]), ("m", DOCUMENTS[11:])):
        upload(f"{uri}?collections={name}", part)
    return open_mongodb(f"{uri}?collections=z,a,m")


def make(path: Path, documents: list[Document], options: StoreOptions = ONE_FILE) -> None:
    list(make_sqlite_store(Listed(documents), str(path), options, say=lambda line: None))


def upload(uri: str, documents: list[Document]) -> None:
    writer = MongoWriter(parse_address(uri), {"format": 1}, say=lambda line: None)
    build(Listed(documents), writer, watch=lambda progress: None)


STORES = [
    one_file,
    files_by_count,
    files_by_glob,
    one_collection,
    collections_in_the_order_named,
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as address:
        yield address


@pytest.fixture(scope="module", params=STORES, ids=lambda build: build.__name__)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    make_store: Callable[[Path, str], DocumentStore] = request.param
    name = make_store.__name__
    uri = ""
    if "collection" in name:
        uri = f"mongodb://{request.getfixturevalue('server')}/{name}"
    return make_store(tmp_path_factory.mktemp("store"), uri)


def same(found: Document, expected: Document) -> bool:
    ids = [
        (a.ids is None and b.ids is None) or np.array_equal(a.ids, b.ids)
        for a, b in zip(found.segments, expected.segments, strict=True)
    ]
    return found == expected and all(ids)


def test_documents_come_back_exactly_and_in_order(store: DocumentStore) -> None:
    read = [document for _, document in store.read(START)]
    assert len(read) == len(store) == len(DOCUMENTS)
    assert all(map(same, read, DOCUMENTS))


def test_every_index_gives_its_document(store: DocumentStore) -> None:
    assert all(same(store[index], DOCUMENTS[index]) for index in range(len(DOCUMENTS)))


@pytest.mark.parametrize("index", [-1, len(DOCUMENTS), 10**12])
def test_an_index_outside_is_an_index_error(store: DocumentStore, index: int) -> None:
    with pytest.raises(IndexError):
        store[index]
    with pytest.raises(IndexError):
        store.read_batch([0, index])


def test_batches_keep_the_order_asked_for(store: DocumentStore) -> None:
    indices = [44, 0, 5, 5, 12, 11, 10, 0, 47]
    assert store.read_batch(indices) == [DOCUMENTS[index] for index in indices]
    assert store.read_batch(range(3, 40)) == DOCUMENTS[3:40]
    assert store.read_batch([]) == []


def test_cursors_count_documents(store: DocumentStore) -> None:
    assert [cursor for cursor, _ in store.read(START)] == [
        Cursor(0, index) for index in range(1, len(DOCUMENTS) + 1)
    ]
    read = [document for _, document in store.read(Cursor(0, 9), Cursor(0, 13))]
    assert read == DOCUMENTS[9:13]
    assert list(store.read(Cursor(0, len(DOCUMENTS)))) == []


@pytest.mark.parametrize("target_bytes", [1, 500, 2000, 10**9])
def test_ranges_concatenated_are_the_whole(store: DocumentStore, target_bytes: int) -> None:
    ranges = store.ranges(target_bytes)
    joined = [doc for start, stop, _ in ranges for _, doc in store.read(start, stop)]
    assert joined == DOCUMENTS
    assert all(cut.start < cut.stop and not cut.follows for cut in ranges)
    assert store.ranges(target_bytes) == ranges
    if target_bytes == 2000:
        assert len(ranges) > 3


def test_threads_read_at_once(store: DocumentStore) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(DOCUMENTS)).tolist()
        try:
            assert store.read_batch(order) == [DOCUMENTS[index] for index in order]
            assert all(same(store[index], DOCUMENTS[index]) for index in order)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_reads_what_its_parent_has_open(store: DocumentStore) -> None:
    assert store[3] == DOCUMENTS[3]
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        fine = store[3] == DOCUMENTS[3] and store.read_batch([7, 6]) == DOCUMENTS[7:5:-1]
        os.write(write_end, b"fine" if fine else b"wrong")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read_end, 5) == b"fine"
    for end in (read_end, write_end):
        os.close(end)
    assert store[4] == DOCUMENTS[4]


def _texts(store: DocumentStore) -> list[str]:
    return [document.text for _, document in store.read(START)]


def test_a_store_travels_to_a_worker(store: DocumentStore) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_texts, (store,)) == [document.text for document in DOCUMENTS]
    copy = pickle.loads(pickle.dumps(store))
    assert copy.fingerprint() == store.fingerprint()
    assert copy.ranges(1000) == store.ranges(1000)
