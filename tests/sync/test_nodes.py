"""Nodes that are real processes, over real HTTP: first sync, deltas, descents, relays, refusals, and bad days."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from knowing_protocol.access import parse_access
from knowing_protocol.note import parse_note
from support.cluster import Machine
from support.generated import Size

from knowingd.config import Home
from knowingd.errors import KnowingError, PeerError
from knowingd.snapshot.backup import restore_backup
from knowingd.snapshot.fsck import check_repository, repair_repository
from knowingd.sync import pulling
from knowingd.sync.client import PeerClient

Make = Callable[[str], Machine]


def test_what_was_synced_is_the_same_and_syncing_again_moves_nothing(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop, bank = alice.add("acme/shop"), alice.add("acme/bank", 2)
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    assert bob.modes(peer) == {shop: "full", bank: "full"}
    assert bob.roots(shop) == alice.roots(shop)
    assert bob.roots(bank) == alice.roots(bank)
    assert bob.modes(peer) == {}
    alice.edit(shop)
    assert bob.modes(peer) == {shop: "delta", bank: "noop"}
    assert bob.roots(shop) == alice.roots(shop)
    row = next(row for row in bob.node.store.roster() if row.url == shop)
    assert not row.local
    with bob.node.lend(row) as store:
        assert check_repository(store).errors == []


def test_a_delta_takes_one_round_trip(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    alice.edit(shop)
    alice.edit(shop, 2)
    (outcome,) = bob.sync(peer).outcomes
    assert (outcome.mode, outcome.round_trips) == ("delta", 1)


def test_after_pruning_the_replica_descends(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    for seed in range(3):
        alice.edit(shop, seed)
    alice.node.gc(1)
    assert bob.modes(peer) == {shop: "descend"}
    assert bob.roots(shop) == alice.roots(shop)


def test_a_peer_sees_only_what_it_was_granted(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.add("secret/plans", 2)
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    assert bob.modes(peer) == {shop: "full"}
    client = bob.federation.client(peer)
    refusals = []
    for repo in ("github.com/secret/plans", "github.com/secret/nothing"):
        request = {"repo": repo, "ref": "HEAD", "origin": peer.origin, "base": None, "descend": 0}
        with pytest.raises(PeerError) as caught:
            client.call("pull", request)
        refusals.append((caught.value.code, caught.value.message, caught.value.hint))
    client.close()
    assert refusals[0] == refusals[1]
    assert refusals[0][0] == "not-found"


def test_a_change_of_what_is_hidden_is_nothing_new(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    alice.add("acme/shop")
    secret = alice.add("secret/plans", 2)
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    alice.edit(secret)
    assert bob.modes(peer) == {}


def test_a_revoked_grant_ends_the_sync_and_the_replica_stays(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    kept = bob.roots(shop)
    known = alice.federation.peers.peers()[0]
    ended, keeps = alice.federation.revoke(known, None)
    assert [one.pattern for one in ended] == ["github.com/acme/*"]
    assert keeps == [shop]
    alice.edit(shop)
    assert bob.modes(peer) == {}
    assert bob.roots(shop) == kept


def test_a_removed_peer_is_refused(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    alice.federation.peers.remove_peer(alice.federation.peers.peers()[0].id)
    error = bob.sync(peer).error
    assert isinstance(error, PeerError)


def test_an_invitation_lets_in_one_node_once(machine: Make) -> None:
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    alice.add("acme/shop")
    alice.serve()
    text = alice.federation.invite(["github.com/acme/*"])
    bob.federation.add_peer(text)
    with pytest.raises(PeerError) as caught:
        carol.federation.add_peer(text)
    assert caught.value.code == "invite-used"


def test_whoever_knocks_waits_for_a_human(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.federation.add_peer(alice.url)
    assert bob.sync(peer).error is not None
    (waiting,) = alice.federation.peers.peers("pending")
    assert waiting.origin == bob.federation.origin
    alice.federation.peers.accept(waiting.id)
    assert bob.modes(peer) == {}
    alice.federation.peers.grant(waiting.id, "github.com/acme/*")
    assert bob.modes(peer) == {shop: "full"}


def test_a_relay_gives_the_origins_graph_with_the_origins_signature(machine: Make) -> None:
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    shop = alice.add("acme/shop")
    alice.serve()
    from_alice = bob.join(alice, "github.com/acme/*", relay=True)
    carol.join(alice, "github.com/acme/shop")
    bob.modes(from_alice)
    bob.serve()
    from_bob = carol.join(bob)
    assert carol.modes(from_bob) == {shop: "full"}
    assert carol.roots(shop) == alice.roots(shop)
    (row,) = carol.node.store.roster()
    assert row.origin == alice.federation.origin
    alice.stop()
    assert carol.modes(from_bob) == {}


def test_a_relay_gives_nothing_to_whom_the_origin_does_not_name(machine: Make) -> None:
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    alice.add("acme/shop")
    alice.serve()
    bob.modes(bob.join(alice, "github.com/acme/*", relay=True))
    bob.serve()
    from_bob = carol.join(bob, "github.com/acme/*")
    assert carol.modes(from_bob) == {}


def test_a_replica_without_leave_to_relay_is_not_relayed(machine: Make) -> None:
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    alice.add("acme/shop")
    alice.serve()
    bob.modes(bob.join(alice, "github.com/acme/*"))
    carol.join(alice, "github.com/acme/*")
    bob.serve()
    assert carol.modes(carol.join(bob, "github.com/acme/*")) == {}


def test_an_access_list_does_not_name_its_readers(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    bob.modes(bob.join(alice, "github.com/acme/*", relay=True))
    kept = bob.federation.origins.access(alice.federation.origin, shop)
    assert kept is not None
    access = parse_access(parse_note(kept.note).text)
    assert access.allows(bob.federation.origin, bob.federation.origin)
    assert bob.federation.origin.hex() not in kept.note


def test_a_change_reaches_a_serving_peer_within_seconds(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    bob.join(alice, "github.com/acme/*")
    bob.serve()
    assert eventually(lambda: bob.roots(shop) == alice.roots(shop), 15)
    delays = []
    for seed in range(4):
        alice.edit(shop, seed)
        start = time.monotonic()
        assert eventually(lambda: bob.roots(shop) == alice.roots(shop), 15)
        delays.append(time.monotonic() - start)
    assert sorted(delays)[len(delays) // 2] < 3.0  # 1.5 s is asked on a quiet machine


def eventually(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_restarted_server_goes_on(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    port = int(alice.url.rpartition(":")[2])
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    assert alice.stop() == 0
    alice.edit(shop)
    error = bob.sync(peer).error
    assert error is not None
    assert error.code == "unreachable"
    alice.serve(port=port)
    assert bob.modes(peer) == {shop: "delta"}


def test_a_killed_first_sync_fetches_at_most_one_answer_again(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop", 3, Size(40, 2500, 14_000))
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    client = bob.federation.client(peer)
    real = client.call
    asked: list[str] = []

    def dies(name: str, value: Any) -> Any:
        asked.append(name)
        if asked.count("piece") == 2:
            raise KeyboardInterrupt
        return real(name, value)

    whole = count_pieces(bob, peer)
    bob.federation.client = lambda _: with_call(client, dies)  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyboardInterrupt):
        bob.sync(peer)
    asked.clear()
    later: list[str] = []
    again = PeerClient(alice.url, peer.origin, bob.federation.identity)
    bob.federation.client = lambda _: with_call(again, counting(again.call, later))  # type: ignore[method-assign,assignment]
    assert bob.modes(peer) == {shop: "full"}
    client.close()
    assert later.count("piece") <= whole - 1  # the one that was lost is fetched again, and no other
    assert bob.roots(shop) == alice.roots(shop)


def test_pieces_stay_when_the_head_moves_during_a_first_sync(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop", 3, Size(40, 2500, 14_000))
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    whole = count_pieces(bob, peer)
    client = bob.federation.client(peer)
    real = client.call
    asked: list[str] = []

    def moving(name: str, value: Any) -> Any:
        asked.append(name)
        if name == "piece" and asked.count("piece") == whole:
            alice.edit(shop)
        return real(name, value)

    bob.federation.client = lambda _: with_call(client, moving)  # type: ignore[method-assign,assignment]
    assert bob.modes(peer) == {shop: "full"}
    assert bob.roots(shop) == alice.roots(shop)
    assert asked.count("pieces") == 2
    assert asked.count("piece") < 2 * whole


def test_a_first_sync_goes_on_with_another_peer(machine: Make) -> None:
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    shop = alice.add("acme/shop", 3, Size(40, 2500, 14_000))
    alice.serve()
    from_alice = bob.join(alice, "github.com/acme/*", relay=True)
    first = carol.join(alice, "github.com/acme/*")
    bob.modes(from_alice)
    bob.serve()
    second = carol.join(bob)
    whole = count_pieces(carol, first)
    usual = carol.federation.client
    client = usual(first)
    real = client.call
    asked: list[str] = []

    def dies(name: str, value: Any) -> Any:
        asked.append(name)
        if asked.count("piece") == 2:
            raise KeyboardInterrupt
        return real(name, value)

    carol.federation.client = lambda _: with_call(client, dies)  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyboardInterrupt):
        carol.sync(first)
    alice.stop()
    later: list[str] = []
    again = usual(second)
    carol.federation.client = lambda _: with_call(again, counting(again.call, later))  # type: ignore[method-assign,assignment]
    assert carol.modes(second) == {shop: "full"}
    client.close()
    assert later.count("piece") <= whole - 1
    assert carol.roots(shop) == alice.roots(shop)


def with_call(client: PeerClient, call: Callable[[str, Any], Any]) -> PeerClient:
    client.call = call  # type: ignore[method-assign,assignment]
    return client


def counting(call: Callable[[str, Any], Any], names: list[str]) -> Callable[[str, Any], Any]:
    def counted(name: str, value: Any) -> Any:
        names.append(name)
        return call(name, value)

    return counted


def count_pieces(bob: Machine, peer: Any) -> int:
    """How many answers with pieces a whole first sync takes."""
    other = Machine(bob.home.parent / "other")
    names: list[str] = []
    client = bob.federation.client(peer)
    client.call = counting(client.call, names)  # type: ignore[method-assign,assignment]
    other.federation.client = lambda _: client  # type: ignore[method-assign,assignment]
    row = other.federation.peers.add_peer(peer.first_key, 1, url=peer.url)
    assert other.sync(row).error is None
    other.close()
    return names.count("piece")


def test_several_peers_share_a_first_sync(machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "WORTH_SHARING", 8)
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    shop = alice.add("acme/shop", 3, Size(40, 2500, 9000))
    alice.serve()
    from_alice = bob.join(alice, "github.com/acme/*", relay=True)
    bob.modes(from_alice)
    bob.serve()
    first = carol.join(alice, "github.com/acme/*")
    assert bob.modes(from_alice) == {shop: "noop"}  # the list of readers is new
    carol.join(bob)
    asked: dict[bytes, int] = {}
    usual = carol.federation.client

    def counted(peer: Any) -> PeerClient:
        client = usual(peer)
        names: list[str] = []
        real = client.call

        def call(name: str, value: Any) -> Any:
            names.append(name)
            asked[peer.origin] = asked.get(peer.origin, 0) + (name == "piece")
            return real(name, value)

        return with_call(client, call)

    carol.federation.client = counted  # type: ignore[method-assign]
    assert carol.modes(first) == {shop: "full"}
    assert carol.roots(shop) == alice.roots(shop)
    assert min(asked[alice.federation.origin], asked[bob.federation.origin]) > 0


def test_a_lying_helper_costs_time_and_nothing_else(machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "WORTH_SHARING", 8)
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    shop = alice.add("acme/shop", 3, Size(40, 2500, 9000))
    alice.serve()
    from_alice = bob.join(alice, "github.com/acme/*", relay=True)
    bob.modes(from_alice)
    bob.serve()
    first = carol.join(alice, "github.com/acme/*")
    bob.modes(from_alice)
    carol.join(bob)
    usual = carol.federation.client

    def lying(peer: Any) -> PeerClient:
        client = usual(peer)
        real = client.call

        def call(name: str, value: Any) -> Any:
            answer = real(name, value)
            if name == "piece" and peer.origin == bob.federation.origin:
                for pack in answer["packs"]:
                    if len(pack) == 2:
                        pack[1][4] = [column[1:] for column in pack[1][4]]
            return answer

        return with_call(client, call)

    carol.federation.client = lying  # type: ignore[method-assign]
    assert carol.modes(first) == {shop: "full"}
    assert carol.roots(shop) == alice.roots(shop)
    assert carol.federation.origins.quarantines() == []


def test_hidden_and_absent_take_the_same_time(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    alice.add("acme/shop")
    alice.add("secret/plans", 2)
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    client = bob.federation.client(peer)
    times: dict[str, list[float]] = {"plans": [], "nothing": []}
    for number in range(400):
        name = ("plans", "nothing")[number % 2]
        request = {
            "repo": f"github.com/secret/{name}",
            "ref": "HEAD",
            "origin": peer.origin,
            "base": None,
            "descend": 0,
        }
        start = time.perf_counter()
        while refusal_of(client, "pull", request) == "too-many-requests":
            time.sleep(0.2)
            start = time.perf_counter()
        times[name].append(time.perf_counter() - start)
    client.close()
    medians = sorted(sorted(found)[len(found) // 2] for found in times.values())
    assert medians[1] / medians[0] < 1.25  # 10% is asked of 2,000 on a quiet machine


def test_a_peer_that_sends_something_else_is_quarantined_for_that_root_alone(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop, bank = alice.add("acme/shop"), alice.add("acme/bank", 2)
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    client = bob.federation.client(peer)
    real = client.call

    def lies(name: str, value: Any) -> Any:
        answer = real(name, value)
        if name == "piece" and value["repo"] == shop:
            for pack in answer["packs"]:
                if pack[1][4][0]:
                    pack[1][4] = [column[1:] for column in pack[1][4]]
        return answer

    usual = bob.federation.client
    bob.federation.client = lambda _: with_call(client, lies)  # type: ignore[method-assign,assignment]
    outcomes = {one.repo: one for one in bob.sync(peer).outcomes}
    assert outcomes[shop].error is not None
    assert outcomes[bank].error is None
    assert bob.roots(shop) is None
    assert bob.roots(bank) == alice.roots(bank)
    bob.federation.client = usual  # type: ignore[method-assign]
    outcomes = {one.repo: one for one in bob.sync(peer).outcomes}
    error = outcomes[shop].error
    assert error is not None
    assert error.code == "quarantined"
    alice.edit(shop)
    assert bob.modes(peer)[shop] == "full"
    assert bob.roots(shop) == alice.roots(shop)


def test_a_forked_log_is_refused_and_kept_as_evidence(machine: Make, tmp_path: Path) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    target = tmp_path / "alice.tar"
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    alice.node.backup(target, with_key=True)
    alice.edit(shop)
    bob.modes(peer)
    alice.stop()
    twin = forked(tmp_path, target)
    twin.records = alice.records
    twin.count = 77
    twin.edit(shop, 5)
    twin.serve(port=int(alice.url.rpartition(":")[2]))
    error = bob.sync(peer).error
    assert error is not None
    assert error.code == "log-fork"
    assert error.message.startswith(f"SECURITY: the node {alice.federation.origin.hex()[:16]} signed two histories")
    (kept,) = bob.federation.origins.evidence()
    assert kept.origin == alice.federation.origin
    twin.close()


def forked(tmp_path: Path, backup: Path) -> Machine:
    """The same node from an older state, by somebody who ignores that it must not sign."""
    restore_backup(backup, Home(tmp_path / "twin"))
    found = Machine(tmp_path / "twin")
    found.node.store.database.write(
        lambda connection: connection.execute("DELETE FROM settings WHERE key = 'signing_held'").close()
    )
    return found


def test_a_rotated_key_is_followed(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    alice.node.rotate_key()
    alice.edit(shop)
    assert bob.modes(peer) == {shop: "delta"}
    bob.node.rotate_key()
    alice.edit(shop, 2)
    assert bob.modes(peer) == {shop: "delta"}


def test_a_new_epoch_is_followed(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    alice.node.begin_epoch()
    alice.edit(shop)
    modes = bob.modes(peer)
    assert modes[shop] in ("delta", "descend")
    assert bob.roots(shop) == alice.roots(shop)


def test_requests_for_another_node_and_replays_are_refused(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    client = bob.federation.client(peer)
    client.recipient = bytes(32)
    with pytest.raises(PeerError) as caught:
        client.call("roster", {"view": None, "logs": []})
    client.close()
    assert caught.value.code == "wrong-recipient"


@pytest.mark.parametrize("name", ["roster", "log", "pull", "descend", "pieces", "piece"])
def test_malformed_requests_of_a_peer_are_refused_and_nothing_breaks(machine: Make, name: str) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    client = bob.federation.client(peer)
    place = {"repo": shop, "ref": "HEAD", "origin": peer.origin}
    strange: list[Any] = [None, [], {}, {"x": 1}, 7, "x"]
    strange += [{**place, "entry": [0, 0]}, {**place, "base": [1], "descend": 0},
               {**place, "entry": [0, 0], "nonce": b"x" * 16, "asks": [[0, 0, "", 0, 0, 0, 9, b""]]},
               {**place, "entry": [0, 0], "nonce": b"x" * 16, "asks": [[0, 7, "no", 1, 60, 5, 1, b"12345678"]]},
               {**place, "entry": [0, 0], "pieces": [[0, 7, "no", 40, 0, 0, b""]]},
               {"view": b"x", "logs": [[b"x", -1, 2]]}, {"origin": bytes(32), "epoch": 0, "start": 0}]  # fmt: skip
    codes = [refusal_of(client, name, value) for value in strange]
    client.close()
    assert not {"failed", "not-a-node"}.intersection(codes)
    assert bob.modes(peer) == {shop: "full"}


@pytest.mark.parametrize("damage", ["DELETE FROM edges WHERE id % 7 = 0", "UPDATE declarations SET line = line + 1",
                                    "DELETE FROM aliases WHERE id % 5 = 0", "DELETE FROM facts"])  # fmt: skip
def test_damage_in_a_replica_is_fetched_again_and_nothing_else(machine: Make, damage: str) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop", 3, Size(20, 400, 3000))
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    (first,) = bob.sync(peer).outcomes
    (row,) = bob.node.store.roster()
    with bob.node.lend(row) as store:
        store.database.write(lambda connection: connection.execute(damage).close())
        assert check_repository(store).errors
    client = bob.federation.client(peer)
    bob.federation.client = lambda _: client  # type: ignore[method-assign,assignment]
    bob.federation.repair(row)
    with bob.node.lend(row) as store:
        assert check_repository(store).errors == []
    assert bob.roots(shop) == alice.roots(shop)
    assert client.meter.received < first.bytes_received


def test_a_delta_on_a_damaged_base_becomes_a_descent(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    (row,) = bob.node.store.roster()
    with bob.node.lend(row) as store:
        store.database.write(lambda connection: connection.execute("DELETE FROM edges WHERE id % 3 = 0").close())
        repair_repository(store)
    alice.edit(shop)
    assert bob.modes(peer) == {shop: "descend"}
    assert bob.roots(shop) == alice.roots(shop)
    with bob.node.lend(row) as store:
        assert check_repository(store).errors == []


def refusal_of(client: PeerClient, name: str, value: Any) -> str:
    try:
        client.call(name, value)
    except PeerError as error:
        return error.code
    return ""


def test_a_server_that_is_killed_leaves_everything_intact(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    thread = threading.Thread(target=lambda: bob.sync(peer))
    thread.start()
    alice.stop(signal.SIGKILL)
    thread.join()
    alice.serve(port=int(alice.url.rpartition(":")[2]))
    synced = bob.sync(peer)
    assert synced.error is None
    assert bob.roots(shop) == alice.roots(shop)


def test_only_a_node_that_can_sign_is_met(machine: Make) -> None:
    alice, bob, mallory = machine("alice"), machine("bob"), machine("mallory")
    mallory.serve()
    alice.serve()
    text = alice.federation.invite([])
    alice.stop()
    mallory.stop()
    mallory.serve(port=int(alice.url.rpartition(":")[2]))
    with pytest.raises(KnowingError) as caught:
        bob.federation.add_peer(text)
    assert caught.value.code == "wrong-node"
