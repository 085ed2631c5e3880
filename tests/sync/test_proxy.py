"""A reverse proxy is harmless: it may change the host and add fields, and what it must not change is refused."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.hub import Hub, get
from support.proxy import Proxy

from knowingd.errors import PeerError
from knowingd.sync.client import PeerClient

REPO = "github.com/acme/shop"
SOON = 8.0
"""Seconds: far below the time after which peers ask anyway, far above what an event takes."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[str], Hub]]:
    found: list[Hub] = []

    def make(name: str) -> Hub:
        found.append(Hub(tmp_path / name))
        return found[-1]

    yield make
    for one in found:
        one.close()


class Addresses(NamedTuple):
    """How a node behind a proxy is reached."""

    public: str
    direct: str


@pytest.fixture
def behind() -> Iterator[Callable[..., Addresses]]:
    found: list[Proxy] = []

    def make(node: Hub, broken: str = "") -> Addresses:
        """Serve a node behind a proxy."""
        port = _free_port()
        direct = f"http://127.0.0.1:{port}"
        proxy = Proxy(direct, broken)
        found.append(proxy)
        assert node.serve("--behind-proxy", "--public-url", proxy.url, port=port) == proxy.url
        return Addresses(proxy.url, direct)

    yield make
    for one in found:
        one.close()


Make = Callable[[str], Hub]
Behind = Callable[..., Addresses]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_nodes_sync_through_a_proxy_as_without_one(machine: Make, behind: Behind) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    behind(alice)
    peer = bob.join(alice, "github.com/acme/*")
    assert bob.modes(peer) == {shop: "full"}
    alice.edit(shop)
    (outcome,) = bob.sync(peer).outcomes
    assert (outcome.mode, outcome.round_trips) == ("delta", 1)
    assert bob.roots(shop) == alice.roots(shop)
    for seed in range(2):
        alice.edit(shop, seed)
    alice.node.gc(1)
    assert bob.modes(peer) == {shop: "descend"}
    assert bob.roots(shop) == alice.roots(shop)


def test_events_come_through_at_once(machine: Make, behind: Behind) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    behind(alice)
    peer = bob.join(alice, "github.com/acme/*")
    client = bob.federation.client(peer)
    try:
        with client.stream("/v1/events") as lines:
            told = (line for line in lines if line.startswith(b"data: "))
            first = next(told)
            start = time.monotonic()
            alice.edit(shop)
            assert next(told) != first
            assert time.monotonic() - start < SOON
    finally:
        client.close()


def test_a_node_that_runs_follows_another_one_through_a_proxy(machine: Make, behind: Behind) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    behind(alice)
    bob.join(alice, "github.com/acme/*")
    bob.serve()
    _until(lambda: bob.roots(shop) == alice.roots(shop))
    alice.edit(shop)
    _until(lambda: bob.roots(shop) == alice.roots(shop))


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_runners_publish_through_a_proxy(machine: Make, behind: Behind) -> None:
    hub, runner = machine("hub"), machine("runner")
    runner.add("acme/shop")
    client = PeerClient(behind(hub).public, b"", None, token=hub.token("github.com/acme/*", "publish"))
    try:
        assert runner.federation.publish(client, runner.node.find(REPO)).entry == 0
    finally:
        client.close()
    assert hub.roots(REPO) is not None


def test_questions_with_escapes_and_tokens_come_through(machine: Make, behind: Behind) -> None:
    hub = machine("hub")
    hub.add("acme/shop")
    public, direct = behind(hub)
    path = "/v1/search?query=a%2Bb%20c%2F%25&limit=3"
    text = hub.token("github.com/acme/*")
    asked, expected = get(public, path, text), get(direct, path, text)
    assert (asked.status, asked.body) == (expected.status, expected.body)
    assert asked.status == 200


def test_what_is_for_this_machine_alone_is_not_for_whoever_comes_through_a_proxy(machine: Make, behind: Behind) -> None:
    hub = machine("hub")
    public, direct = behind(hub)
    assert get(direct, "/metrics").status == 200
    refused = get(public, "/metrics")
    assert refused.status == 401
    assert json.loads(refused.body)["error"]["code"] == "token-missing"


@pytest.mark.parametrize(("broken", "code"), [("body", "digest-mismatch"), ("query", "signature-invalid")])
def test_what_a_proxy_must_not_change_is_refused_and_said(
    machine: Make, behind: Behind, broken: str, code: str
) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    behind(alice, broken)
    error = bob.sync(bob.join(alice, "github.com/acme/*")).error
    assert isinstance(error, PeerError)
    assert error.code == code
    assert "a proxy must pass" in error.hint
    assert bob.roots(shop) is None
