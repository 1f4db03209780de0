"""The OpenAPI document is true: what it says is accepted, answered and refused as it says."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jax_lm.serving.app import ROUTES
from jax_lm.serving.schemas.checking import checked
from tests.serving.conftest import Running


def test_every_address_is_described(server: Running) -> None:
    document = server.client.get("/openapi.json").json()
    described = {
        (method.upper(), path) for path, ends in document["paths"].items() for method in ends
    }
    served = {(method, path.replace(":path", "")) for method, path, _ in ROUTES}
    assert described == served - {("GET", "/page/{file}")}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "/v1/completions", {"prompt": "a", "logprobs": 0}),
        ("post", "/v1/completions", {"prompt": "a", "temperature": -1}),
        (
            "post",
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "a"}], "logprobs": True},
        ),
        ("post", "/generate", {"in_strs": ["a"]}),
        ("post", "/log_probs", {"in_strs": ["a"], "out_strs": ["b"]}),
        ("post", "/stop_stream", {"request_id": "a"}),
        ("get", "/generate?sentence=a", None),
        ("get", "/v1/models", None),
        ("get", "/v1/models/x", None),
        ("get", "/healthz", None),
    ],
)
def test_answers_are_as_described(server: Running, method: str, path: str, body: Any) -> None:
    answer = server.client.request(method, path, json=body)
    document = server.client.get("/openapi.json").json()
    described = path.partition("?")[0].replace("/x", "/{model}")
    responses = document["paths"][described][method]["responses"]
    schema = responses[str(answer.status_code)]["content"]["application/json"]["schema"]
    name = schema.get("$ref", "").rpartition("/")[2]
    checked(answer.json(), document["components"]["schemas"].get(name, schema))


@pytest.mark.slow
def test_schemathesis_finds_nothing(server: Running, tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "schemathesis"
    if not program.exists():
        pytest.skip("needs schemathesis")
    command = [program, "run", f"{server.url}/openapi.json", "--max-examples", "25"]
    command += ["--seed", "1", "--suppress-health-check", "all", "--no-color"]
    # No schema can say how many texts a prompt's length and the server's limits leave.
    command += ["--exclude-checks", "positive_data_acceptance"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert server.client.get("/healthz").json()["status"] == "ok"
