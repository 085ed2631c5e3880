"""Who sends a request: a peer by its signature, a person or script by a token, or nobody that is known.

Everything is decided from the request and the database at that moment, so that a grant, a revocation or a removed peer
counts from the next request on.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from typing import Final

from aiohttp import web
from knowing_protocol.keys import KeyChain

from knowingd import keys
from knowingd.errors import KnowingError
from knowingd.federation import Federation, NotAllowedError
from knowingd.store.peerstore import ACCEPTED, PeerRow, TokenRow
from knowingd.sync.logs import key_chain
from knowingd.sync.signatures import ReplayGuard, SignatureError, Signed, verify
from knowingd.sync.tokens import authenticate

MAX_REQUEST: Final = 16 << 20
EVERYTHING: Final = "*"


class BusyPeerError(KnowingError):
    """Somebody asks too much at once."""

    code = "too-many-requests"

    def __init__(self, reason: str, wait: float) -> None:
        super().__init__(f"too many requests ({reason})", hint=f"try again in {wait:.0f} seconds")
        self.wait = wait


class Callers:
    """Tells who sends a request."""

    def __init__(self, federation: Federation, started: int) -> None:
        self.federation = federation
        self._peers = ReplayGuard(started)
        self._strangers = ReplayGuard(started)
        self._lock = threading.Lock()  # requests are looked at in several threads
        self._chains: dict[tuple[bytes, tuple[str, ...]], KeyChain] = {}

    def signed(self, request: web.Request, body: bytes) -> Signed:
        """Check a request's signature, whoever signed it."""
        path, _, query = request.raw_path.partition("?")
        return verify(
            request.method, path, query, request.headers, body, self.federation.origin, int(time.time()), keys.verify
        )

    def peer(self, request: web.Request, body: bytes) -> PeerRow:
        """The accepted peer that signed a request."""
        signed = self.signed(request, body)
        peer = self._by_key(signed.key)
        if peer is None:
            raise SignatureError(
                f"no accepted peer has the key {signed.key.hex()[:16]}",
                code="unknown-key",
                hint="ask whoever runs this node for an invitation, or to accept you with `knowing peer accept`",
            )
        with self._lock:
            self._peers.check(signed, int(time.time()))
        return peer

    def stranger(self, request: web.Request, body: bytes, first_key: bytes, notes: list[str]) -> KeyChain:
        """The keys that somebody shows, if the request is signed with the newest of them."""
        signed = self.signed(request, body)
        chain = key_chain(first_key, notes, keys.verify)
        if chain.current != signed.key or chain.is_revoked(signed.key):
            raise SignatureError("the request is not signed with the key that it shows", code="signature-invalid")
        with self._lock:
            self._strangers.check(signed, int(time.time()))
        return chain

    def _by_key(self, key: bytes) -> PeerRow | None:
        for peer in self.federation.peers.peers(ACCEPTED):
            notes = tuple(self.federation.origins.key_notes(peer.origin))
            chain = self._chains.get((peer.first_key, notes))
            if chain is None:
                chain = self._chains[peer.first_key, notes] = key_chain(peer.first_key, notes, keys.verify)
            if chain.current == key and not chain.is_revoked(key):
                return peer
        return None

    def token(self, request: web.Request) -> TokenRow:
        """The token that a request carries."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise NotAllowedError(
                "the request has no token", code="token-missing", hint="send `Authorization: Bearer …`"
            )
        row = authenticate(text.strip(), self.federation.peers.token, int(time.time()))
        self.federation.peers.token_used(row.id, int(time.time()))
        return row

    def operator(self, request: web.Request) -> None:
        """Whoever may see everything: somebody on this machine, or who has a token for all repositories."""
        # Of what a proxy on this machine passes on, the address says nothing.
        passed_on = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
        if (passed_on or not _on_this_machine(request.remote)) and self.token(request).pattern != EVERYTHING:
            raise NotAllowedError("this is only for those who may see every repository")


def _on_this_machine(address: str | None) -> bool:
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
