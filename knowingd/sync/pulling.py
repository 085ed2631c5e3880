"""Brings repositories of a peer up to date: asks for the roster, follows logs, and fetches what changed.

Known base: the delta comes with the answer. Unknown, pruned or damaged base: a descent. Nothing yet: pieces, which are
kept until they are whole, so that a kill costs the one under way. In each case the replica commits only what leads to
the signed roots; what does not is remembered against this peer and this root, and the next repository is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from knowing_protocol.ed25519 import Verifier
from knowing_protocol.encoding import canonical_json, parse_json
from knowing_protocol.errors import InvalidNameError, MalformedError, RejectedError
from knowing_protocol.history import REF, Header, repository_url
from knowing_protocol.records import Records
from knowing_protocol.urls import matches

from knowingd.errors import KnowingError, PeerError
from knowingd.store.codes import LAYERS
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.nodestore import RosterRow
from knowingd.store.originlog import OriginLog
from knowingd.store.originstore import EntryRow
from knowingd.store.peerstore import PeerRow
from knowingd.store.rows import Changes, SnapshotRow
from knowingd.store.staging import Staging, remove_staging
from knowingd.sync.delta import read_delta
from knowingd.sync.descent import Descent
from knowingd.sync.fetching import Fetch, Source, piece_list
from knowingd.sync.following import Call, Following
from knowingd.sync.host import Host
from knowingd.sync.logs import MAX_HEADER, header_of_leaf
from knowingd.sync.replica import (
    Committed,
    Entry,
    NotTheSignedGraphError,
    commit,
    descent_changes,
    nothing_elsewhere,
    unpack_all,
)
from knowingd.sync.serving import DELTA, DESCEND, FULL, SAME
from knowingd.sync.spaces import Side
from knowingd.sync.wire import count

NOOP: Final = "noop"
MAX_MOVES: Final = 30
MAX_TRIPS: Final = 200
WORTH_SHARING: Final = 64
"""From so many pieces on, other peers are asked as well."""
Progress = Callable[[str, str, int, int], None]
"""Repository, what is being done (discovering, transferring, verifying), how much of it, of how much."""


def quiet(_repo: str, _stage: str, _done: int, _total: int) -> None:
    """No progress."""


@dataclass(slots=True)
class Outcome:
    """What happened to one repository."""

    repo: str
    origin: bytes
    mode: str = NOOP
    round_trips: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    added: int = 0
    removed: int = 0
    snapshot: bytes | None = None
    seconds: float = 0.0
    error: KnowingError | None = None


@dataclass(slots=True)
class Meter:
    """What a connection has moved so far."""

    trips: int = 0
    sent: int = 0
    received: int = 0


@dataclass(slots=True)
class Offered:
    """A repository as the peer's roster has it."""

    url: str
    ref: str
    origin: bytes
    epoch: int
    index: int


@dataclass(slots=True)
class Pulled:
    """What one sync with a peer led to."""

    outcomes: list[Outcome] = field(default_factory=list)
    view: bytes | None = None
    gone: list[str] = field(default_factory=list)


_AGAIN: Final = "it is tried again when the repository changes, or after `knowing sync --again`"


def no_others() -> list[Source]:
    """Nobody shares the work."""
    return []


class _Roster(NamedTuple):
    """What a peer offers."""

    view: bytes
    offered: list[Offered]


