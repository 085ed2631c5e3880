"""A node among others: whom it knows, what it lets them see, and pulling what they let it see."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from knowing_protocol.encoding import text
from knowing_protocol.errors import MalformedError
from knowing_protocol.history import COMMIT, REF, node_name, origin_id, repository_url
from knowing_protocol.keys import KeyChain
from knowing_protocol.note import Note, check_note, parse_note, signature_by

from knowingd import keys
from knowingd.errors import KnowingError, NotFoundError, PeerError, StoreError, UsageError
from knowingd.node import Node
from knowingd.settings import Settings, read_settings
from knowingd.snapshot.fsck import repair_repository
from knowingd.snapshot.snapshots import Told, take
from knowingd.store.addresses import node_url, repository_pattern
from knowingd.store.interface import GraphStore
from knowingd.store.locks import DEFAULT_WAIT, exclusive
from knowingd.store.nodestore import NodeStore, RosterRow
from knowingd.store.originstore import OriginStore
from knowingd.store.peerstore import ACCEPTED, Grant, PeerRow, PeerStore, SyncState, TokenRow
from knowingd.sync.client import Identity, PeerClient
from knowingd.sync.delta import read_delta
from knowingd.sync.fetching import Source
from knowingd.sync.invites import Invite, invite_text, parse_invite
from knowingd.sync.logs import key_chain
from knowingd.sync.publishing import delta_between, delta_from_nothing
from knowingd.sync.pulling import Outcome, Progress, Puller, quiet
from knowingd.sync.serving import MovedError
from knowingd.sync.tokens import allows
from knowingd.sync.visible import offers
from knowingd.sync.wire import fields

FILE_GRANTS: Final = "file_grants"
"""The setting that remembers which grants came from the settings file."""
SERVING: Final = "serving"
"""The setting that says where a running `knowing serve` of this home can be reached."""
INVITED_FOR: Final = 7 * 86400
HELLO: Final = "knowing-hello/v1"
WAITING: Final = "waits to be accepted there"
PROTOCOLS: Final = (1,)
_LONGEST_WAIT: Final = 600
MAX_ATTEMPTS: Final = 30
"""How often publishing begins anew because others are faster."""


class NotAllowedError(KnowingError):
    """Somebody asks who may not."""

    code = "not-allowed"


class Published(NamedTuple):
    """What publishing a repository led to; `entry` is None where the hub had it already."""

    repo: str
    commit: str
    entry: int | None
    attempts: int
    bytes_sent: int
    snapshot: bytes


class Synced(NamedTuple):
    """What pulling from one peer led to."""

    peer: PeerRow
    outcomes: list[Outcome]
    error: KnowingError | None
    gone: tuple[str, ...] = ()
    """Repositories of the peer that are here and that it no longer offers."""


class Federation:
    """The peers of a node; a `Host` for serving and pulling."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.peers = PeerStore(node.store.database)
        self.origins = OriginStore(node.store.database)

    # What serving and pulling need

    @property
    def origin(self) -> bytes:
        """The node's id."""
        return self.node.keys.origin

    @property
    def first_key(self) -> bytes:
        """The key that the node is named after."""
        return self.node.keys.first_key

    @property
    def nodes(self) -> NodeStore:
        """Roster and log."""
        return self.node.store

    @contextmanager
    def graph(self, row: RosterRow) -> Iterator[GraphStore]:
        """The database of a repository, open for as long as it is needed."""
        with self.node.lend(row) as store:
            yield store

    @contextmanager
    def writing(self, row: RosterRow) -> Iterator[None]:
        """The right to write a repository's database."""
        with exclusive(self.node.home.lock(row.database), row.url, DEFAULT_WAIT):
            yield

    def staging(self, row: RosterRow) -> Path:
        """Where the pieces of a first transfer are kept."""
        directory = self.node.home.path / "staging"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return directory / row.database

    def sign_node(self, note: str) -> str:
        """A note that speaks for this node."""
        return self.node.keys.sign_node(note, self.node.key_chain.current)

    def signed_by_us(self, note: Note) -> bool:
        """Whether the key that signs now has signed a note."""
        return signature_by(note, node_name(self.origin), self.node.key_chain.current) is not None

    @property
    def identity(self) -> Identity:
        """How this node signs its requests."""
        key = self.node.key_chain.current
        return Identity(key, lambda message: self.node.keys.sign(key, message))

    # Hello: a node shows that it has its key

    def hello(self, nonce: str) -> dict[str, Any]:
        """What a node says of itself, signed over what the other side chose."""
        said = f"{HELLO}\norigin {self.origin.hex()}\nnonce {nonce}\nprotocols {' '.join(map(str, PROTOCOLS))}\n"
        return {
            "origin": self.origin.hex(),
            "first_key": self.first_key.hex(),
            "key_notes": self.nodes.key_notes(),
            "protocols": list(PROTOCOLS),
            "note": self.sign_node(said),
        }

    def meet(self, client: PeerClient, expected: bytes | None) -> KeyChain:
        """The keys of whoever answers, if it can sign with one of them; it must be `expected` if that is given."""
        nonce = secrets.token_hex(16)
        found = client.get(f"/v1/node?nonce={nonce}")
        try:
            first = bytes.fromhex(found["first_key"])
            chain = key_chain(first, found["key_notes"], keys.verify)
            note = parse_note(found["note"])
            protocols = [int(one) for one in found["protocols"]]
        except (KeyError, TypeError, ValueError) as error:
            raise PeerError(f"{client.url} does not answer like a knowing node", code="not-a-node") from error
        if expected is not None and origin_id(first) != expected:
            raise PeerError(
                f"{client.url} is the node {origin_id(first).hex()[:16]}, not {expected.hex()[:16]}",
                code="wrong-node",
                hint="ask whoever gave you the address for a new invitation",
            )
        check_note(note, node_name(chain.origin), chain.current, keys.verify)
        # The versions are inside what is signed: nobody in between can make two nodes speak an older one.
        said = f"{HELLO}\norigin {chain.origin.hex()}\nnonce {nonce}\nprotocols {' '.join(map(str, protocols))}\n"
        if note.text != said:
            raise PeerError(f"{client.url} did not sign what it says", code="downgrade")
        if not set(protocols) & set(PROTOCOLS):
            raise PeerError(
                f"{client.url} speaks versions {protocols} of the protocol, this node {list(PROTOCOLS)}",
                code="protocol-version",
                hint="update the older of the two",
            )
        return chain

    # Room

    def check_room(self, peer: bytes | None = None) -> None:
        """Refuse to take in more where the disk is nearly full, or a peer's repositories take too much of it."""
        settings = read_settings(self.node.home.path)
        free = shutil.disk_usage(self.node.home.path).free
        if free < settings.min_free:
            raise StoreError(
                f"only {free >> 20} MB of disk are left, so nothing more is taken in",
                code="low-disk",
                hint="make room, or set min_free_mb in knowing.toml; questions are still answered",
            )
        if peer is not None and settings.peer_disk:
            used = sum(
                path.stat().st_size
                for row in self.nodes.roster()
                if row.origin == peer and (path := self.node.home.repository(row.database)).exists()
            )
            if used > settings.peer_disk:
                raise StoreError(
                    f"the repositories of {peer.hex()[:16]} take {used >> 20} MB, more than they may",
                    code="peer-disk",
                    hint="raise peer_disk_mb in knowing.toml, or `knowing remove --purge` some",
                )

    def apply_grants(self, settings: Settings) -> None:
        """Give the grants that the settings file names, and end those that it named before and no longer does."""
        wanted = set()
        before = {tuple(one) for one in json.loads(self.nodes.setting(FILE_GRANTS, "[]"))}
        by_hand = {(one.peer, one.pattern) for one in self.peers.grants()} - before
        for one in settings.grants:
            try:
                peer = self.peers.find(one.peer)
            except KnowingError:
                continue  # not a peer yet; looked at again when the file or the peers change
            if (peer.id, repository_pattern(one.pattern)) in by_hand:
                continue  # it was there before the file spoke of it, and stays when the file no longer does
            made = self.peers.grant(peer.id, one.pattern, relay=one.relay)
            wanted.add((peer.id, made.pattern))
        for peer_id, pattern in before - wanted:
            self.peers.revoke(peer_id, pattern)
        if wanted != before:
            self.nodes.set_setting(FILE_GRANTS, json.dumps(sorted(wanted)))

    def status(self) -> dict[str, Any]:
        """The node at a glance."""
        serving, _, pin = self.nodes.setting(SERVING).partition(" ")
        return {
            "node": self.origin.hex(),
            "home": str(self.node.home.path),
            "serving": serving or None,
            "tls_fingerprint": pin or None,
            "held": self.nodes.held() or None,
            "log": {"epoch": self.nodes.epoch, "size": self.nodes.size()},
            "repos": self.node.repositories(),
            "peers": [self.peer_status(row) for row in self.peers.peers()],
            "evidence": len(self.origins.evidence()),
            "quarantine": [
                {"peer": one.peer_origin.hex(), "root": one.root.hex(), "reason": one.reason, "at": one.at}
                for one in self.origins.quarantines()
            ],
        }

    def peer_status(self, row: PeerRow) -> dict[str, Any]:
        """A peer at a glance."""
        state = self.peers.sync_state(row.id)
        return {
            "peer": row.name,
            "origin": row.origin.hex(),
            "url": row.url,
            "state": row.state,
            "grants": [{"pattern": one.pattern, "relay": one.relay} for one in self.peers.grants(row.id)],
            "last_seen": row.last_seen,
            "last_sync": state.last_ok,
            "last_error": state.last_error,
            "failures": state.failures,
        }

    # Peers

    def address(self) -> tuple[str, bytes | None]:
        """Where this node can be reached, and the fingerprint of its certificate if it has one of its own."""
        told = self.nodes.setting(SERVING)
        if not told:
            raise UsageError(
                "this node is not running, so nobody could come with an invitation",
                code="not-serving",
                hint="start `knowing serve` first",
            )
        url, _, pin = told.partition(" ")
        return url, bytes.fromhex(pin) if pin else None

    def invite(self, patterns: list[str], *, relay: bool = False) -> str:
        """One line that lets one node in, once."""
        url, pin = self.address()
        code = secrets.token_bytes(16)
        now = int(time.time())
        self.peers.add_invite(code, patterns, relay=relay, created=now, expires=now + INVITED_FOR)
        return invite_text(Invite(url, self.first_key, pin, code))

    def add_peer(self, address: str, *, name: str = "") -> PeerRow:
        """Add a peer by its invitation, or knock at its address; the peer as it is known from here on."""
        invite = parse_invite(address) if address.startswith("knowing-invite") else None
        url = invite.url if invite is not None else node_url(address)
        client = PeerClient(url, invite.origin if invite is not None else b"", None, invite.tls if invite else None)
        try:
            waiting = False
            chain = self.meet(client, invite.origin if invite is not None else None)
            if chain.origin == self.origin:
                raise UsageError("that is this node itself", code="self")
            client.recipient, client.me = chain.origin, self.identity
            about = {"first_key": self.first_key, "key_notes": self.nodes.key_notes(), "url": self._own_url()}
            if invite is not None:
                client.call("join", {**about, "code": invite.code})
            else:
                answer = client.call("knock", about)
                waiting = not isinstance(answer, dict) or answer.get("state") != ACCEPTED
        finally:
            client.close()
        note = WAITING if waiting else ""
        row = self.peers.add_peer(
            chain.keys[0], int(time.time()), name=name, url=url, fingerprint=invite.tls if invite else None, note=note
        )
        self.origins.add_origin(chain.keys[0])
        return row

    def _own_url(self) -> str:
        return self.nodes.setting(SERVING).partition(" ")[0]

    def revoke(self, peer: PeerRow, pattern: str | None) -> tuple[list[Grant], list[str]]:
        """End grants; which, and the repositories that the peer has seen and keeps."""
        row = self.peers.find(peer.name)
        before = {place[0] for place in offers(self, row)}
        ended = self.peers.revoke(peer.id, pattern)
        if not ended:
            what = f"{peer.name} has no grant {pattern!r}" if pattern else f"{peer.name} has no grants"
            raise NotFoundError(what, hint="`knowing peer list` shows them")
        after = {place[0] for place in offers(self, row)}
        return ended, sorted(before - after)

    # Pulling

    def client(self, peer: PeerRow) -> PeerClient:
        """A connection to a peer, as this node."""
        if peer.url is None:
            raise PeerError(
                f"{peer.name} has no address", code="no-address", hint="it pulls from here; add it by an invitation"
            )
        return PeerClient(peer.url, peer.origin, self.identity, peer.fingerprint)

    def sync(self, peer: PeerRow, pattern: str | None = None, progress: Progress = quiet) -> Synced:
        """Pull what a peer offers; whatever goes wrong is part of the answer."""
        state = self.peers.sync_state(peer.id)
        now = int(time.time())
        try:
            client = self.client(peer)
            helpers: list[PeerClient] = []

            def others() -> list[Source]:
                """The other peers, each over a connection of its own."""
                helpers.extend(self.client(one) for one in self.syncable() if one.id != peer.id)
                return [Source(one.recipient, one.call) for one in helpers]

            try:
                puller = Puller(self, peer, client.call, client.meter, keys.verify, progress, others)
                pulled = puller.sync(pattern, state.view)
            except PeerError as error:
                if error.code != "unknown-key" or not self._show_keys(client):
                    raise
                pulled = puller.sync(pattern, state.view)
            finally:
                for one in (client, *helpers):
                    one.close()
        except KnowingError as error:
            failures = state.failures + 1
            self.peers.set_sync_state(
                state._replace(last_error=error.message, failures=failures, next_attempt=now + int(back_off(failures)))
            )
            return Synced(peer, [], error)
        failed = [one.error for one in pulled.outcomes if one.error is not None]
        self.peers.set_sync_state(
            SyncState(
                peer.id,
                pulled.view if pattern is None else state.view,
                int(time.time()),
                failed[0].message if failed else "",
                0,
                0,
            )
        )
        self.peers.seen(peer.id, int(time.time()))
        return Synced(peer, pulled.outcomes, None, tuple(pulled.gone))

    def repair(self, row: RosterRow) -> str:
        """Make a damaged replica whole from a peer that has it; the peer's name."""
        with self.writing(row), self.graph(row) as store:
            repair_repository(store, own_up=True)
        last: KnowingError = PeerError(f"no peer offers {row.url}", code="no-peers", hint="add the one it came from")
        for peer in self.syncable():
            client = self.client(peer)
            try:
                Puller(self, peer, client.call, client.meter, keys.verify).repair(row)
            except KnowingError as error:
                last = error
                continue
            finally:
                client.close()
            return peer.name
        raise last

    # Publishing

    def take_published(self, token: TokenRow, request: Any) -> dict[str, Any]:
        """Append a graph that a runner made to this node's log, if it is made on top of what the log has."""
        repo, ref, base, roots, told, delta = fields(
            request, repo=str, ref=str, base=(list, type(None)), roots=list, told=list, delta=list
        )
        url = repository_url(repo, "the repository")
        self.check_room()
        if not allows(token, "publish", url):
            raise NotAllowedError(f"the token {token.id} does not publish {url}", hint="make one with a fitting --repo")
        source, overlay, stated = _stated(roots, told, f"token {token.id} {token.name}".strip())
        known = {(row.url, row.ref, row.origin): row for row in self.nodes.roster()}
        before = known.get((url, ref, self.origin))
        if before is not None and before.path is not None:
            raise NotAllowedError(f"{url} is indexed on this node itself", hint="`knowing remove` it there first")
        now = int(time.time())
        row = before or self.nodes.register(url, REF(ref, "the ref"), self.origin, path=None, local=True, now=now)
        with self.writing(row):
            try:
                if base is None and self.nodes.head(url, ref) is None:
                    self.node.purge(row)  # what was withdrawn is not what a first publication stands on
                with self.graph(row) as store:
                    with store.read() as session:
                        head = session.last_snapshot(finished=True)
                        here = None if head is None else [head.epoch, head.log_index, head.source_root]
                        if here != base:
                            raise MovedError("another runner was faster", hint="take its state and try again")
                        changes = read_delta(session, delta)
                    header = take(
                        store, self.nodes, self.node.origin, changes, stated, now, expected=(source, overlay)
                    )  # fmt: skip
            except KnowingError:
                if before is None and self.nodes.head(url, ref) is None:  # nobody else published it meanwhile
                    self.nodes.unregister(row, now)
                raise
            # Again, since another first publication that failed meanwhile may have taken it off the roster.
            self.nodes.register(url, ref, self.origin, path=None, local=True, now=now)
        return {"index": None if header is None else header.index}

    def publish(self, client: PeerClient, row: RosterRow, progress: Progress = quiet) -> Published:
        """Append the newest snapshot of one of this node's repositories to a hub's log."""
        chain = self.meet(client, None)
        client.recipient = chain.origin
        hub = PeerRow(0, chain.origin, client.url, client.url, chain.keys[0], None, ACCEPTED, "", 0, None)
        with self.graph(row) as store, store.read() as session:
            last = session.last_snapshot(finished=True)
            if last is None:
                raise NotFoundError(f"{row.url} has no snapshot yet", hint="`knowing index` takes one")
            for attempt in range(1, MAX_ATTEMPTS + 1):
                progress(row.url, "discovering", attempt - 1, 0)
                base = self._hub_state(client, hub, row, progress)
                start = client.meter.sent
                if base is None:
                    here, delta = None, delta_from_nothing(session)
                else:
                    with self.graph(base) as theirs, theirs.read() as before:
                        head = before.last_snapshot(finished=True)
                        assert head is not None
                        here = [head.epoch, head.log_index, head.source_root]
                        if (head.commit, head.source_root) == (last.commit, last.source_root):
                            return Published(row.url, last.commit, None, attempt, 0, last.source_root)
                        delta = delta_between(before, session)
                request = {
                    "repo": row.url,
                    "ref": row.ref,
                    "base": here,
                    "roots": [last.source_root, last.overlay_root],
                    "told": [last.commit, last.branch, last.extractor],
                    "delta": delta,
                }
                try:
                    progress(row.url, "transferring", 0, 0)
                    answer = client.call("publish", request)
                except PeerError as error:
                    if error.code != "moved":
                        raise
                    time.sleep(back_off(0) * attempt / 10)
                    continue
                index = answer.get("index") if isinstance(answer, dict) else None
                return Published(row.url, last.commit, index, attempt, client.meter.sent - start, last.source_root)
        raise PeerError(f"{client.url} moves faster than {row.url} can be published", hint="try again later")

    def _hub_state(self, client: PeerClient, hub: PeerRow, row: RosterRow, progress: Progress) -> RosterRow | None:
        """The hub's state of a repository, brought up to date here; None where it has none."""
        pulled = Puller(self, hub, client.call, client.meter, keys.verify, progress).sync(row.url)
        for outcome in pulled.outcomes:
            if outcome.error is not None:
                raise outcome.error
        places = {(one.url, one.ref, one.origin): one for one in self.nodes.roster()}
        return places.get((row.url, row.ref, hub.origin)) if pulled.outcomes else None

    def _show_keys(self, client: PeerClient) -> bool:
        """Tell a peer of the keys that this node has by now; whether it wanted to know."""
        try:
            client.call("keys", {"first_key": self.first_key, "key_notes": self.nodes.key_notes()})
        except PeerError:
            return False
        return True

    def syncable(self) -> list[PeerRow]:
        """The peers that can be asked."""
        return [peer for peer in self.peers.peers(ACCEPTED) if peer.url is not None]


def _stated(roots: list[Any], told: list[Any], submitter: str) -> tuple[bytes, bytes, Told]:
    """What a runner says of the state that it publishes."""
    if len(roots) != 2 or any(not isinstance(one, bytes) or len(one) != 32 for one in roots):
        raise MalformedError("a graph has two roots", code="wrong-type")
    if len(told) != 3 or not isinstance(told[2], bytes) or len(told[2]) != 32:
        raise MalformedError("a state has a commit, a branch and an extractor", code="wrong-type")
    commit, branch = COMMIT(told[0], "the commit"), text(1024)(told[1], "the branch")
    return roots[0], roots[1], Told(commit, branch, told[2], submitter)


def back_off(failures: int) -> float:
    """How many seconds to wait after so many failures: longer each time, and never the same."""
    most = float(min(_LONGEST_WAIT, 1 << min(failures, 10)))
    return most * (0.5 + secrets.randbelow(1000) / 2000)
