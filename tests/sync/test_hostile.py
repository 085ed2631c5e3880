"""What hostile or broken peers send: refused with a reason, bounded in memory, and blamed on the right one."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard
from knowing_protocol.errors import KnowingError, MalformedError
from knowing_protocol.evidence import check_evidence
from support.cluster import Machine
from support.generated import Size

from knowingd import keys
from knowingd.errors import PeerError
from knowingd.store.staging import Staging
from knowingd.sync import chunks, serving
from knowingd.sync.chunks import piece_from
from knowingd.sync.descent import Descent, ask_from
from knowingd.sync.fetching import Fetch, Source, piece_list
from knowingd.sync.serving import Serving
from knowingd.sync.spaces import Side
from knowingd.sync.visible import TokenViewer
from knowingd.sync.wire import COMPRESSED, MEDIA_TYPE, decode, encode

Make = Callable[[str], Machine]


def test_a_small_body_of_many_lists_is_refused_before_it_fills_memory() -> None:
    plain = b"\xdd" + (16 << 20).to_bytes(4, "big") + b"\x90" * (16 << 20)
    body = zstandard.ZstdCompressor().compress(plain)
    assert len(body) < 4096
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MalformedError):
        decode(body, COMPRESSED)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kilobytes


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"", MEDIA_TYPE),
        (b"\xc1", MEDIA_TYPE),
        (b"\x91" * 5000, MEDIA_TYPE),
        (msgpack.packb(msgpack.ExtType(4, b"x")), MEDIA_TYPE),
        (b"\x93\x01", MEDIA_TYPE),
        (msgpack.packb({1: 2}), MEDIA_TYPE),
        (b"not zstd", COMPRESSED),
        (zstandard.ZstdCompressor().compress(b"\x90") + b"more", COMPRESSED),
        (b"\x90", "text/plain"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(b"\x90"), COMPRESSED),
    ],
)
def test_a_body_that_is_no_message_is_refused(body: bytes, media_type: str) -> None:
    with pytest.raises(MalformedError):
        decode(body, media_type)


@pytest.mark.parametrize(
    "answers",
    [
        [[[3.0, 0, b""]]],
        [[[True, 1, b""]]],
        [[[16, 1, b""]]],
        [[["a", "b"]]],
        [None],
        [[[1, 9, b""]]],
        [[[1, 0, b"short"]]],
        [],
        "x",
    ],
)
def test_a_descent_with_strange_answers_is_refused(machine: Make, answers: Any) -> None:
    alice = machine("alice")
    alice.add("acme/shop", 3, Size(20, 400, 2000))
    (row,) = alice.node.store.roster()
    with alice.node.lend(row) as store, store.read() as session:
        side = Side(session, b"n" * 16)
        descent = Descent(side, [bytes(8 * 14), [1, b""], [1, b""]])
        assert descent.next()
        with pytest.raises(MalformedError):
            descent.take(answers, [None, None])


@pytest.mark.parametrize(
    "ask",
    [
        [0, 0, "", 0, 0, 0, 1.0, b""],
        [0, 0, "", 0, 5, 99, 1, b""],
        [0, 7, "", 0, 0, 0, 1, b""],
        [2, 0, "", 0, 0, 0, 1, b""],
        [0, 0, "", 0, 500, 0, 1, b""],
        [0, 0, b"", 0, 0, 0, 1, b""],
        [0, 0, "", 0, 0, 0, 0, b"1234"],
    ],
)
def test_a_strange_question_is_refused(ask: list[Any]) -> None:
    with pytest.raises(MalformedError):
        ask_from(ask)


def test_pieces_that_were_split_are_kept_by_the_next_run(
    machine: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MAX_CHUNK", 4096)
    alice = machine("alice")
    alice.add("acme/shop", 3, Size(20, 400, 3000))
    (row,) = alice.node.store.roster()
    answers = Serving(alice.federation)
    viewer = TokenViewer(alice.federation, "*")
    about = {"repo": row.url, "ref": row.ref, "origin": row.origin, "entry": [0, 0]}
    todo = piece_list(answers.pieces(viewer, about))
    asked: list[int] = []

    def call(_: str, value: Any) -> Any:
        asked.append(len(value["pieces"]))
        if limit and len(asked) == limit:
            raise KeyboardInterrupt
        return msgpack.unpackb(encode_plain(answers.piece(viewer, value)))

    limit = 0
    whole = Staging(tmp_path / "whole.db")
    packs = Fetch(about, todo, whole, lambda _done, _total: None).run([Source(b"a", call)])
    total = len(asked)
    assert len(whole.names()) > len(todo)  # some were split
    limit, asked[:] = total - 2, []
    staging = Staging(tmp_path / "staging.db")
    with pytest.raises(KeyboardInterrupt):
        Fetch(about, todo, staging, lambda _done, _total: None).run([Source(b"a", call)])
    limit, asked[:] = 0, []
    again = Fetch(about, todo, staging, lambda _done, _total: None).run([Source(b"a", call)])
    assert sorted(map(msgpack.packb, again[0])) == sorted(map(msgpack.packb, packs[0]))
    assert len(asked) < total
    assert staging.names() == whole.names()
    whole.close()
    staging.close()


def encode_plain(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def test_pieces_of_another_peer_are_not_blamed_on_this_one(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    answers, viewer = Serving(alice.federation), TokenViewer(alice.federation, "*")
    (row,) = alice.node.store.roster()
    about = {"repo": row.url, "ref": row.ref, "origin": row.origin, "entry": [0, 0]}
    todo = piece_list(answers.pieces(viewer, about))
    replica = bob.node.store.register(shop, "HEAD", row.origin, path=None, local=False, now=1)
    staging = Staging(bob.federation.staging(replica))
    bad = encode(
        [[], [[], [], b""], [8, b""], [], [[], [], []], [[], [], [], b""], [[], [], []], [[], []], [], [[], b""]]
    )
    staging.put(f"{todo[0].root.hex()} {todo[0].name}", bad[0], b"m" * 32)
    staging.close()
    assert bob.modes(peer) == {shop: "full"}
    assert bob.federation.origins.quarantines() == []


def test_a_piece_must_consist_of_what_is_below_it() -> None:
    whole = piece_from([0, 0, "", 0, 4, 3, b""])
    assert piece_from([0, 0, "", 0, 8, 0x3F, b""]).is_below(whole)
    assert not piece_from([0, 0, "", 0, 8, 0x2F, b""]).is_below(whole)
    assert not piece_from([0, 2, "", 0, 8, 0x3F, b""]).is_below(whole)
    assert not whole.is_below(whole)
    assert chunks.MAX_CHUNK == 256 * 1024


def test_a_revoked_key_is_nobodys(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    bob.modes(peer)
    stolen = bob.federation.identity
    bob.node.rotate_key()
    bob.node.revoke_key(stolen.key.hex(), 0)
    assert bob.modes(peer) == {}
    client = bob.federation.client(peer)
    client.me = stolen
    with pytest.raises(PeerError) as caught:
        client.call("roster", {"view": None, "logs": []})
    client.close()
    assert caught.value.code == "unknown-key"


def test_the_end_of_a_right_to_relay_is_told(machine: Make) -> None:
    alice, bob, carol = machine("alice"), machine("bob"), machine("carol")
    shop = alice.add("acme/shop")
    alice.serve()
    from_alice = bob.join(alice, "github.com/acme/*", relay=True)
    carol.join(alice, "github.com/acme/*")
    bob.modes(from_alice)
    bob.serve()
    from_bob = carol.join(bob)
    assert carol.modes(from_bob) == {shop: "full"}
    known = next(one for one in alice.federation.peers.peers() if one.origin == bob.federation.origin)
    alice.federation.peers.grant(known.id, "github.com/acme/*", relay=False)
    assert eventually(lambda: carol.federation.sync(from_bob).outcomes == [] and not offered(bob, carol))


def offered(bob: Machine, carol: Machine) -> bool:
    from knowingd.sync.visible import offers

    known = bob.federation.peers.peer(carol.federation.origin)
    return bool(known is not None and offers(bob.federation, known))


def eventually(condition: Callable[[], bool], seconds: float = 15) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_evidence_verifies_on_another_machine(machine: Make, tmp_path: Path) -> None:
    from sync.test_nodes import forked

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
    twin.records, twin.count = alice.records, 77
    twin.edit(shop, 5)
    twin.edit(shop, 6)
    twin.serve(port=int(alice.url.rpartition(":")[2]))
    error = bob.sync(peer).error
    twin.close()
    assert isinstance(error, KnowingError)
    assert error.code == "log-fork"
    (kept,) = bob.federation.origins.evidence()
    shown = check_evidence(kept.body.encode(), keys.verify)
    assert (shown.kind, shown.before.size, shown.after.size) == ("fork", 2, 3)
    file = tmp_path / "evidence.json"
    file.write_text(kept.body)
    done = subprocess.run(
        [sys.executable, "-m", "knowing_protocol", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "signed two different histories of its log" in done.stdout
    file.write_text(kept.body.replace('"index":1', '"index":0'))
    done = subprocess.run(
        [sys.executable, "-m", "knowing_protocol", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
