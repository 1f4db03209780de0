import json
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.stores.mongodb import open_mongodb
from jax_lm.errors import JaxLMError, UsageError
from tests.documents.stores.mongo_server import CuttingProxy

START = Cursor(0, 0)


@pytest.fixture
def database(mongo_uri: str):
    pymongo = pytest.importorskip("pymongo")
    with pymongo.MongoClient(mongo_uri) as client:
        yield client.get_default_database()


def fill(collection, numbers, **fields: object) -> None:
    collection.insert_many({"idx": n, "form": f"text {n}"} | fields for n in numbers)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    records = [
        {"text": f"document {n} http://a.b/c blåbær", "meta": {"pile_set_name": "AB"[n % 2]}}
        for n in range(10_000)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_the_index_is_made_and_said(database, mongo_uri: str, capsys) -> None:
    fill(database.a, range(10))
    store = open_mongodb(f"{mongo_uri}?collections=a")
    assert "made an index on idx of collection 'a'" in capsys.readouterr().err
    assert "idx_1" in database.a.index_information()
    assert [document.text for _, document in store.read(START)] == [f"text {n}" for n in range(10)]
    open_mongodb(f"{mongo_uri}?collections=a")
    assert capsys.readouterr().err == ""


def test_which_field_is_the_text(database, mongo_uri: str) -> None:
    database.a.insert_many(
        [
            {"idx": 0, "form": "FORM", "filt_text": "clean"},
            {"idx": 1, "form": "only form"},
            {"idx": 2, "text": "text", "meta": {"pile_set_name": "P"}, "n": 1},
            {"idx": 3, "q": "question?", "a": "answer."},
        ]
    )
    store = open_mongodb(f"{mongo_uri}?collections=a")
    assert [store[n].text for n in range(3)] == ["clean", "only form", "text"]
    assert [store[n].subset for n in range(3)] == ["a", "a", "P"]
    assert store[2].metadata == {"meta": {"pile_set_name": "P"}, "n": 1}
    scored = [segment.text for segment in store[3].segments if segment.weight]
    context = "".join(segment.text for segment in store[3].segments if not segment.weight)
    assert "question?" in context
    assert "answer." in "".join(scored)
    chosen = open_mongodb(f"{mongo_uri}?collections=a&text=form&subset=form")
    assert (chosen[0].text, chosen[0].subset) == ("FORM", "FORM")
    with pytest.raises(BadRecord, match="collection 'a', idx:2: no field 'form'"):
        chosen[2]


def test_collections_that_meta_info_lists(database, mongo_uri: str, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        fill(database[name], range(3), subset=name)
    database.meta_info.insert_many(
        [{"collection_name": "b", "num_docs": 3}, {"collection_name": "a", "num_docs": 3}]
    )
    assert [part.name for part in open_mongodb(mongo_uri).parts] == ["a", "b"]
    config = tmp_path / "config.json"
    uri, _, name = mongo_uri.rpartition("/")
    content = {"MONGO_CONNECTION_STRING": uri, "MONGO_CONNECTION_DB": name}
    config.write_text(json.dumps(content | {"COLLECTIONS": ["c", "a"]}))
    store = open_mongodb(f"mongodb-config:{config}?text=form")
    assert [part.name for part in store.parts] == ["c", "a"]
    assert store.name == f"mongodb-config:{config}?text=form"
    config.write_text(json.dumps(content))
    assert len(open_mongodb(f"mongodb-config:{config}")) == 6


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0, 1, 3, 4], "missing: 2;"),
        ([*range(700), *range(701, 2000), 2001], "missing: 700, 2000;"),
        ([0, 1, 1, 2], "more than once: 1;"),
        ([1, 2, 3], "missing: 0;"),
        ([-1, 0, 1], "negative: -1;"),
        ([0, 0.5, 1], "not whole: 0.5;"),
        ([5_000_000_000], "missing: 0, 1, 2, 3, 4, ...;"),
        ([0, None, 1], "found no such field"),
        (["0", "1"], "found '0'"),
    ],
)
def test_gaps_and_duplicates_are_named(database, mongo_uri: str, numbers, message) -> None:
    fill(database.a, numbers)
    with pytest.raises(JaxLMError, match="collection 'a'") as caught:
        open_mongodb(f"{mongo_uri}?collections=a")
    assert message in str(caught.value)


