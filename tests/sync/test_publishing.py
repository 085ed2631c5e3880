"""Runners publish to a hub: one log, in which everything is recomputed, and nobody's work is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from knowing_protocol.records import Records
from support.changes import difference, edited
from support.cluster import Machine

from knowingd.errors import PeerError
from knowingd.federation import Published
from knowingd.store.peerstore import TokenRow
from knowingd.store.rows import Changes
from knowingd.sync.client import PeerClient
from knowingd.sync.tokens import new_token

REPO = "github.com/acme/shop"


Make = Callable[[str], Machine]


def token(hub: Machine, pattern: str = "github.com/acme/*", scope: str = "publish") -> str:
    made = new_token()
    hub.federation.peers.add_token(TokenRow(made.id, made.digest, scope, pattern, "runner", int(time.time())))
    return made.text


def publish(runner: Machine, hub: Machine, text: str, call: Any = None) -> Published:
    client = PeerClient(hub.url, b"", None, token=text)
    if call is not None:
        real = client.call
        client.call = lambda name, value: real(name, call(name, value))  # type: ignore[method-assign]
    try:
        return runner.federation.publish(client, runner.node.find(REPO + "@" + runner.federation.origin.hex()))
    finally:
        client.close()


def test_what_a_runner_publishes_is_in_the_hubs_log_with_its_submitter(machine: Make) -> None:
    hub, runner = machine("hub"), machine("runner")
    runner.add("acme/shop")
    hub.serve()
    text = token(hub)
    assert publish(runner, hub, text).entry == 0
    assert hub.roots(REPO) is not None
    (header,) = hub.node.store.headers()
    assert header.repository == REPO
    assert header.submitter.startswith("token ")
    with runner.node.lend(runner.node.find(REPO)) as store, store.read() as session:
        last = session.last_snapshot(finished=True)
    assert last is not None
    assert header.source == last.source_root
    assert publish(runner, hub, text).entry is None
    runner.edit(REPO)
    made = publish(runner, hub, text)
    assert (made.entry, made.attempts) == (1, 1)
    assert hub.node.store.size() == 2


def test_ten_runners_at_once_make_one_log_without_evidence(machine: Make) -> None:
    hub, first = machine("hub"), machine("first")
    first.add("acme/shop")
    hub.serve()
    text = token(hub)
    publish(first, hub, text)
    base = first.records[REPO]
    runners = [machine(f"runner{number}") for number in range(10)]
    for number, runner in enumerate(runners):
        runner.count = 100 * number
        runner.snapshot(REPO, Changes(0, base, Records()))
        runner.snapshot(REPO, difference(base, edited(base, REPO, Random(number))))
    done: list[Published] = []
    failed: list[BaseException] = []

    def run(runner: Machine) -> None:
        try:
            done.append(publish(runner, hub, text))
        except BaseException as error:  # noqa: BLE001 - the test says what it was
            failed.append(error)

    threads = [threading.Thread(target=run, args=(runner,)) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert sorted(one.entry for one in done if one.entry is not None) == list(range(1, 11))
    assert hub.node.store.size() == 11
    assert hub.federation.origins.evidence() == []
    watcher = machine("watcher")
    peer = watcher.join(hub, "github.com/acme/*")
    assert watcher.modes(peer) == {REPO: "full"}
    assert watcher.roots(REPO) == hub.roots(REPO)


def test_a_graph_that_does_not_lead_to_its_stated_root_is_refused(machine: Make) -> None:
    hub, runner = machine("hub"), machine("runner")
    runner.add("acme/shop")
    hub.serve()

    def lie(name: str, value: Any) -> Any:
        return {**value, "roots": [bytes(32), value["roots"][1]]} if name == "publish" else value

    with pytest.raises(PeerError) as caught:
        publish(runner, hub, token(hub), lie)
    assert caught.value.code == "root-mismatch"
    assert hub.node.store.size() == 0
    assert hub.node.store.roster() == []


def test_a_token_publishes_only_what_it_is_for(machine: Make) -> None:
    hub, runner = machine("hub"), machine("runner")
    runner.add("acme/shop")
    hub.serve()
    for text in (token(hub, "github.com/other/*"), token(hub, scope="read")):
        with pytest.raises(PeerError) as caught:
            publish(runner, hub, text)
        assert caught.value.code == "not-allowed"
    with pytest.raises(PeerError) as caught:
        publish(runner, hub, "knowing_00000000_nonsense")
    assert caught.value.code.startswith("token-")
    assert hub.node.store.size() == 0


def test_a_repository_that_was_removed_can_be_published_again(machine: Make) -> None:
    hub, runner = machine("hub"), machine("runner")
    runner.add("acme/shop")
    hub.serve()
    text = token(hub)
    publish(runner, hub, text)
    hub.node.remove(REPO)
    made = publish(runner, hub, text)
    assert made.entry == 2  # the withdrawal was the second entry
    assert hub.roots(REPO) is not None


def test_a_stale_base_is_refused_as_moved(machine: Make) -> None:
    hub, runner = machine("hub"), machine("runner")
    runner.add("acme/shop")
    hub.serve()
    text = token(hub)
    publish(runner, hub, text)
    runner.edit(REPO)
    asked: list[str] = []

    def old(name: str, value: Any) -> Any:
        asked.append(name)
        if name == "publish" and asked.count("publish") == 1:
            return {**value, "base": [0, 7, bytes(32)]}
        return value

    made = publish(runner, hub, text, old)
    assert (made.entry, made.attempts) == (1, 2)
