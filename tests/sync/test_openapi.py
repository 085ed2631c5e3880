"""The OpenAPI document is true: it names every endpoint, and a real node answers as it says."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import pytest
from support.hub import QUESTIONS, Hub, Question, ask, get, name_of

from knowingd.http.app import Server
from knowingd.http.openapi import ENDPOINTS, document
from knowingd.http.queries import QUERIES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    place = tmp_path_factory.mktemp("hub")
    found = Hub(place / "home")
    found.index(place)
    found.serve()
    yield found
    found.close()


def test_the_written_document_is_up_to_date() -> None:
    """`make openapi` writes it."""
    written = (ROOT / "docs" / "openapi.json").read_text("utf-8")
    assert written == json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def test_the_document_names_every_endpoint_and_no_other(hub: Hub) -> None:
    server = Server(hub.federation)
    routes = {
        (route.method.lower(), route.resource.canonical)
        for route in server.application().router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    server.executor.shutdown()
    assert routes == {(one.method, one.path) for one in ENDPOINTS}


def test_a_node_serves_the_document(hub: Hub) -> None:
    assert json.loads(get(hub.url, "/v1/openapi.json").body) == document()


def test_references_inside_of_the_document_lead_somewhere() -> None:
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            found.extend(one for name, one in value.items() if name == "$ref")
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    look(document())
    assert found
    for reference in found:
        value: Any = document()
        for name in reference.removeprefix("#/").split("/"):
            value = value[name]


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_answers_and_refusals_have_the_documented_shape(hub: Hub, question: Question) -> None:
    found = ask(hub.url, question[0], hub.token("*"), **question[1])
    schema = shape(f"/v1/{question[0]}", found.status)
    jsonschema_rs.validate(schema, json.loads(found.body))
    assert found.headers["Content-Type"].startswith("application/json")


def shape(path: str, status: int) -> dict[str, Any]:
    """The schema of an answer, with everything that it refers to."""
    response = document()["paths"][path]["get"]["responses"][str(status)]
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    found: dict[str, Any] = response["content"]["application/json"]["schema"]
    return {**found, "components": document()["components"]}


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /v1/search?query=" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/repos HTTP/1.1\r\nHost: x\r\nAuthorization: " + b"x" * 40_000 + b"\r\n\r\n",
        b"GET /v1/repos HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100 + b"\r\n\r\n",
        b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"DELETE /v1/repos HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ],
    ids=["long-line", "long-field", "no-field", "tls", "nowhere", "method"],
)
def test_every_refusal_has_the_one_shape(hub: Hub, raw: bytes) -> None:
    parts = urlsplit(hub.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        connection.sendall(raw)
        data = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.split()[1].startswith(b"4")
    found = json.loads(body)
    assert found.keys() == {"error", "request"}
    assert found["error"].keys() == {"code", "message", "hint"}
    assert f"Knowing-Request: {found['request']}".encode() in head


def test_a_node_does_what_the_document_says(hub: Hub, tmp_path: Path) -> None:
    """Over a thousand requests made from the document, wrong ones too: no errors of ours, and answers as documented.

    A name that is well formed may still mean several symbols or none, so that a refusal of good data is no defect.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests"),
        "SCHEMATHESIS_HOOKS": "support.schemathesis_hooks",
    }
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{hub.url}/v1/openapi.json",
            "--header", f"Authorization: Bearer {hub.token('*')}",
            "--phases", "coverage,fuzzing", "--max-examples", "20", "--max-time", "20", "--generation-deterministic",
            "--no-shrink", "--no-color", "--warnings", "off", "--request-timeout", "20",
            "--exclude-checks", "positive_data_acceptance",
        ],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    requests = r'^knowing_http_requests_total\{path="(.*)",status="(\d+)"\} \d+$'
    seen = set(re.findall(requests, get(hub.url, "/metrics").body, re.MULTILINE))
    assert not [one for one in seen if one[1].startswith("5")]
    assert {query.path for query in QUERIES} <= {path for path, _ in seen}
    assert ("/v1/repos", "200") in seen