def test_a_gap_that_a_duplicate_makes_up_for(database, mongo_uri: str, run) -> None:
    fill(database.a, [*range(500), 500, 500, *range(502, 1000)])
    store = open_mongodb(f"{mongo_uri}?collections=a")
    assert store[499].text == "text 499"
    for read in (lambda: store[500], lambda: store[501], lambda: list(store.read(START))):
        with pytest.raises(JaxLMError, match=r"missing: 501|more than once: 500"):
            read()
    code, _, err = run("verify", f"{mongo_uri}?collections=a")
    assert code == 1
    assert "missing: 501; more than once: 500" in err


def test_a_range_is_one_query(database, mongo_uri: str) -> None:
    import pymongo.monitoring

    fill(database.a, range(3000))
    fill(database.b, range(10))
    store = open_mongodb(f"{mongo_uri}?collections=a,b")

    class Counting(pymongo.monitoring.CommandListener):
        queries = 0

        def started(self, event) -> None:
            self.queries += event.command_name in ("find", "getMore", "aggregate", "count")

        def succeeded(self, event) -> None: ...
        def failed(self, event) -> None: ...

    counting = Counting()
    server = store.server
    server.close()
    server._defaults = lambda: {"event_listeners": [counting]}
    assert len(store.read_batch(range(1000, 2000))) == 1000
    assert counting.queries == 1
    assert [d.text for d in store.read_batch([3009, 5, 2999, 7])] == [
        "text 9",
        "text 5",
        "text 2999",
        "text 7",
    ]
    assert counting.queries == 3
    counting.queries = 0
    assert sum(1 for _ in store.read(START)) == 3010
    assert counting.queries <= 6


def test_dropped_connections_are_made_again(database, mongo_uri: str, proxy: CuttingProxy) -> None:
    fill(database.a, range(5000))
    uri = f"mongodb://{proxy.address}/{database.name}?collections=a"
    store = open_mongodb(f"{uri}&directConnection=true")
    proxy.cut_after_bytes = 40_000
    texts = []
    for index, (_, document) in enumerate(store.read(START)):
        texts.append(document.text)
        if index == 2500:
            proxy.cut()
    assert texts == [f"text {n}" for n in range(5000)]
    assert proxy.cut_after_bytes is None, "the connection was never cut in the middle"


def test_a_server_that_is_gone_is_one_sentence(database, proxy, monkeypatch) -> None:
    monkeypatch.setattr("jax_lm.documents.stores.mongodb_server.PATIENCE_SECONDS", 0.5)
    fill(database.a, range(10))
    uri = f"mongodb://{proxy.address}/{database.name}?collections=a"
    store = open_mongodb(f"{uri}&serverSelectionTimeoutMS=300&directConnection=true")
    proxy.close()
    began = time.monotonic()
    with pytest.raises(JaxLMError, match="does not answer") as caught:
        store[5]
    assert time.monotonic() - began < 10
    assert str(caught.value).startswith(f"mongodb://{proxy.address}/{database.name}: ")


def test_an_upload_goes_on_through_a_cut(database, corpus: Path, proxy: CuttingProxy, run) -> None:
    proxy.cut_after_bytes = 700
    uri = f"mongodb://{proxy.address}/{database.name}?collections=up&directConnection=true"
    code, out, err = run("build", corpus, "--output", uri, "--max-documents", 9000)
    assert (code, err) == (0, "")
    assert proxy.cut_after_bytes is None
    assert "documents         9,000" in out
    assert_uploaded(database, "up", 9000)


def assert_uploaded(database, name: str, count: int) -> None:
    found = list(database[name].find({}, {"_id": 0}).sort("idx", 1))
    assert [record["idx"] for record in found] == list(range(count))
    assert all(record["form"].startswith(f"document {n} ") for n, record in enumerate(found))
    entry = database.meta_info.find_one({"collection_name": name})
    assert entry["num_docs"] == count
    left = [one for one in database.list_collection_names() if one.startswith(f"_{name}")]
    assert left == []
    assert database["_jax_lm_builds"].count_documents({}) == 0


