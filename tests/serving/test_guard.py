"""Only this machine is answered, and every answer has the headers that browsers obey."""

from __future__ import annotations

import asyncio

import pytest
from starlette.exceptions import HTTPException

from eigenformer.limits import DEFAULT_LIMITS
from eigenformer.serving import guard
from eigenformer.serving.guard import Guard, is_local


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8000",
        "localhost",
        "LocalHost:1",
        "[::1]",
        "[::1]:8000",
        "127.1.2.3:5",
    ],
)
def test_names_of_this_machine(host):
    assert is_local([host])


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
     "10.0.0.1", "0.0.0.0", "[::2]:80", "localhost:8000:1", "localhost:x", "127.0.0.1@evil", "::"],
)  # fmt: skip
def test_names_of_other_machines(host):
    assert not is_local([host])


def test_one_host_and_no_more():
    assert not is_local([])
    assert not is_local(["localhost", "localhost"])


def test_a_rebound_name_is_refused(connect):
    client = connect(host="evil.example:8000")
    for answer in (client.get("/"), client.post("/api/predict", json={"smiles": ["CC"]})):
        assert answer.status_code == 421
        assert "the server is for this machine" in answer.json()["detail"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert connect(local=False, host="evil.example").get("/").status_code == 200


def test_pages_of_other_sites_cannot_ask(client):
    site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    refused = client.get("/explain", params={"smiles": "CC"}, headers=site)
    assert (refused.status_code, refused.json()["detail"][:14]) == (403, "requests from ")
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert client.get("/api/model", headers=own).status_code == 200
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    before = client.options("/api/predict", headers=asked)
    assert before.status_code == 405
    assert "access-control-allow-origin" not in before.headers


@pytest.mark.parametrize("path", ["/", "/api/model", "/nowhere", "/api/picture?smiles=CC"])
def test_every_answer_has_the_headers(client, path):
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("length", ["-1", "x", "9" * 30, "１"])
def test_a_length_is_a_number(client, length):
    headers = {"Content-Length": length.encode(), "Content-Type": "text/csv"}
    answer = client.request("POST", "/api/table", headers=headers)
    assert (answer.status_code, answer.json()["detail"][:15]) == (400, "Content-Length:")


def test_a_request_that_does_not_arrive(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS_TO_SEND", 0.05)

    async def application(scope, receive, send):
        await receive()

    async def silence():
        await asyncio.sleep(60)

    scope = {"type": "http", "headers": [(b"host", b"localhost")]}
    with pytest.raises(HTTPException, match="not sent in time") as raised:
        asyncio.run(Guard(application, DEFAULT_LIMITS, True)(scope, silence, None))
    assert raised.value.status_code == 408