class Puller:
    """One peer's repositories, pulled one after another."""

    def __init__(
        self,
        host: Host,
        peer: PeerRow,
        call: Call,
        meter: Meter,
        verify: Verifier,
        progress: Progress = quiet,
        others: Callable[[], list[Source]] = no_others,
    ) -> None:
        self.host = host
        self.peer = peer
        self.call = call
        self.meter = meter
        self.verify = verify
        self.progress = progress
        self.others = others

    def sync(self, pattern: str | None = None, view: bytes | None = None) -> Pulled:
        """Bring everything up to date that the peer offers, or what matches a pattern; `view` is what was seen last."""
        self.progress("", "discovering", 0, 0)
        roster = self._roster(None if pattern else view)
        if roster is None:
            return Pulled([], view)
        found = Pulled()
        for one in roster.offered:
            if one.origin == self.host.origin or (pattern and not _wanted(one.url, pattern)):
                continue
            found.outcomes.append(self._outcome(one))
        if not pattern:
            offered = {(one.url, one.ref) for one in roster.offered if one.origin == self.peer.origin}
            found.gone = sorted(
                row.url
                for row in self.host.nodes.roster()
                if row.origin == self.peer.origin and (row.url, row.ref) not in offered
            )
        if not pattern and all(outcome.error is None for outcome in found.outcomes):
            found.view = roster.view
        return found

    def _roster(self, view: bytes | None) -> _Roster | None:
        """What the peer offers now, once the logs that it stands in are followed; None where nothing is new."""
        following = Following(self.host, self.call, self.verify, int(time.time()))
        answer = self.call("roster", {"view": view, "logs": following.known()})
        if answer == {}:
            return None
        new_view, offered, logs, access = _read_roster(answer)
        origins = [following.take(record) for record in logs]
        for text in access:
            following.take_access(text)
        return _Roster(new_view, offered(origins))

    def _outcome(self, offered: Offered) -> Outcome:
        outcome = Outcome(offered.url, offered.origin)
        before, start = Meter(self.meter.trips, self.meter.sent, self.meter.received), time.monotonic()
        try:
            self._pull(offered, outcome)
        except KnowingError as error:
            outcome.error = error
        outcome.round_trips = self.meter.trips - before.trips
        outcome.bytes_sent = self.meter.sent - before.sent
        outcome.bytes_received = self.meter.received - before.received
        outcome.seconds = time.monotonic() - start
        return outcome

    def _pull(self, offered: Offered, outcome: Outcome) -> None:
        self.host.check_room(offered.origin)
        row = self.host.nodes.register(
            offered.url, offered.ref, offered.origin, path=None, local=False, now=int(time.time())
        )
        with self.host.writing(row), self.host.graph(row) as store:
            for attempt in range(MAX_MOVES):
                try:
                    self._once(row, store, offered, outcome)
                except KnowingError as error:
                    if error.code != "moved":
                        if _last(store) is None:  # what never arrived is not a repository of this node
                            self.host.nodes.unregister(row, int(time.time()))
                        raise
                    time.sleep(0.02 * attempt)
                    offered = self._again(offered)
                    continue
                return
        raise PeerError(f"{offered.url} moves faster than it can be fetched", hint="try again later")

    def _again(self, offered: Offered) -> Offered:
        """A repository that has moved on meanwhile, as the peer offers it now."""
        roster = self._roster(None)
        for one in roster.offered if roster is not None else ():
            if (one.url, one.ref, one.origin) == (offered.url, offered.ref, offered.origin):
                return one
        raise PeerError(f"{self.peer.name} no longer offers {offered.url}", code="not-found")

    def _once(self, row: RosterRow, store: GraphStore, offered: Offered, outcome: Outcome) -> None:
        base = _last(store)
        if base is not None and (base.epoch, base.log_index) == (offered.epoch, offered.index):
            outcome.mode, outcome.snapshot = NOOP, base.source_root
            return
        entry, mode, body = self._ask(row, base)
        header = entry.header
        assert header.source is not None
        if base is not None and (entry.epoch, header.index) < (base.epoch, base.log_index or 0):
            raise PeerError(f"the peer offers an older state of {row.url} than is here", code="behind")
        outcome.snapshot = header.source
        if mode == SAME:
            outcome.mode = NOOP
            return
        with self._blamed(header):
            made = None
            if mode == DELTA:
                made = self._delta(store, entry, body)
                if made is None:
                    entry, mode, body = self._ask(row, base, descend=True)
            if mode == DESCEND:
                made = self._descend(row, store, entry, body)
            elif mode == FULL:
                made = self._pieces(row, store, entry)
        outcome.mode = mode
        outcome.added, outcome.removed = made or (0, 0)
        self._keep(entry)

    def _delta(self, store: GraphStore, entry: Entry, body: Any) -> Committed | None:
        """Commit a delta; None where it does not lead to the signed roots, perhaps because what is here is damaged."""
        try:
            return self._commit(store, entry, lambda session: read_delta(session, body))
        except (MalformedError, InvalidNameError, NotTheSignedGraphError):
            return None

    def repair(self, row: RosterRow) -> Committed:
        """Fetch again what is damaged in a replica, and only that."""
        self._roster(None)
        with self.host.writing(row), self.host.graph(row) as store:
            base = _last(store)
            if base is None:
                raise PeerError(f"there is nothing of {row.url} to repair", hint="`knowing sync` fetches it")
            entry, mode, body = self._ask(row, base, descend=True)
            if mode != DESCEND:
                raise MalformedError("the peer answers something else than it was asked", code="fields")
            made = self._descend(row, store, entry, body)
            self._keep(entry)
        return made

    def _ask(self, row: RosterRow, base: SnapshotRow | None, *, descend: bool = False) -> tuple[Entry, str, Any]:
        have = None if base is None else [base.epoch, base.log_index, base.source_root]
        answer = self.call("pull", {**_place(row), "base": have, "descend": int(descend)})
        if not isinstance(answer, dict) or answer.keys() != {"epoch", "header", "mode", "body"}:
            raise MalformedError("the answer to a pull is not well formed", code="fields")
        epoch, text, mode = answer["epoch"], answer["header"], answer["mode"]
        count(epoch, "an epoch")
        if not isinstance(text, str) or mode not in (DELTA, DESCEND, FULL, SAME):
            raise MalformedError("the answer to a pull is not well formed", code="wrong-type")
        if (mode == FULL) != (base is None):
            raise MalformedError("the peer answers for another base", code="fields")
        return Entry(row.origin, epoch, self._header(row, epoch, text)), mode, answer["body"]

    def _header(self, row: RosterRow, epoch: int, text: str) -> Header:
        """A header that its origin's log has, of the repository that was asked for."""
        log = OriginLog(self.host.nodes.database, row.origin, epoch)
        index = _index_of(text)
        leaves = log.leaves(index, index + 1)
        if not leaves:
            raise PeerError("the log has grown meanwhile", code="moved")
        header = header_of_leaf(text, leaves[0])
        if (header.repository, header.ref) != (row.url, row.ref) or header.source is None:
            raise RejectedError("wrong-header", "the header is not one of a state of that repository")
        if self.host.origins.quarantined(self.peer.origin, header.source):
            raise PeerError(
                f"what {self.peer.name} sends for {row.url} did not lead to the signed root before",
                code="quarantined",
                hint=_AGAIN,
            )
        return header

    @contextmanager
    def _blamed(self, header: Header) -> Iterator[None]:
        """Whatever is wrong with what a peer sends for a root costs it that root, and nothing else."""
        assert header.source is not None
        try:
            yield
        except (MalformedError, RejectedError, InvalidNameError) as error:
            self._quarantine(header.source, error)
            raise PeerError(
                f"{self.peer.name} sent what cannot be believed: {error.message}", code=error.code, hint=_AGAIN
            ) from error
        except PeerError as error:
            if error.code == "root-mismatch":
                self._quarantine(header.source, error)
            raise

    def _quarantine(self, root: bytes, error: KnowingError) -> None:
        self.host.origins.quarantine(self.peer.origin, root, error.message, int(time.time()))

    def _commit(self, store: GraphStore, entry: Entry, make: Callable[[GraphSession], list[Changes]]) -> Committed:
        self.progress(entry.header.repository, "verifying", 0, 0)
        return commit(store, entry, make, int(time.time()))

    def _keep(self, entry: Entry) -> None:
        """The header with its path, so that it can be shown to others."""
        pin = self.host.origins.pin(entry.origin, entry.epoch)
        assert pin is not None
        header = entry.header
        path = OriginLog(self.host.nodes.database, entry.origin, entry.epoch).inclusion(header.index, pin.size)
        self.host.origins.put_entries(
            [
                EntryRow(
                    entry.origin,
                    entry.epoch,
                    header.index,
                    header.repository,
                    header.ref,
                    canonical_json(header.as_json()).decode(),
                    pin.size,
                    b"".join(path),
                )
            ]
        )

    # Descent

    def _descend(self, row: RosterRow, store: GraphStore, entry: Entry, body: Any) -> Committed:
        if not isinstance(body, list) or len(body) != 2 or not isinstance(body[0], bytes):
            raise MalformedError("a descent begins with a nonce", code="descent")
        nonce, top = body
        with store.read() as session:
            descent = Descent(Side(session, nonce), top)
            trips = 0
            while asks := descent.next():
                trips += 1
                if trips > MAX_TRIPS:
                    raise MalformedError("a descent does not end", code="descent")
                self.progress(row.url, "discovering", trips, 0)
                answer = self.call(
                    "descend",
                    {
                        **_place(row),
                        "entry": [entry.epoch, entry.header.index],
                        "nonce": nonce,
                        "asks": [ask.plain() for ask in asks],
                    },
                )
                if not isinstance(answer, dict):
                    raise MalformedError("the answer of a descent is not well formed", code="descent")
                descent.take(answer.get("answers"), answer.get("packs"))
            found = descent.found()
        return self._commit(store, entry, lambda session: descent_changes(session, found))

    # First transfer

    def _pieces(self, row: RosterRow, store: GraphStore, entry: Entry) -> Committed:
        about = {**_place(row), "entry": [entry.epoch, entry.header.index]}
        todo = piece_list(self.call("pieces", about))
        me = Source(self.peer.origin, self.call)
        sources = [me, *(self.others() if len(todo) >= WORTH_SHARING else ())]
        staging = Staging(self.host.staging(row))
        try:
            try:
                made = self._transfer(store, entry, Fetch(about, todo, staging, self._transferred(row)), sources)
            except _UNBELIEVABLE:
                senders = staging.peers()
                staging.drop(staging.names())
                if len(sources) == 1 and senders <= {me.origin}:  # others may have cut pieces without sending any
                    raise
                # One of several peers sent something else; whether it was this one, it has to show alone.
                made = self._transfer(store, entry, Fetch(about, todo, staging, self._transferred(row)), [me])
        except _UNBELIEVABLE:
            staging.drop(staging.names())
            raise
        finally:
            staging.close()
        remove_staging(self.host.staging(row))
        return made

    def _transferred(self, row: RosterRow) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(row.url, "transferring", done, total)

    def _transfer(self, store: GraphStore, entry: Entry, fetch: Fetch, sources: list[Source]) -> Committed:
        packs = fetch.run(sources)
        return self._commit(store, entry, lambda session: _first_changes(session.repo, packs))


