"""Whom the node knows and what they may see: peers, grants, invitations, tokens, and how syncing with a peer went.

Promises: every change is one transaction and on disk when it returns; an invitation lets in one node, once; what
strangers can make the node remember is bounded.
Must never: let a stranger take a name from an accepted peer or widen a grant, or keep a secret (codes and tokens are
kept as hashes).
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable
from hashlib import sha256
from itertools import count
from typing import Final, NamedTuple

from knowing_protocol.history import origin_id
from knowing_protocol.urls import matches

from knowingd.errors import NotFoundError, UsageError
from knowingd.store.addresses import host_of, node_url, repository_pattern
from knowingd.store.database import Database

MAX_PENDING: Final = 256
MAX_NAME: Final = 64
MAX_NOTE: Final = 500
MIN_PREFIX: Final = 4
SEEN_EVERY: Final = 60
"""How many seconds pass before a time of last use is written again: every write waits for the disk."""
INVITES_KEPT: Final = 30 * 86400
PENDING: Final = "pending"
ACCEPTED: Final = "accepted"

_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LOOKS_LIKE_ID: Final = re.compile(r"[0-9a-fA-F]{4,}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]+")


class PeerRow(NamedTuple):
    """Another node that asked to be known (`pending`) or is (`accepted`)."""

    id: int
    origin: bytes
    name: str
    url: str | None
    first_key: bytes
    fingerprint: bytes | None
    state: str
    note: str
    added_at: int
    last_seen: int | None


class Grant(NamedTuple):
    """What a peer may see, and whether it may pass it on."""

    peer: int
    pattern: str
    relay: bool


class InviteRow(NamedTuple):
    """An invitation that was given out; `used_by` is the node that came with it."""

    code_hash: bytes
    patterns: tuple[str, ...]
    relay: bool
    created: int
    expires: int
    used_by: bytes | None


class TokenRow(NamedTuple):
    """A token as the node keeps it."""

    id: str
    digest: bytes
    scope: str
    pattern: str
    name: str
    created: int
    expires: int | None = None
    revoked: int | None = None
    last_used: int | None = None


class SyncState(NamedTuple):
    """How syncing with a peer went; `view` is the digest of what it last let us see."""

    peer: int
    view: bytes | None = None
    last_ok: int | None = None
    last_error: str = ""
    failures: int = 0
    next_attempt: int = 0


_PEERS: Final = "SELECT id, origin, name, url, first_key, fingerprint, state, note, added_at, last_seen FROM peers"
_TOKENS: Final = "SELECT id, digest, scope, pattern, name, created, expires, revoked, last_used FROM tokens"
_INVITES: Final = "SELECT code_hash, patterns, relay, created, expires, used_by FROM invites"


class PeerStore:
    """The peers of a node, in the node's own database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Peers

    def add_peer(
        self,
        first_key: bytes,
        now: int,
        *,
        name: str = "",
        url: str | None = None,
        fingerprint: bytes | None = None,
        note: str = "",
    ) -> PeerRow:
        """Know a node as a peer; what is known of it already stays where nothing new is given."""
        return self._database.write(
            lambda connection: _accept(connection, _Claim(first_key, name, url, fingerprint, note), now)
        )

    def knock(
        self,
        first_key: bytes,
        now: int,
        *,
        name: str = "",
        url: str | None = None,
        fingerprint: bytes | None = None,
        note: str = "",
    ) -> PeerRow:
        """A stranger asks to be known: it waits for a human. Of an accepted peer nothing changes but when it was seen.

        Only so many wait; the one that has waited longest is forgotten first, and may knock again.
        """
        claim = _Claim(first_key, name, url, fingerprint, note)

        def job(connection: sqlite3.Connection) -> PeerRow:
            known = _peer(connection, origin_id(first_key))
            if known is None:
                connection.execute(
                    "DELETE FROM peers WHERE id IN (SELECT id FROM peers WHERE state = 'pending' "
                    "ORDER BY added_at DESC, id DESC LIMIT -1 OFFSET ?)",
                    (MAX_PENDING - 1,),
                )
                _insert(connection, claim, PENDING, now)
            elif known.state == PENDING:
                _update(connection, known, claim)
            connection.execute("UPDATE peers SET last_seen = ? WHERE origin = ?", (now, origin_id(first_key)))
            return _known(connection, origin_id(first_key))

        return self._database.write(job)

    def accept(self, peer: int) -> PeerRow:
        """Accept a peer that waits; what it may see is for grants to say."""

        def job(connection: sqlite3.Connection) -> PeerRow:
            row = connection.execute(f"{_PEERS} WHERE id = ?", (peer,)).fetchone()
            if row is None:
                raise NotFoundError("the peer is gone", hint="`knowing peer list` shows who there is")
            connection.execute("UPDATE peers SET state = 'accepted' WHERE id = ?", (peer,))
            return PeerRow(*row)._replace(state=ACCEPTED)

        return self._database.write(job)

    def remove_peer(self, peer: int) -> bool:
        """Forget a peer with its grants; whether it was there."""
        return self._database.write(
            lambda connection: connection.execute("DELETE FROM peers WHERE id = ?", (peer,)).rowcount > 0
        )

    def peers(self, state: str | None = None) -> list[PeerRow]:
        """All peers, or those in a state, by name."""
        with self._database.read() as connection:
            rows = connection.execute(f"{_PEERS} WHERE ?1 IS NULL OR state = ?1 ORDER BY name", (state,)).fetchall()
        return [PeerRow(*row) for row in rows]

    def peer(self, origin: bytes) -> PeerRow | None:
        """The peer with an id, if it is known."""
        with self._database.read() as connection:
            return _peer(connection, origin)

    def find(self, text: str) -> PeerRow:
        """The peer that a person means: a name, an address, or the beginning of a node's id."""
        rows = self.peers()
        try:
            url = node_url(text)
        except UsageError:
            url = ""
        found = [row for row in rows if row.name == text] or [row for row in rows if url and row.url == url]
        if not found and len(text) >= MIN_PREFIX:
            found = [row for row in rows if row.origin.hex().startswith(text.lower())]
        if not found:
            raise NotFoundError(f"no peer is called {text[:100]!r}", hint="`knowing peer list` shows who there is")
        if len(found) > 1:
            choices = ", ".join(f"{row.name} ({row.origin.hex()[:16]})" for row in found[:8])
            raise UsageError(f"{text!r} may be any of {choices}", code="ambiguous", hint="write more of it")
        return found[0]

    def seen(self, peer: int, now: int) -> None:
        """Remember that a peer was there; written once a minute at most."""
        self._touch("peers", "last_seen", peer, now)

    # Grants

    def grant(self, peer: int, pattern: str, *, relay: bool = False) -> Grant:
        """Let a peer see the repositories that match a pattern; granting again decides anew whether it may relay."""
        made = Grant(peer, repository_pattern(pattern), relay)

        def job(connection: sqlite3.Connection) -> Grant:
            if not connection.execute("SELECT 1 FROM peers WHERE id = ?", (peer,)).fetchone():
                raise NotFoundError("the peer is gone", hint="`knowing peer list` shows who there is")
            connection.execute("INSERT OR REPLACE INTO grants VALUES (?, ?, ?)", (peer, made.pattern, int(relay)))
            return made

        return self._database.write(job)

    def revoke(self, peer: int, pattern: str | None = None) -> list[Grant]:
        """End one grant of a peer, or all; those that were ended."""
        exact = None if pattern is None else repository_pattern(pattern)

        def job(connection: sqlite3.Connection) -> list[Grant]:
            rows = connection.execute(
                "DELETE FROM grants WHERE peer = ?1 AND (?2 IS NULL OR pattern = ?2) RETURNING peer, pattern, relay",
                (peer, exact),
            ).fetchall()
            return sorted(_grant(row) for row in rows)

        return self._database.write(job)

    def grants(self, peer: int | None = None) -> list[Grant]:
        """The grants of a peer, or of all."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT peer, pattern, relay FROM grants WHERE ?1 IS NULL OR peer = ?1 ORDER BY peer, pattern", (peer,)
            ).fetchall()
        return [_grant(row) for row in rows]

    def granted(self, peer: int, url: str) -> Grant | None:
        """The grant by which an accepted peer sees a repository, one that lets it relay if there is one."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT peer, pattern, relay FROM grants JOIN peers ON peers.id = peer "
                "WHERE peer = ? AND state = 'accepted' ORDER BY pattern",
                (peer,),
            ).fetchall()
        return best_grant(map(_grant, rows), url)

    # Invitations

    def add_invite(self, code: bytes, patterns: Iterable[str], *, relay: bool, created: int, expires: int) -> InviteRow:
        """Keep an invitation by the hash of its code; what it grants is checked now, not when it is used."""
        kept = tuple(dict.fromkeys(repository_pattern(pattern) for pattern in patterns))
        row = InviteRow(sha256(code).digest(), kept, relay, created, expires, None)

        def job(connection: sqlite3.Connection) -> InviteRow:
            connection.execute("DELETE FROM invites WHERE expires < ?", (created - INVITES_KEPT,))
            connection.execute(
                "INSERT INTO invites VALUES (?, ?, ?, ?, ?, NULL)",
                (row.code_hash, json.dumps(kept), int(relay), created, expires),
            )
            return row

        return self._database.write(job)

    def invites(self) -> list[InviteRow]:
        """All invitations that are kept, newest first."""
        with self._database.read() as connection:
            return [_invite(row) for row in connection.execute(f"{_INVITES} ORDER BY created DESC, code_hash")]

    def redeem(
        self,
        code: bytes,
        first_key: bytes,
        now: int,
        *,
        name: str = "",
        url: str | None = None,
        fingerprint: bytes | None = None,
    ) -> PeerRow:
        """Let in the node that comes with a code: used, accepted and granted in one transaction.

        The node that used it may come again (its answer may have been lost) and is told the same, but is given nothing
        that was revoked since.
        """
        origin = origin_id(first_key)
        claim = _Claim(first_key, name, url, fingerprint, "")

        def job(connection: sqlite3.Connection) -> PeerRow:
            found = connection.execute(f"{_INVITES} WHERE code_hash = ?", (sha256(code).digest(),)).fetchone()
            if found is None:
                raise _refused("the code of the invitation is not known here", "invite-unknown")
            invite = _invite(found)
            if invite.used_by is not None:
                known = _peer(connection, origin)
                if invite.used_by == origin and known is not None and known.state == ACCEPTED:
                    return known
                raise _refused("the invitation was used already", "invite-used")
            if now >= invite.expires:
                raise _refused(f"the invitation ended at {invite.expires} (Unix time, now {now})", "invite-expired")
            connection.execute("UPDATE invites SET used_by = ? WHERE code_hash = ?", (origin, invite.code_hash))
            peer = _accept(connection, claim, now)
            for pattern in invite.patterns:
                connection.execute(
                    "INSERT INTO grants VALUES (?1, ?2, ?3) "
                    "ON CONFLICT DO UPDATE SET relay = max(relay, excluded.relay)",
                    (peer.id, pattern, int(invite.relay)),
                )
            return peer

        return self._database.write(job)

    # Tokens

    def add_token(self, row: TokenRow) -> TokenRow:
        """Keep a token by its hash."""
        made = row._replace(pattern=repository_pattern(row.pattern), name=_line(row.name, MAX_NAME))

        def job(connection: sqlite3.Connection) -> TokenRow:
            connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", made)
            return made

        return self._database.write(job)

    def token(self, token: str) -> TokenRow | None:
        """The token with an id."""
        with self._database.read() as connection:
            row = connection.execute(f"{_TOKENS} WHERE id = ?", (token,)).fetchone()
        return TokenRow(*row) if row else None

    def tokens(self) -> list[TokenRow]:
        """All tokens, oldest first."""
        with self._database.read() as connection:
            return [TokenRow(*row) for row in connection.execute(f"{_TOKENS} ORDER BY created, id")]

    def revoke_token(self, token: str, now: int) -> TokenRow:
        """End a token; the one that was ended."""

        def job(connection: sqlite3.Connection) -> TokenRow:
            connection.execute("UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?", (now, token))
            row = connection.execute(f"{_TOKENS} WHERE id = ?", (token,)).fetchone()
            if row is None:
                raise NotFoundError(f"there is no token {token[:20]!r}", hint="`knowing token list` shows them")
            return TokenRow(*row)

        return self._database.write(job)

    def token_used(self, token: str, now: int) -> None:
        """Remember that a token was used; written once a minute at most."""
        self._touch("tokens", "last_used", token, now)

    # How syncing went

    def sync_state(self, peer: int) -> SyncState:
        """How syncing with a peer went so far."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT peer, view, last_ok, last_error, failures, next_attempt FROM sync_state WHERE peer = ?", (peer,)
            ).fetchone()
        return SyncState(*row) if row else SyncState(peer)

    def set_sync_state(self, state: SyncState) -> None:
        """Keep how syncing with a peer went; nothing if the peer was removed meanwhile."""
        kept = state._replace(last_error=_line(state.last_error, MAX_NOTE))
        self._database.write(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO sync_state SELECT ?1, ?2, ?3, ?4, ?5, ?6 "
                "WHERE EXISTS (SELECT 1 FROM peers WHERE id = ?1)",
                kept,
            ).close()
        )

    def _touch(self, table: str, column: str, key: int | str, now: int) -> None:
        with self._database.read() as connection:
            row = connection.execute(f"SELECT {column} FROM {table} WHERE id = ?", (key,)).fetchone()
        if row is not None and (row[0] is None or not 0 <= now - row[0] < SEEN_EVERY):
            self._database.write(
                lambda connection: connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE id = ?", (now, key)
                ).close()
            )


def best_grant(grants: Iterable[Grant], url: str) -> Grant | None:
    """The first grant that matches a URL, one with relaying before one without.

    Looks at all of them whatever it finds: how long it takes says nothing of whether there is one.
    """
    found = [grant for grant in grants if matches(grant.pattern, url)]
    return next((grant for grant in found if grant.relay), found[0] if found else None)


class _Claim(NamedTuple):
    """What a node, or a person about it, says it is."""

    first_key: bytes
    name: str
    url: str | None
    fingerprint: bytes | None
    note: str


def _peer(connection: sqlite3.Connection, origin: bytes) -> PeerRow | None:
    row = connection.execute(f"{_PEERS} WHERE origin = ?", (origin,)).fetchone()
    return PeerRow(*row) if row else None


def _known(connection: sqlite3.Connection, origin: bytes) -> PeerRow:
    row = _peer(connection, origin)
    assert row is not None
    return row


def _accept(connection: sqlite3.Connection, claim: _Claim, now: int) -> PeerRow:
    origin = origin_id(claim.first_key)
    known = _peer(connection, origin)
    if known is None:
        _insert(connection, claim, ACCEPTED, now)
    else:
        _update(connection, known, claim)
        connection.execute("UPDATE peers SET state = 'accepted' WHERE id = ?", (known.id,))
    return _known(connection, origin)


def _insert(connection: sqlite3.Connection, claim: _Claim, state: str, now: int) -> None:
    origin = origin_id(claim.first_key)
    url = None if claim.url is None else node_url(claim.url)
    name = _free_name(connection, _name(claim.name or host_of(url or ""), origin), state)
    connection.execute(
        "INSERT INTO peers (origin, name, url, first_key, fingerprint, state, note, added_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (origin, name, url, claim.first_key, claim.fingerprint, state, _line(claim.note, MAX_NOTE), now),
    )


def _update(connection: sqlite3.Connection, known: PeerRow, claim: _Claim) -> None:
    """Take over what is given; a new address without a pin ends the old pin, which was of the old address."""
    if claim.url is not None:
        connection.execute(
            "UPDATE peers SET url = ?, fingerprint = ? WHERE id = ?",
            (node_url(claim.url), claim.fingerprint, known.id),
        )
    if claim.note:
        connection.execute("UPDATE peers SET note = ? WHERE id = ?", (_line(claim.note, MAX_NOTE), known.id))


def _free_name(connection: sqlite3.Connection, wanted: str, state: str) -> str:
    """A name that nobody has; whoever is accepted may take it from one that waits, whose name was only a claim."""
    holder = connection.execute("SELECT id, state FROM peers WHERE name = ?", (wanted,)).fetchone()
    if holder is None:
        return wanted
    taken = {name for (name,) in connection.execute("SELECT name FROM peers")}
    free = next(name for name in (f"{wanted}-{number}" for number in count(2)) if name not in taken)
    if state == ACCEPTED and holder[1] == PENDING:
        connection.execute("UPDATE peers SET name = ? WHERE id = ?", (free, holder[0]))
        return wanted
    return free


def _name(text: str, origin: bytes) -> str:
    name = _NOT_NAME.sub("-", text[:200]).strip("-._")[:MAX_NAME]
    if not name or _LOOKS_LIKE_ID.fullmatch(name):
        # A name that could be the beginning of another node's id would be found in its place.
        return f"node-{origin.hex()[:8]}"
    return name


def _line(text: str, limit: int) -> str:
    """A text from outside as one bounded line without control or direction characters."""
    return _CONTROL.sub(" ", text[: limit * 2]).strip()[:limit]


def _grant(row: tuple[int, str, int]) -> Grant:
    return Grant(row[0], row[1], bool(row[2]))


def _invite(row: tuple[bytes, str, int, int, int, bytes | None]) -> InviteRow:
    return InviteRow(row[0], tuple(json.loads(row[1])), bool(row[2]), row[3], row[4], row[5])


def _refused(message: str, code: str) -> UsageError:
    return UsageError(message, code=code, hint="ask for a new one with `knowing peer invite`")