@pytest.mark.slow
def test_a_killed_upload_goes_on(database, corpus: Path, mongo_uri: str, run) -> None:
    small = (
        "import sys; from jax_lm.documents.stores import building; building.STEP_DOCUMENTS = 500; "
        "from jax_lm.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    flags = ["documents", "build", str(corpus), "--output", f"{mongo_uri}?collections=up"]
    for least in (1000, 3000):
        process = subprocess.Popen([sys.executable, "-c", small, *flags])
        deadline = time.monotonic() + 60
        while database["_up.partial"].estimated_document_count() < least:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
    assert "up" not in database.list_collection_names()
    code, out, _ = run(*flags[1:])
    assert code == 0
    assert "going on after" in out
    assert "subsets           " in out
    assert_uploaded(database, "up", 10_000)
    assert "holds these documents already" in run(*flags[1:])[1]
    code, _, err = run(*flags[1:], "--max-documents", 10)
    assert code == 1
    assert "--overwrite replaces" in err
    assert run(*flags[1:], "--max-documents", 10, "--overwrite")[0] == 0
    assert_uploaded(database, "up", 10)


def test_two_uploads_at_once_are_noticed(database, corpus: Path, mongo_uri: str, run, monkeypatch):
    from jax_lm.documents.stores.mongodb_writer import MongoWriter

    kept = MongoWriter._keep

    def lose_one(writer: MongoWriter, progress) -> None:
        kept(writer, progress)
        database["_up.partial"].delete_one({"idx": 3})

    monkeypatch.setattr(MongoWriter, "_keep", lose_one)
    flags = ["--max-documents", 10, "--output", f"{mongo_uri}?collections=up"]
    code, _, err = run("build", corpus, *flags)
    assert code == 1
    assert "holds 9 documents, expected 10: another process" in err
    assert "up" not in database.list_collection_names()


def test_what_mongodb_cannot_hold_is_named(database, tmp_path: Path, mongo_uri: str, run) -> None:
    output = f"{mongo_uri}?collections=up"
    (tmp_path / "long.txt").write_text("x" * (17 << 20))
    code, _, err = run("build", tmp_path / "long.txt", "--output", output)
    assert code == 1
    assert "long.txt: 17,825," in err
    assert "MongoDB holds 16,777,216" in err
    (tmp_path / "big.jsonl").write_text(json.dumps({"text": "x", "n\0": 1}))
    code, _, err = run("build", tmp_path / "big.jsonl", "--output", output)
    assert code == 1
    assert "big.jsonl@0: MongoDB cannot hold it" in err
    code, _, err = run("build", "stdlib", "--output", output, "--shard-documents", 5)
    assert (code, "--shard-documents" in err) == (2, True)


def test_cleaning_keeps_the_original(database, corpus: Path, mongo_uri: str, run) -> None:
    output = f"{mongo_uri}?collections=clean"
    flags = ["--remove-urls", "--max-documents", 5]
    assert run("build", corpus, *flags, "--output", output)[0] == 0
    record = database.clean.find_one({"idx": 3})
    assert record["form"] == "document 3 http://a.b/c blåbær"
    assert "http" not in record["filt_text"]
    store = open_mongodb(output)
    assert store[3].text == record["filt_text"]
    assert store[3].subset == "B"
    assert store[3].id.startswith("corpus.jsonl@")
    assert store[3].metadata == {"meta": {"pile_set_name": "B"}}
    assert "http" in open_mongodb(f"{output}&text=form")[3].text


def test_rejected_records_are_kept(database, tmp_path: Path, mongo_uri: str, run) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "a"}\nbroken\n{"text": "b"}\n{"txt": 1}\n')
    output = f"{mongo_uri}?collections=some"
    code, out, _ = run("build", path, "--on-bad-record", "skip", "--output", output)
    assert code == 0
    assert "left out          2 malformed" in out
    assert "collection _some.rejected" in out
    assert [record["line"] for record in database["_some.rejected"].find()] == [2, 4]


def test_info_show_and_verify_of_collections(database, mongo_uri: str, run) -> None:
    fill(database.a, range(3))
    fill(database.b, range(2))
    spec = f"{mongo_uri}?collections=b,a"
    out = run("info", spec)[1]
    assert "documents         5\n" in out
    assert "collections       b: 2 documents" in out
    assert "text 0" in run("show", spec, "-i", 2)[1]
    assert "2 collections, 5 documents" in run("verify", spec)[1]
    assert "there is no document 5" in run("show", spec, "-i", 5)[2]


def _count(store) -> int:
    return sum(1 for _ in store.read(START))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_that_were_forked_connect_for_themselves(database, mongo_uri: str) -> None:
    fill(database.a, range(50))
    store = open_mongodb(f"{mongo_uri}?collections=a")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_count, [store] * 4) == [50] * 4


def test_mistakes_in_names(database, mongo_uri: str, run) -> None:
    fill(database.news, range(3))
    with pytest.raises(JaxLMError, match="no collection 'new'; did you mean 'news'"):
        open_mongodb(f"{mongo_uri}?collections=new")
    with pytest.raises(JaxLMError, match="there are: news"):
        open_mongodb(mongo_uri)
    with pytest.raises(UsageError, match="colections"):
        open_mongodb(f"{mongo_uri}?colections=news")
    code, _, err = run("build", "stdlib", "--max-documents", 1, "--output", mongo_uri)
    assert code == 2
    assert "expected the one collection to write" in err
