"""Takes in what a peer shows of logs: its own, and those of the nodes whose repositories it relays.

Keys, checkpoint and leaves are checked before anything of them is kept. A log that contradicts what was signed before
is not followed; both statements are kept as evidence, and the error says so loudly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from knowing_protocol import tlog
from knowing_protocol.access import parse_access
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.errors import MalformedError
from knowing_protocol.evidence import State, signed_state
from knowing_protocol.history import origin_id
from knowing_protocol.keys import KeyChain, parse_epoch
from knowing_protocol.note import parse_note

from knowingd.errors import PeerError
from knowingd.store.originlog import OriginLog
from knowingd.store.originstore import AccessRow, PinRow
from knowingd.sync.host import Host
from knowingd.sync.logs import DishonestLogError, first_difference, follow, key_chain, signed_by_node
from knowingd.sync.wire import count

MAX_LEAVES: Final = 10_000_000
Call = Callable[[str, dict[str, Any]], Any]
"""A request to the peer, by name, and its answer."""


class Following:
    """The logs that one peer shows."""

    def __init__(self, host: Host, call: Call, verify: Verifier, now: int) -> None:
        self.host = host
        self.call = call
        self.verify = verify
        self.now = now

    def known(self) -> list[list[Any]]:
        """What is known of each log already: origin, epoch, size."""
        newest: dict[bytes, PinRow] = {}
        for pin in self.host.origins.pins():
            newest[pin.origin] = pin  # epochs come in order
        return [[pin.origin, pin.epoch, self._log(pin.origin, pin.epoch).size()] for pin in newest.values()]

    def _log(self, origin: bytes, epoch: int) -> OriginLog:
        return OriginLog(self.host.nodes.database, origin, epoch)

    def take(self, record: Any) -> bytes:
        """Follow one log as far as the peer shows it; its origin."""
        first, keys, epochs, epoch, note, start, leaves = _record(record)
        origin = origin_id(first)
        if origin == self.host.origin:
            return origin  # what we signed ourselves needs no telling
        notes = list(dict.fromkeys((*self.host.origins.key_notes(origin), *keys)))
        chain = key_chain(first, notes, self.verify)
        state = signed_state(note, chain, self.verify)
        if state.epoch != epoch:
            raise MalformedError("a checkpoint is of another epoch than it is shown for", code="log")
        pins = self.host.origins.pins(origin)
        before = _state(pins[-1], chain, self.verify) if pins else None
        try:
            follow(before, state, epochs, chain, self.verify)
            self._extend(before, state, start, leaves)
        except DishonestLogError as error:
            self.host.origins.add_evidence(origin, error.kind, error.body(first, notes), self.now)
            raise
        self.host.origins.add_origin(first)
        self.host.origins.add_key_notes(origin, self._new_statements(origin, keys))
        self._keep_epochs(origin, epochs, chain)
        return origin

    def _new_statements(self, origin: bytes, notes: list[str]) -> list[str]:
        """The notes that state something new: whoever shows a log could add signatures to old ones without end."""
        known = {parse_note(text).text for text in self.host.origins.key_notes(origin)}
        found = []
        for text in notes:
            stated = parse_note(text).text
            if stated not in known:
                known.add(stated)
                found.append(text)
        return found

    def _extend(self, before: State | None, state: State, start: int, leaves: list[bytes]) -> None:
        log = self._log(state.origin, state.epoch)
        have = log.size()
        if state.size > MAX_LEAVES:
            raise PeerError(f"the log of {state.origin.hex()[:16]} is too long to be followed", code="log")
        if start != have:
            start, leaves = have, []
        leaves = self._fetch(state, start, leaves)
        if log.extend(have, leaves[: max(0, state.size - have)], PinRow(*state[:5])):
            return
        # Either the peer told wrong leaves, or the log is not the one that we know: all of it decides.
        whole = self._fetch(state, 0, [])
        if before is None or before.epoch != state.epoch or tlog.Log(whole).root() != state.root:
            raise PeerError(
                f"the leaves of the log of {state.origin.hex()[:16]} do not lead to the root that it signed",
                code="log-mismatch",
            )
        raise first_difference(before, state, log.leaves(0, before.size), whole)

    def _fetch(self, state: State, start: int, leaves: list[bytes]) -> list[bytes]:
        found = list(leaves)
        while start + len(found) < state.size:
            request = {"origin": state.origin, "epoch": state.epoch, "start": start + len(found)}
            answer = self.call("log", request)
            more = _leaves(answer.get("leaves") if isinstance(answer, dict) else None)
            if not more:
                raise PeerError("the peer has no more leaves of a log, though it is longer", code="log-mismatch")
            found += more
        return found[: state.size - start]

    def _keep_epochs(self, origin: bytes, epochs: list[str], chain: KeyChain) -> None:
        for text in epochs:
            note = parse_note(text)
            stated = parse_epoch(note.text)
            if stated.origin == origin and signed_by_node(text, chain, self.verify):
                self.host.origins.add_epoch(origin, stated.epoch, text)

    def take_access(self, text: Any) -> None:
        """Keep an access list that its origin signed."""
        if not isinstance(text, str):
            raise MalformedError("an access list is a signed note", code="access")
        access = parse_access(parse_note(text).text)
        first = self.host.origins.first_key(access.origin)
        if first is None:
            raise MalformedError("an access list is of a node that is not known", code="access")
        chain = key_chain(first, self.host.origins.key_notes(access.origin), self.verify)
        if not signed_by_node(text, chain, self.verify):
            raise MalformedError("an access list is not signed by its origin", code="access")
        self.host.origins.put_access(AccessRow(access.origin, access.repository, access.serial, text))


def _state(pin: PinRow, chain: KeyChain, verify: Verifier) -> State:
    return signed_state(pin.note, chain, verify)


def _leaves(data: Any) -> list[bytes]:
    if not isinstance(data, bytes) or len(data) % 32:
        raise MalformedError("leaves of a log are 32 bytes each", code="log")
    return [data[start : start + 32] for start in range(0, len(data), 32)]


def _record(record: Any) -> tuple[bytes, list[str], list[str], int, str, int, list[bytes]]:
    if not isinstance(record, list) or len(record) != 7:
        raise MalformedError("a log is seven things", code="log")
    first, keys, epochs, epoch, note, start, leaves = record
    if not isinstance(first, bytes) or not isinstance(note, str) or len(first) != 32:
        raise MalformedError("a log has a first key and a checkpoint", code="log")
    for texts in (keys, epochs):
        if not isinstance(texts, list) or len(texts) > 1000 or any(not isinstance(one, str) for one in texts):
            raise MalformedError("a log has key notes and epoch notes", code="log")
    count(epoch, "an epoch")
    count(start, "a size")
    return first, keys, epochs, epoch, note, start, _leaves(leaves)
