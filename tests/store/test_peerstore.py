"""Whom the node knows, what they may see, and what it holds of their histories."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol.history import origin_id
from knowing_protocol.keys import MAX_KEY_NOTES
from knowing_protocol.urls import canonical_url, matches

from knowingd.errors import KnowingError, NotFoundError, StoreError, UsageError
from knowingd.store import originstore, peerstore
from knowingd.store.addresses import node_url, repository_pattern
from knowingd.store.nodestore import NodeStore
from knowingd.store.originstore import AccessRow, EntryRow, OriginStore
from knowingd.store.peerstore import ACCEPTED, MAX_PENDING, PENDING, Grant, PeerStore, SyncState, TokenRow, best_grant
from knowingd.store.staging import Staging, remove_staging

NOW = 1_700_000_000
ORIGIN = b"o" * 32


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeStore]:
    store = NodeStore(tmp_path / "node.db")
    yield store
    store.close()


@pytest.fixture
def peers(node: NodeStore) -> PeerStore:
    return PeerStore(node.database)


@pytest.fixture
def origins(node: NodeStore) -> OriginStore:
    return OriginStore(node.database)


def refused(run: Callable[[], object]) -> str:
    with pytest.raises(KnowingError) as caught:
        run()
    return caught.value.code


# Peers


def test_a_peer_is_found_by_name_address_and_the_beginning_of_its_id(peers: PeerStore) -> None:
    hub = peers.add_peer(key(1), NOW, name="hub", url="https://Hub.acme.com:443/", fingerprint=b"f" * 32)
    laptop = peers.add_peer(key(2), NOW)
    assert hub.url == "https://hub.acme.com"
    assert hub.origin == origin_id(key(1))
    assert laptop.name == f"node-{laptop.origin.hex()[:8]}"
    for text in ("hub", "https://hub.acme.com/", hub.origin.hex()[:8], hub.origin.hex().upper()):
        assert peers.find(text) == hub
    assert peers.peers() == [hub, laptop]
    assert refused(lambda: peers.find("nobody")) == "not-found"
    assert refused(lambda: peers.find(hub.origin.hex()[:3])) == "not-found"  # too short to mean anybody


def test_whoever_may_be_meant_twice_is_asked_about(peers: PeerStore) -> None:
    for number in (1, 2):
        peers.add_peer(key(number), NOW, url="https://hub")
    assert [row.name for row in peers.peers()] == ["hub", "hub-2"]
    with pytest.raises(UsageError, match=r"may be any of hub \(.*hub-2 \(") as caught:
        peers.find("https://hub")
    assert caught.value.code == "ambiguous"


def test_names_are_unique_and_an_accepted_peer_takes_its_name_from_a_stranger(peers: PeerStore) -> None:
    peers.knock(key(1), NOW, name="hub")
    peers.knock(key(2), NOW, name="hub-2")
    real = peers.add_peer(key(3), NOW, name="hub")
    assert peers.find("hub") == real
    assert {row.name for row in peers.peers(PENDING)} == {"hub-2", "hub-3"}
    assert peers.knock(key(4), NOW, name="hub").name == "hub-4"


def test_a_stranger_cannot_call_itself_like_the_id_of_another(peers: PeerStore) -> None:
    real = peers.add_peer(key(1), NOW, name="real")
    stranger = peers.knock(key(2), NOW, name=real.origin.hex()[:8])
    assert stranger.name == f"node-{stranger.origin.hex()[:8]}"
    assert peers.find(real.origin.hex()[:8]) == real


@given(st.text(max_size=300), st.text(max_size=2000))
def test_what_a_stranger_says_of_itself_is_one_bounded_harmless_line(name: str, note: str) -> None:
    made = peerstore._name(name, ORIGIN)
    assert 0 < len(made) <= peerstore.MAX_NAME
    assert made.isascii()
    assert made.isprintable()
    line = peerstore._line(note, peerstore.MAX_NOTE)
    assert len(line) <= peerstore.MAX_NOTE
    assert not set(line) & set("\n\r\x1b\x00\u202e\u2066\u200f")
    line.encode()


def test_a_knock_changes_nothing_of_an_accepted_peer_but_when_it_was_seen(peers: PeerStore) -> None:
    before = peers.add_peer(key(1), NOW, name="hub", url="https://hub", fingerprint=b"f" * 32, note="ours")
    after = peers.knock(key(1), NOW + 5, name="evil", url="https://evil", note="let me in")
    assert after == before._replace(last_seen=NOW + 5)


def test_pending_peers_are_bounded_and_the_oldest_is_forgotten(peers: PeerStore) -> None:
    kept = peers.add_peer(key(0), NOW)
    for number in range(1, MAX_PENDING + 11):
        peers.knock(key(number), NOW + number)
    waiting = {row.origin for row in peers.peers(PENDING)}
    assert waiting == {origin_id(key(number)) for number in range(11, MAX_PENDING + 11)}
    assert peers.peers(ACCEPTED) == [kept]
    peers.knock(key(20), NOW + 5000, note="hello again")  # one that waits takes no second place
    assert len(peers.peers(PENDING)) == MAX_PENDING


def test_accepting_and_removing(peers: PeerStore) -> None:
    row = peers.knock(key(1), NOW, name="laptop", url="http://laptop:9999")
    assert row.state == PENDING
    assert peers.accept(row.id).state == ACCEPTED
    assert peers.peer(row.origin) == row._replace(state=ACCEPTED)
    peers.grant(row.id, "github.com/acme/*")
    peers.set_sync_state(SyncState(row.id, b"v", NOW, "", 0, NOW))
    assert peers.remove_peer(row.id)
    assert not peers.remove_peer(row.id)
    assert peers.grants() == []
    assert refused(lambda: peers.accept(row.id)) == "not-found"
    assert refused(lambda: peers.grant(row.id, "*")) == "not-found"


def test_adding_again_keeps_the_name_and_takes_the_new_address_without_the_old_pin(peers: PeerStore) -> None:
    first = peers.add_peer(key(1), NOW, name="hub", url="https://hub", fingerprint=b"f" * 32)
    assert peers.add_peer(key(1), NOW + 1) == first
    moved = peers.add_peer(key(1), NOW + 1, name="other", url="https://new")
    assert moved == first._replace(url="https://new", fingerprint=None)


def test_being_seen_is_written_once_a_minute(peers: PeerStore) -> None:
    row = peers.add_peer(key(1), NOW)
    for at, seen in ((0, 0), (59, 0), (60, 60), (10, 10)):  # the last: a clock that was set back
        peers.seen(row.id, NOW + at)
        assert peers.find(row.name).last_seen == NOW + seen


@pytest.mark.parametrize(
    "text",
    ["", "hub", "ftp://hub", "https://", "https://u:p@hub", "https://hub?x", "https://hub/#", "https://hub:x",
     "https://hub:99999", "https://a b", "https://hub//x", "https://-", "https://a..b", "https://ä.de", "https://[::1"],
)  # fmt: skip
def test_what_is_no_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        node_url(text)
    assert caught.value.code == "bad-address"
    assert "u:p" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("HTTPS://Hub.Acme.com:443/", "https://hub.acme.com"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://127.0.0.1:8080/Graph/", "http://127.0.0.1:8080/Graph"),
    ],
)
def test_an_address_has_one_spelling(text: str, one: str) -> None:
    assert node_url(text) == one == node_url(one)


# Grants


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("*", "*"),
        ("**", "*"),
        ("github.com/acme/*", "github.com/acme/*"),
        ("https://GitHub.com/Acme/*", "github.com/acme/*"),
        ("git@github.com:Acme/**", "github.com/acme/*"),
        ("https://github.com/Acme/Shop.git", "github.com/acme/shop"),
        ("*.acme.com/x?", "*.acme.com/x?"),
        ("git.acme.com/Team/*", "git.acme.com/Team/*"),
        ("*/shop", "*/shop"),
        ("local/*", "local/*"),
    ],
)
def test_a_pattern_has_one_spelling(text: str, one: str) -> None:
    assert repository_pattern(text) == one == repository_pattern(one)


@pytest.mark.parametrize("text", ["", " ", "a b/*", "ä/*", "/etc/*", "../*", "x" * 2000, "shop", "file:///x/*"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    assert refused(lambda: repository_pattern(text)) == "bad-pattern"


@given(st.text("ab/*?.:-@%4G", min_size=1, max_size=20))
def test_spelling_a_pattern_again_changes_nothing(text: str) -> None:
    try:
        one = repository_pattern(text)
    except UsageError:
        return
    assert repository_pattern(one) == one


def test_the_pattern_of_a_url_grants_that_repository(peers: PeerStore) -> None:
    row = peers.add_peer(key(1), NOW)
    for text in ("https://github.com/Acme/Shop.git", "git@git.acme.com:Team/x", "local/mine"):
        peers.grant(row.id, text)
        assert peers.granted(row.id, canonical_url(text))


def test_grants_and_their_end(peers: PeerStore) -> None:
    one, other = peers.add_peer(key(1), NOW), peers.add_peer(key(2), NOW)
    peers.grant(one.id, "github.com/acme/*")
    peers.grant(one.id, "github.com/acme/shop", relay=True)
    peers.grant(other.id, "*")
    assert peers.granted(one.id, "github.com/acme/a/b") == Grant(one.id, "github.com/acme/*", relay=False)
    assert peers.granted(one.id, "github.com/acme/shop") == Grant(one.id, "github.com/acme/shop", relay=True)
    assert peers.granted(one.id, "github.com/acmeister/x") is None
    assert peers.granted(one.id, "evil.com/github.com/acme/x") is None  # a pattern matches the whole
    assert peers.granted(99, "github.com/acme/shop") is None
    assert peers.grant(one.id, "GitHub.com/acme/shop").relay is False  # granting again decides anew
    assert len(peers.grants(one.id)) == 2
    assert [grant.pattern for grant in peers.revoke(one.id, "github.com/ACME/shop")] == ["github.com/acme/shop"]
    assert peers.revoke(one.id, "github.com/acme/shop") == []
    assert len(peers.revoke(one.id)) == 1
    assert peers.granted(one.id, "github.com/acme/shop") is None
    assert peers.grants() == [Grant(other.id, "*", relay=False)]


def test_whoever_waits_sees_nothing_even_with_a_grant(peers: PeerStore) -> None:
    row = peers.knock(key(1), NOW)
    peers.grant(row.id, "*")
    assert peers.granted(row.id, "github.com/acme/shop") is None
    peers.accept(row.id)
    assert peers.granted(row.id, "github.com/acme/shop") is not None


@given(st.lists(st.tuples(st.text("ab/*", min_size=1, max_size=6), st.booleans()), max_size=6), st.text("ab/"))
def test_a_grant_is_found_exactly_if_one_matches_and_relays_if_one_does(
    given_grants: list[tuple[str, bool]], url: str
) -> None:
    grants = [Grant(1, pattern, relay) for pattern, relay in given_grants]
    found = best_grant(grants, url)
    fitting = [grant for grant in grants if matches(grant.pattern, url)]
    assert (found in fitting) if fitting else (found is None)
    assert (found is not None and found.relay) == any(grant.relay for grant in fitting)


# Invitations


def test_an_invitation_lets_in_one_node_once_with_what_it_grants(peers: PeerStore) -> None:
    peers.add_invite(b"c" * 16, ["github.com/Acme/*"], relay=True, created=NOW, expires=NOW + 100)
    row = peers.redeem(b"c" * 16, key(1), NOW, name="laptop", url="http://laptop")
    assert row.state == ACCEPTED
    assert peers.grants() == [Grant(row.id, "github.com/acme/*", relay=True)]
    assert refused(lambda: peers.redeem(b"c" * 16, key(2), NOW)) == "invite-used"
    assert peers.peer(origin_id(key(2))) is None
    assert [invite.used_by for invite in peers.invites()] == [row.origin]


def test_coming_again_after_a_lost_answer_is_fine_but_brings_nothing_back(peers: PeerStore) -> None:
    peers.add_invite(b"c" * 16, ["*"], relay=False, created=NOW, expires=NOW + 100)
    row = peers.redeem(b"c" * 16, key(1), NOW)
    peers.revoke(row.id)
    assert peers.redeem(b"c" * 16, key(1), NOW + 1000).id == row.id
    assert peers.grants() == []
    peers.remove_peer(row.id)
    assert refused(lambda: peers.redeem(b"c" * 16, key(1), NOW)) == "invite-used"


def test_codes_that_are_unknown_or_late_let_nobody_in(peers: PeerStore) -> None:
    peers.add_invite(b"c" * 16, [], relay=False, created=NOW, expires=NOW + 100)
    assert refused(lambda: peers.redeem(b"d" * 16, key(1), NOW)) == "invite-unknown"
    assert refused(lambda: peers.redeem(b"c" * 16, key(1), NOW + 100)) == "invite-expired"
    assert peers.peers() == []
    assert refused(lambda: peers.add_invite(b"e" * 16, ["a b"], relay=False, created=0, expires=1)) == "bad-pattern"


def test_of_many_that_come_at_once_with_one_code_one_gets_in(peers: PeerStore) -> None:
    peers.add_invite(b"c" * 16, ["*"], relay=False, created=NOW, expires=NOW + 100)

    def come(number: int) -> str:
        try:
            return peers.redeem(b"c" * 16, key(number), NOW).state
        except UsageError as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(come, range(1, 17))) == ["accepted"] + ["invite-used"] * 15
    assert len(peers.peers()) == len(peers.grants()) == 1


def test_a_code_is_kept_nowhere(peers: PeerStore, node: NodeStore) -> None:
    code = b"the-secret-code!"
    peers.add_invite(code, [], relay=False, created=NOW, expires=NOW + 100)
    peers.redeem(code, key(1), NOW)
    assert all(code not in path.read_bytes() for path in node.database.path.parent.glob("node.db*"))


def test_invitations_that_ended_long_ago_are_forgotten(peers: PeerStore) -> None:
    peers.add_invite(b"a" * 16, [], relay=False, created=NOW, expires=NOW + 1)
    later = NOW + 2 + peerstore.INVITES_KEPT
    peers.add_invite(b"b" * 16, [], relay=False, created=later, expires=later + 1)
    assert len(peers.invites()) == 1


# Tokens and how syncing went


def test_tokens(peers: PeerStore) -> None:
    row = peers.add_token(TokenRow("0123abcd", b"h" * 32, "publish", "GitHub.com/Acme/*", "ci\x1b[31m", NOW, NOW + 9))
    assert row == TokenRow("0123abcd", b"h" * 32, "publish", "github.com/acme/*", "ci [31m", NOW, NOW + 9)
    assert peers.token("0123abcd") == row
    assert peers.token("ffffffff") is None
    peers.token_used("0123abcd", NOW + 1)
    ended = peers.revoke_token("0123abcd", NOW + 2)
    assert peers.tokens() == [ended] == [row._replace(last_used=NOW + 1, revoked=NOW + 2)]
    assert peers.revoke_token("0123abcd", NOW + 3) == ended  # the first end counts
    assert refused(lambda: peers.revoke_token("ffffffff", NOW)) == "not-found"
    assert refused(lambda: peers.add_token(row)) == "store"
    assert refused(lambda: peers.add_token(row._replace(id="1", scope="root"))) == "store"


def test_how_syncing_went(peers: PeerStore) -> None:
    row = peers.add_peer(key(1), NOW)
    assert peers.sync_state(row.id) == SyncState(row.id)
    state = SyncState(row.id, b"v" * 32, NOW, "connection refused", 3, NOW + 60)
    peers.set_sync_state(state)
    assert peers.sync_state(row.id) == state
    peers.remove_peer(row.id)
    peers.set_sync_state(state)  # a sync that ends after the peer was removed
    assert peers.sync_state(row.id) == SyncState(row.id)


# Histories of others


def entry(index: int, size: int = 10, header: str = "{}", url: str = "github.com/acme/shop") -> EntryRow:
    return EntryRow(ORIGIN, 0, index, url, "HEAD", header, size, b"p" * 64)


def test_headers_keep_their_content_and_may_get_a_newer_path(origins: OriginStore) -> None:
    origins.put_entries([entry(1), entry(4, url="github.com/acme/other")])
    origins.put_entries([entry(1, size=20)])
    assert origins.entry(ORIGIN, 0, 1) == entry(1, size=20)
    assert origins.head(ORIGIN, "github.com/acme/shop", "HEAD") == entry(1, size=20)
    assert origins.head(ORIGIN, "github.com/acme/none", "HEAD") is None
    assert refused(lambda: origins.put_entries([entry(1, header="[]")])) == "history-conflict"


def test_keys_of_origins(origins: OriginStore, peers: PeerStore) -> None:
    origin = origins.add_origin(key(1))
    assert origins.add_origin(key(1)) == origin == origin_id(key(1))
    assert origins.first_key(origin) == key(1)
    assert origins.first_key(peers.add_peer(key(2), NOW).origin) == key(2)
    assert origins.first_key(ORIGIN) is None


def test_key_notes_keep_their_order_and_are_bounded(origins: OriginStore) -> None:
    assert origins.add_key_notes(ORIGIN, ["b", "a", "b"]) == 2
    assert origins.add_key_notes(ORIGIN, ["b", "a", "c"]) == 1
    assert origins.key_notes(ORIGIN) == ["b", "a", "c"]
    assert refused(lambda: origins.add_key_notes(ORIGIN, map(str, range(MAX_KEY_NOTES)))) == "too-long"
    assert origins.key_notes(ORIGIN) == ["b", "a", "c"]
    assert origins.key_notes(b"x" * 32) == []


def test_epochs(origins: OriginStore) -> None:
    origins.add_epoch(ORIGIN, 1, "one")
    origins.add_epoch(ORIGIN, 1, "one")
    assert refused(lambda: origins.add_epoch(ORIGIN, 1, "another")) == "history-conflict"
    origins.add_epoch(ORIGIN, 2, "two")
    assert origins.epochs(ORIGIN) == [(1, "one"), (2, "two")]


def test_an_access_list_is_replaced_by_a_newer_one_only(origins: OriginStore) -> None:
    rows = [AccessRow(ORIGIN, "github.com/acme/shop", serial, f"{serial}") for serial in range(4)]
    assert [origins.put_access(rows[serial]) for serial in (2, 2, 1, 3)] == [True, False, False, True]
    assert origins.access(ORIGIN, "github.com/acme/shop") == rows[3]
    assert origins.access(ORIGIN, "github.com/acme/other") is None


def test_evidence_is_kept_once_and_bounded(origins: OriginStore) -> None:
    first = origins.add_evidence(ORIGIN, "fork", '{"a":1}', NOW)
    assert first is not None
    assert origins.add_evidence(ORIGIN, "fork", '{"a":1}', NOW + 1) == first
    assert origins.evidence_by_id(first.id) == first
    assert refused(lambda: origins.evidence_by_id(99)) == "not-found"
    kept = [origins.add_evidence(ORIGIN, "fork", f"{number}", NOW) for number in range(100)]
    assert sum(row is not None for row in kept) == originstore.MAX_EVIDENCE - 1
    assert origins.add_evidence(ORIGIN, "fork", '{"a":1}', NOW) == first  # what is known is found, also when full
    assert origins.add_evidence(b"x" * 32, "fork", "{}", NOW) is not None
    assert len(origins.evidence(b"x" * 32)) == 1
    assert len(origins.evidence()) == originstore.MAX_EVIDENCE + 1


def test_quarantine(origins: OriginStore) -> None:
    assert not origins.quarantined(ORIGIN, b"r")
    origins.quarantine(ORIGIN, b"r", "the root is another", NOW)
    assert origins.quarantined(ORIGIN, b"r")
    assert not origins.quarantined(b"x" * 32, b"r")  # another peer may have it right
    for number in range(originstore.MAX_QUARANTINE):
        origins.quarantine(ORIGIN, number.to_bytes(4, "big"), "x" * 10_000, NOW + 1 + number)
    rows = origins.quarantines()
    assert len(rows) == originstore.MAX_QUARANTINE
    assert not origins.quarantined(ORIGIN, b"r")  # the oldest makes room
    assert max(len(row.reason) for row in rows) == originstore.MAX_REASON
    assert origins.clear_quarantine(b"x" * 32) == 0
    assert origins.clear_quarantine() == originstore.MAX_QUARANTINE


def test_everything_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    store = NodeStore(tmp_path / "node.db")
    PeerStore(store.database).add_peer(key(1), NOW, name="hub")
    OriginStore(store.database).put_entries([entry(5)])
    copy = NodeStore(tmp_path / "node.db")  # another process
    assert PeerStore(copy.database).find("hub").first_key == key(1)
    assert OriginStore(copy.database).entry(ORIGIN, 0, 5) == entry(5)
    with copy.database.read() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    copy.close()
    store.close()


# Staging


def test_staging(tmp_path: Path) -> None:
    path = tmp_path / "staging" / "x.db"
    staging = Staging(path)
    staging.put("a", b"1" * 1000, b"p")
    staging.put("b", b"2", b"q")
    staging.put("b", b"22", b"p")
    assert staging.names() == {"a", "b"}
    assert (staging.get("b"), staging.peers(), staging.size()) == (b"22", {b"p"}, 1002)
    assert staging.get("c") is None
    staging.put("c", b"3", b"q")
    staging.drop(["c", "unknown"])
    assert staging.names() == {"a", "b"}
    staging.put("d", b"4", b"q")
    assert staging.peers() == {b"p", b"q"}
    staging.drop(["a", "b"])
    staging.close()
    again = Staging(path)
    assert again.names() == {"d"}
    again.remove()
    assert list(path.parent.iterdir()) == []


WRITER = """
import sys
from pathlib import Path
from knowingd.store.staging import Staging
staging = Staging(Path(sys.argv[1]))
for number in range(100_000):
    staging.put(str(number), bytes(200_000), b"p")
    print(number, flush=True)
"""


def test_a_kill_loses_at_most_the_chunk_under_way(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(20)]
        os.kill(process.pid, signal.SIGKILL)
        told += process.stdout.readlines()
    staging = Staging(path)
    assert {line.strip() for line in told if line.endswith("\n")} <= staging.names()
    assert staging.get("0") == bytes(200_000)
    staging.remove()


def test_a_damaged_staging_file_says_so_and_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(os.urandom(5000))
    with pytest.raises(StoreError):
        Staging(path)
    remove_staging(path)
    Staging(path).remove()


def test_only_the_store_sees_errors_of_sqlite(peers: PeerStore) -> None:
    with pytest.raises(StoreError) as caught:
        peers.add_token(TokenRow("1", b"", "none", "*", "", NOW))
    assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)
    with pytest.raises(NotFoundError):
        peers.find("x")
