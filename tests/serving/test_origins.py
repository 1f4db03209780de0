"""Pages of other sites in the user's own browser, which may not use a server without a token."""

from collections.abc import Mapping

import pytest

from jax_lm.serving.options import ServeOptions
from jax_lm.serving.origins import check_host, check_site, host_name
from jax_lm.serving.refusals import Refused
from tests.serving.conftest import Running, Serve


def scope(headers: Mapping[str, str]) -> dict[str, object]:
    return {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:1", "[::1]:8000", "[::1]"]
)
def test_own_names(host: str) -> None:
    check_host(scope({"host": host}), ServeOptions())


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8000", "10.0.0.1", ""])
def test_names_of_others(host: str) -> None:
    with pytest.raises(
        Refused, match=r"this server is not called .*--allow-host, or a token"
    ) as no:
        check_host(scope({"host": host}), ServeOptions())
    assert no.value.status == 421


def test_names_that_were_given() -> None:
    check_host(scope({}), ServeOptions())
    check_host(scope({"host": "gpu7:80"}), ServeOptions(host="GPU7"))
    everywhere = ServeOptions(host="0.0.0.0", allow_host=("models.example",))
    for host in ("models.example", "10.0.0.1:8000", "[fe80::1]:8000"):
        check_host(scope({"host": host}), everywhere)
    with pytest.raises(Refused):
        check_host(scope({"host": "evil.example"}), everywhere)
    assert host_name("[::1]:80") == "::1"


def test_links_of_other_sites() -> None:
    for site in ("same-origin", "none"):
        check_site(scope({"sec-fetch-site": site}), ServeOptions())
    check_site(scope({}), ServeOptions())
    cross = {"sec-fetch-site": "cross-site"}
    check_site(scope(cross), ServeOptions(allow_origin=("*",)))
    origin = "https://a.example"
    asked, allowed = scope({**cross, "origin": origin}), ServeOptions(allow_origin=(origin,))
    check_site(asked, allowed)
    for headers, options in ((asked, ServeOptions()), (scope(cross), allowed)):
        with pytest.raises(Refused, match="a page of another site asks") as no:
            check_site(headers, options)
        assert no.value.status == 403


def test_a_server_without_a_token(server: Running) -> None:
    foreign = {"Host": "evil.example"}
    for path in ("/v1/models", "/generate?sentence=say", "/metrics", "/openapi.json"):
        answer = server.client.get(path, headers=foreign)
        assert answer.status_code == 421, path
    body = {"prompt": "say", "max_tokens": 1}
    assert server.client.post("/v1/completions", json=body, headers=foreign).status_code == 421
    assert server.client.get("/healthz", headers=foreign).status_code == 200
    picture = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    query = "/generate?sentence=say&max_new_tokens=1"
    answer = server.client.get(query, headers=picture)
    assert answer.status_code == 403
    assert "another site" in answer.json()["error"]["message"]
    assert server.client.get(query).status_code == 200


def test_a_server_with_a_token_has_any_name(serve: Serve) -> None:
    headers = {"Host": "models.example", "Authorization": "Bearer t"}
    assert serve(token="t").client.get("/v1/models", headers=headers).status_code == 200
