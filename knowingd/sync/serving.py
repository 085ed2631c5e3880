"""What a node answers to its peers: plain messages in, plain messages out, over what the asking peer may see.

    roster   what the peer may have and where it stands; nothing at all where nothing is new
    log      the hashes of leaves of a log
    pull     the newest header of a repository, and what leads to it: a delta, the beginning of a descent, or that it
             must come in pieces
    descend  answers of a descent
    pieces   the list of pieces of a first transfer
    piece    some of them

Answers are of the head that the request names; where that has moved on, the request is refused as `moved` and the peer
begins again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final

from knowing_protocol.errors import MalformedError

from knowingd.errors import KnowingError, NotFoundError
from knowingd.store.interface import GraphSession
from knowingd.store.originlog import OriginLog
from knowingd.store.rows import SnapshotRow
from knowingd.sync.chunks import MAX_CHUNK, Piece, piece_from, pieces, read_piece, split
from knowingd.sync.delta import make_delta
from knowingd.sync.descent import MAX_ASKS, MAX_BITS, Answering, ask_from
from knowingd.sync.host import Host
from knowingd.sync.spaces import Side
from knowingd.sync.visible import Offer, Place, Viewer, offer
from knowingd.sync.wire import count, encode, fields

MAX_LEAVES: Final = 8192
MAX_LOGS: Final = 10_000
MAX_PIECES: Final = 256
MAX_DELTA: Final = 4 << 20
"""A larger delta is not sent: a descent comes in answers of bounded size."""
NONCE: Final = 16
DELTA, DESCEND, FULL, SAME = "delta", "descend", "full", "same"


class MovedError(KnowingError):
    """The head that was asked for is no longer the head."""

    code = "moved"


class Serving:
    """The answers of one node."""

    def __init__(self, host: Host) -> None:
        self.host = host

    # Roster and logs

    def roster(self, viewer: Viewer, request: Any) -> dict[str, Any]:
        """What a peer may have, unless it knows that already."""
        view, logs = fields(request, view=(bytes, type(None)), logs=list)
        known = _known_logs(logs)
        visible = viewer.offers()
        notes = viewer.relay_lists(visible)
        digest = _digest(visible, notes, self._told(visible))
        if view == digest:
            return {}
        origins = sorted({origin for _, _, origin in visible})
        numbers = {origin: number for number, origin in enumerate(origins)}
        return {
            "view": digest,
            "repos": [[url, ref, numbers[origin], one.epoch, one.head] for (url, ref, origin), one in visible.items()],
            "logs": [self._log(origin, known.get(origin)) for origin in origins],
            "access": notes,
        }

    def _told(self, visible: dict[Place, Offer]) -> list[str]:
        """The key notes and epoch notes of the nodes that somebody sees something of."""
        found = []
        for origin in sorted({place[2] for place in visible}):
            if origin == self.host.origin:
                found += [*self.host.nodes.key_notes(), *self.host.nodes.epoch_notes()]
            else:
                found += self.host.origins.key_notes(origin)
                found += (text for _, text in self.host.origins.epochs(origin))
        return found

    def _log(self, origin: bytes, known: tuple[int, int] | None) -> list[Any]:
        """A node's keys and its newest checkpoint, with the leaves that came since a size that is known."""
        host = self.host
        if origin == host.origin:
            first, keys, epochs = host.first_key, host.nodes.key_notes(), host.nodes.epoch_notes()
            epoch, note = host.nodes.epoch, host.nodes.checkpoint()
        else:
            first = host.origins.first_key(origin) or b""
            keys, epochs = host.origins.key_notes(origin), [text for _, text in host.origins.epochs(origin)]
            pin = host.origins.pins(origin)[-1]
            epoch, note = pin.epoch, pin.note
        start = known[1] if known is not None and known[0] == epoch else 0
        return [first, keys, epochs, epoch, note, start, b"".join(self._leaves(origin, epoch, start))]

    def _leaves(self, origin: bytes, epoch: int, start: int) -> list[bytes]:
        if origin == self.host.origin:
            return self.host.nodes.leaves(epoch, start, start + MAX_LEAVES)
        return OriginLog(self.host.nodes.database, origin, epoch).leaves(start, start + MAX_LEAVES)

    def log(self, viewer: Viewer, request: Any) -> dict[str, Any]:
        """More leaves of a log of which the peer may see something."""
        origin, epoch, start = fields(request, origin=bytes, epoch=int, start=int)
        count(epoch, "an epoch")
        count(start, "a start")
        if origin not in {place[2] for place in viewer.offers()}:
            raise NotFoundError("there is no such log here")
        return {"leaves": b"".join(self._leaves(origin, epoch, start))}

    # Repositories

    def pull(self, viewer: Viewer, request: Any) -> dict[str, Any]:
        """The newest state of a repository, from a base that the peer has, if it has one."""
        repo, ref, origin, base, descend = fields(
            request, repo=str, ref=str, origin=bytes, base=(list, type(None)), descend=int
        )
        found = offer(viewer, (repo, ref, origin))
        answer: dict[str, Any] = {"epoch": found.epoch, "header": self._header(found)}
        with self._session(found, found.epoch, found.head) as (session, head):
            if base is None:
                return {**answer, "mode": FULL, "body": None}
            known = None if descend else _base(session, base)
            if known is not None and known.sequence == head.sequence:
                return {**answer, "mode": SAME, "body": None}
            if known is not None:
                delta = make_delta(session, known.sequence, head.sequence)
                if len(encode(delta)[0]) <= MAX_DELTA:
                    return {**answer, "mode": DELTA, "body": delta}
            nonce = secrets.token_bytes(NONCE)
            return {**answer, "mode": DESCEND, "body": [nonce, Answering(Side(session, nonce)).top()]}

    def descend(self, viewer: Viewer, request: Any) -> dict[str, Any]:
        """Answers of a descent."""
        repo, ref, origin, entry, nonce, asks = fields(
            request, repo=str, ref=str, origin=bytes, entry=list, nonce=bytes, asks=list
        )
        if len(asks) > MAX_ASKS or len(nonce) != NONCE:
            raise MalformedError("a descent asks too much at once, or has no nonce", code="descent")
        read = [ask_from(one) for one in asks]
        with self._asked((repo, ref, origin), viewer, entry) as session:
            answered = Answering(Side(session, nonce)).answer(read)
        return {"answers": answered.answers, "packs": answered.packs}

    def pieces(self, viewer: Viewer, request: Any) -> dict[str, Any]:
        """The pieces of a first transfer."""
        repo, ref, origin, entry = fields(request, repo=str, ref=str, origin=bytes, entry=list)
        with self._asked((repo, ref, origin), viewer, entry) as session:
            return {"pieces": [piece.plain() for piece in pieces(Side(session))]}

    def piece(self, viewer: Viewer, request: Any) -> dict[str, Any]:
        """Pieces, as many of those asked for as fit; of one that is too large, the smaller ones that it consists of."""
        repo, ref, origin, entry, wanted = fields(request, repo=str, ref=str, origin=bytes, entry=list, pieces=list)
        asked = [piece_from(one) for one in wanted[:MAX_PIECES]]
        packs: list[Any] = []
        room = MAX_CHUNK
        with self._asked((repo, ref, origin), viewer, entry) as session:
            side = Side(session)
            for piece in asked:
                pack = read_piece(side, piece)
                size = len(encode(pack)[0])
                smaller = _parts(side, piece) if size > MAX_CHUNK else []
                if packs and size > room:
                    break
                packs.append([[one.plain() for one in smaller]] if len(smaller) > 1 else [None, pack])
                room -= size if len(smaller) < 2 else 0
        return {"packs": packs}

    def _header(self, found: Offer) -> str:
        if found.row.origin == self.host.origin:
            return self.host.nodes.header_text(found.head)
        entry = self.host.origins.entry(found.row.origin, found.epoch, found.head)
        assert entry is not None  # an offer is made of it
        return entry.header

    @contextmanager
    def _asked(self, place: Place, viewer: Viewer, entry: Any) -> Iterator[GraphSession]:
        found = offer(viewer, place)
        epoch, index = _entry(entry)
        with self._session(found, epoch, index) as (session, _):
            yield session

    @contextmanager
    def _session(self, found: Offer, epoch: int, index: int) -> Iterator[tuple[GraphSession, SnapshotRow]]:
        with self.host.graph(found.row) as store, store.read() as session:
            head = session.last_snapshot()
            if head is None or (head.epoch, head.log_index) != (epoch, index):
                raise MovedError("the repository has moved on", hint="ask for the roster again")
            yield session, head


