"""What a peer may see: repositories of this node by its grants, those of others by the lists that their origins signed.

There is one way to a repository for whoever asks, and what is not visible ends there like what does not exist.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple, Protocol

from knowing_protocol.access import MAX_NODES, Access, access_text, parse_access, reader_tag, relay_tag
from knowing_protocol.errors import KnowingError
from knowing_protocol.history import DEFAULT_REF
from knowing_protocol.note import parse_note
from knowing_protocol.urls import matches

from knowingd.errors import NotFoundError
from knowingd.store.nodestore import RosterRow
from knowingd.store.originstore import AccessRow
from knowingd.store.peerstore import ACCEPTED, Grant, PeerRow, best_grant
from knowingd.sync.host import Host

Place = tuple[str, str, bytes]  # URL, ref, origin


class Offer(NamedTuple):
    """A repository that a peer may have, and the entry of its origin's log that is its head, with a digest of it."""

    row: RosterRow
    epoch: int
    head: int
    digest: bytes


class Viewer(Protocol):
    """Somebody who asks: what it may see is looked up anew each time."""

    def offers(self) -> dict[Place, Offer]:
        """Everything that may be seen now."""

    def relay_lists(self, visible: dict[Place, Offer]) -> list[str]:
        """The access lists that go with it."""


class PeerViewer(NamedTuple):
    """A peer."""

    host: Host
    peer: PeerRow

    def offers(self) -> dict[Place, Offer]:
        """See `Viewer`."""
        return offers(self.host, self.peer)

    def relay_lists(self, visible: dict[Place, Offer]) -> list[str]:
        """See `Viewer`."""
        return relay_lists(self.host, self.peer, visible)


class TokenViewer(NamedTuple):
    """Whoever has a token: repositories of this node that match a pattern."""

    host: Host
    pattern: str

    def offers(self) -> dict[Place, Offer]:
        """See `Viewer`."""
        heads, epoch = self.host.nodes.heads(), self.host.nodes.epoch
        return {
            (row.url, row.ref, row.origin): Offer(row, epoch, *heads[row.url, row.ref])
            for row in self.host.nodes.roster()
            if row.ref == DEFAULT_REF
            and row.origin == self.host.origin
            and (row.url, row.ref) in heads
            and matches(self.pattern, row.url)
        }

    def relay_lists(self, visible: dict[Place, Offer]) -> list[str]:  # noqa: ARG002
        """A token relays nothing."""
        return []


def offers(host: Host, peer: PeerRow) -> dict[Place, Offer]:
    """Everything that a peer may see now."""
    found: dict[Place, Offer] = {}
    grants = host.peers.grants(peer.id) if peer.state == ACCEPTED else []
    heads, epoch = host.nodes.heads(), host.nodes.epoch
    for row in host.nodes.roster():
        if row.ref != DEFAULT_REF:
            continue
        if row.origin == host.origin:
            head = heads.get((row.url, row.ref))
            if head is not None and best_grant(grants, row.url) is not None:
                found[row.url, row.ref, row.origin] = Offer(row, epoch, *head)
        elif peer.state == ACCEPTED and _may_relay(host, row, peer):
            entry = host.origins.head(row.origin, row.url, row.ref)
            if entry is not None:
                digest = sha256(entry.header.encode()).digest()
                found[row.url, row.ref, row.origin] = Offer(row, entry.epoch, entry.log_index, digest)
    return found


def offer(viewer: Viewer, place: Place) -> Offer:
    """One repository; what somebody may not see is not there."""
    found = viewer.offers().get(place)
    if found is None:
        raise NotFoundError("there is no such repository here")
    return found


def _may_relay(host: Host, row: RosterRow, reader: PeerRow) -> bool:
    access = host.origins.access(row.origin, row.url)
    if access is None:
        return False
    try:
        return parse_access(parse_note(access.note).text).allows(reader.origin, host.origin)
    except KnowingError:
        return False


def relay_lists(host: Host, peer: PeerRow, visible: dict[Place, Offer]) -> list[str]:
    """The signed access lists of repositories that a peer may relay, or could once: it must learn that this is over."""
    grants = host.peers.grants(peer.id)
    notes = []
    for url, _, origin in visible:
        if origin == host.origin:
            grant = best_grant(grants, url)
            if (grant is not None and grant.relay) or host.origins.access(origin, url) is not None:
                notes.append(_access_note(host, url))
    return notes


def _access_note(host: Host, url: str) -> str:
    """The access list of one of our repositories as it should be now; signed anew where it changed, or our key did."""
    by_peer: dict[int, list[Grant]] = {}
    for grant in host.peers.grants():
        by_peer.setdefault(grant.peer, []).append(grant)
    readers, relays = [], []
    for peer in host.peers.peers(ACCEPTED):
        best = best_grant(by_peer.get(peer.id, []), url)
        if best is not None:
            readers.append(reader_tag(host.origin, url, peer.origin))
            if best.relay:
                relays.append(relay_tag(host.origin, url, peer.origin))
    if len(readers) + len(relays) > MAX_NODES:
        readers, relays = [], []  # too many for one list: nobody relays, rather than somebody left out in silence
    wanted = (tuple(sorted(readers)), tuple(sorted(relays)))
    kept = host.origins.access(host.origin, url)
    if kept is not None:
        note = parse_note(kept.note)
        stated = parse_access(note.text)
        if (stated.readers, stated.relays) == wanted and host.signed_by_us(note):
            return kept.note
    serial = 1 if kept is None else kept.serial + 1
    text = host.sign_node(access_text(Access(host.origin, url, serial, *wanted)))
    host.origins.put_access(AccessRow(host.origin, url, serial, text))
    return text