_UNBELIEVABLE = (MalformedError, RejectedError, InvalidNameError, NotTheSignedGraphError)


def _first_changes(repo: str, packs: list[list[Any]]) -> list[Changes]:
    found = []
    for layer in LAYERS:
        records, edges = unpack_all(repo, layer, packs[layer], nothing_elsewhere)
        found.append(Changes(layer, records, Records(), edges))
    return found


def _place(row: RosterRow) -> dict[str, Any]:
    return {"repo": row.url, "ref": row.ref, "origin": row.origin}


def _last(store: GraphStore) -> SnapshotRow | None:
    with store.read() as session:
        return session.last_snapshot(finished=True)


def _index_of(text: str) -> int:
    found = parse_json(text.encode(), MAX_HEADER)
    return count(found.get("index") if isinstance(found, dict) else None, "the index of a header")


def _wanted(url: str, pattern: str) -> bool:
    return matches(pattern, url) or matches(f"*/{pattern}", url)


def _read_roster(answer: Any) -> tuple[bytes, Callable[[list[bytes]], list[Offered]], list[Any], list[Any]]:
    """The parts of a roster; repositories once the origins are known."""
    if not isinstance(answer, dict) or answer.keys() != {"view", "repos", "logs", "access"}:
        raise MalformedError("a roster is not well formed", code="fields")
    view, repos, logs, access = answer["view"], answer["repos"], answer["logs"], answer["access"]
    if not isinstance(view, bytes) or not all(isinstance(one, list) for one in (repos, logs, access)):
        raise MalformedError("a roster is not well formed", code="wrong-type")

    def offered(origins: list[bytes]) -> list[Offered]:
        found = []
        for one in repos:
            if not isinstance(one, list) or len(one) != 5:
                raise MalformedError("a repository of a roster is not well formed", code="wrong-type")
            url, ref, *numbers = one
            number, epoch, index = (count(part, "a number of a roster") for part in numbers)
            if number >= len(origins):
                raise MalformedError("a repository of a roster is not well formed", code="wrong-type")
            found.append(Offered(repository_url(url, "a repository"), REF(ref, "a ref"), origins[number], epoch, index))
        return found

    return view, offered, logs, access