def _parts(side: Side, piece: Piece) -> list[Piece]:
    """The pieces that one consists of, as deep as it takes for them to be several."""
    found = list(split(side, piece))
    while len(found) == 1 and found[0].prefix.bits < MAX_BITS:
        found = list(split(side, found[0]))
    return found


def _digest(visible: dict[Place, Offer], notes: list[str], told: list[str]) -> bytes:
    lines = [
        f"{url}\0{ref}\0{origin.hex()}\0{one.epoch}\0{one.head}\0{one.digest.hex()}"
        for (url, ref, origin), one in visible.items()
    ]
    return sha256("\n".join([*sorted(lines), *notes, *told]).encode()).digest()[:16]


def _known_logs(logs: list[Any]) -> dict[bytes, tuple[int, int]]:
    found = {}
    if len(logs) > MAX_LOGS:
        raise MalformedError("too many logs", code="too-long")
    for one in logs:
        if not isinstance(one, list) or len(one) != 3 or not isinstance(one[0], bytes):
            raise MalformedError("a log is an origin, an epoch and a size", code="wrong-type")
        found[one[0]] = _entry(one[1:])
    return found


def _entry(value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedError("an entry is an epoch and an index", code="wrong-type")
    return count(value[0], "an epoch"), count(value[1], "an index")


def _base(session: GraphSession, base: list[Any]) -> SnapshotRow | None:
    """The snapshot that a peer has, if what changed since is still known."""
    if len(base) != 3 or not isinstance(base[2], bytes):
        raise MalformedError("a base is an epoch, an index and a root", code="wrong-type")
    place = _entry(base[:2])
    for row in session.snapshots():
        if (row.epoch, row.log_index) == place and not row.pruned and row.source_root == base[2]:
            return row
    return None
