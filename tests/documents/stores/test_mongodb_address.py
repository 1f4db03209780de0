import pickle
from pathlib import Path

import pytest

from jax_lm.documents.stores.mongodb_address import parse_address
from jax_lm.errors import JaxLMError


@pytest.mark.parametrize(
    "written",
    [
        "mongodb://user:s3cret@127.0.0.1:1/db?collections=a&serverSelectionTimeoutMS=50",
        "mongodb://user:s3cret/x@127.0.0.1/db",
        "mongodb://user:s3cret?x@127.0.0.1/db",
        "mongodb://user:s3cret@x@127.0.0.1/db",
        "mongodb://user:s3cret@127.0.0.1/db?colections=a",
        "mongodb://user:s3cret@127.0.0.1",
        "mongodb://user:s3cret@/db",
        "mongodb://user:s3cret@127.0.0.1:99999/db?collections=a",
    ],
)
def test_a_password_is_never_repeated(run, written: str) -> None:
    code, out, err = run("info", written)
    assert code in (1, 2)
    assert "s3cret" not in out + err
    assert err.count("\n") == 1


def test_a_store_keeps_its_password_to_itself() -> None:
    address = parse_address("mongodb://me:p%2Fw@h:1/db?collections=a&authSource=admin")
    assert address.name == "mongodb://h:1/db?collections=a"
    assert address.uri == "mongodb://me:p%2Fw@h:1/db?authSource=admin"
    assert "p%2Fw" not in repr(address)
    assert address.without_secrets("no p/w, no p%2Fw") == "no ***, no ***"
    assert pickle.loads(pickle.dumps(address)) == address


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("mongodb://h/db?collections=a,a", "named twice"),
        ("mongodb://h/db?text=", "needs one value"),
        ("mongodb-config:nowhere.json", "no such file"),
    ],
)
def test_mistakes_in_the_address(written: str, message: str) -> None:
    with pytest.raises(JaxLMError, match=message):
        parse_address(written)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected a JSON object"),
        ("{", "not a JSON file"),
        ('{"MONGO_CONNECTION_STRING": "mongodb://h"}', "under 'MONGO_CONNECTION_DB'"),
        (
            '{"MONGO_CONNECTION_STRING": "mongodb://h", "MONGO_CONNECTION_DB": "d", '
            '"COLLECTIONS": "a"}',
            "expected a list of names",
        ),
        (
            '{"MONGO_CONNECTION_STRING": "mongodb://u:pw/x@h", "MONGO_CONNECTION_DB": "d"}',
            "cannot be read",
        ),
    ],
)
def test_mistakes_in_the_configuration(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(JaxLMError, match=message) as caught:
        parse_address(f"mongodb-config:{path}")
    assert "pw/x" not in str(caught.value)
