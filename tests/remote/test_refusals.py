"""Buckets that are not there, that do not know who asks, or that are lost in the middle."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from jax_lm.checkpoints import list_steps
from jax_lm.cli.main import main
from jax_lm.errors import JaxLMError
from jax_lm.remote.directory import RemoteDirectory
from jax_lm.training.config import CheckpointConfig
from jax_lm.training.remote import kept_copy
from jax_lm.training.run_directory import RunDirectory, open_run_directory
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import wait_until
from tests.google_storage import running_server
from tests.remote.buckets import google_bucket, google_store
from tests.remote.test_copies_of_runs import write_checkpoint

RUN = "gs://kept/run"


class Refusing(BaseHTTPRequestHandler):
    """A store that knows nobody."""

    def refuse(self) -> None:
        told = "Anonymous caller does not have storage.objects.create access"
        body = json.dumps({"error": {"code": 403, "message": told}}).encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = refuse

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def refusing_store() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "cache"))


def test_a_bucket_that_is_not_there_is_told_before_training(
    google_storage: str, tiny_features: TinyFeatures, capsys: pytest.CaptureFixture[str]
) -> None:
    with google_bucket(google_storage, "there"):
        command = ["train", "shakespeare-char", "--data.train", tiny_features.train]
        assert main([*command, "--run-dir", "gs://not-there/run"]) == 1
        printed = capsys.readouterr()
        assert main(["evaluate", "gs://not-there/final", "text.txt"]) == 1
        told = capsys.readouterr().err
    assert printed.out == ""
    assert printed.err == (
        "jax-lm: gs://not-there/run: cannot be written: there is no such bucket: make it, or see "
        "whether its name is right\n"
    )
    assert told == ("jax-lm: gs://not-there/final: no such directory, or there is nothing in it\n")


def test_missing_credentials_are_told_with_what_gives_some(refusing_store: str) -> None:
    with google_store(refusing_store):
        directory = RemoteDirectory(RUN)
        for act in (directory.files, directory.refuse_unwritable, lambda: directory.read("x")):
            with pytest.raises(JaxLMError, match=f"{RUN}.* cannot be (read|written): ") as told:
                act()
            assert "Anonymous caller does not have storage.objects.create" in str(told.value)
            assert "gcloud auth application-default login, or GOOGLE_APP" in str(told.value)


def test_a_network_lost_in_the_middle_loses_no_training() -> None:
    said: list[str] = []
    run = open_run_directory(RUN)
    run.path.mkdir(parents=True)
    with ExitStack() as server:
        address = server.enter_context(running_server())
        ended = pytest.raises(JaxLMError, match=r"does not answer .*; the run is whole in")
        with google_bucket(address, "kept") as store:
            with kept(run, said):
                write_checkpoint(run.path, 10)
            assert stored_steps(store) == [10]
            with ended, kept(run, said) as changed:
                server.close()
                write_checkpoint(run.path, 20)
                changed()
                assert wait_until(lambda: len(said) > 1)
    assert said[1].startswith("not uploaded, tried again with the next checkpoint or evaluation: ")
    assert f"{RUN}: cannot be reached: 127.0.0.1 does not answer" in said[1]
    assert list_steps(run.checkpoints) == [10, 20]
    with running_server() as address, google_bucket(address, "kept") as store:
        with kept(run, said):
            pass
        assert stored_steps(store) == [20]
    assert said[-1] == f"uploaded  {RUN}"


def kept(run: RunDirectory, said: list[str]) -> AbstractContextManager[Callable[[], None]]:
    return kept_copy(run.path, run.url, CheckpointConfig(), resume="auto", say=said.append)


def stored_steps(store: Any) -> list[int]:
    store.invalidate_cache()
    found = store.glob(f"{RUN[5:]}/checkpoints/step-*/checksums.json")
    return sorted(int(name.split("/")[-2][5:]) for name in found)
