"""Signed requests between nodes: RFC 9421 message signatures with Ed25519, in the one form that we write.

A request carries four fields. `Content-Digest` (RFC 9530) is the SHA-256 of the body, also of an empty one;
`Knowing-Recipient` is the id of the node that is addressed; `Signature-Input` and `Signature` cover both, the method,
the path and the query, under the label `knowing`:

    Signature-Input: knowing=("@method" "@path" "@query" "content-digest" "knowing-recipient");created=1700000000;
        nonce="AAECAwQFBgcICQoLDA0ODw";keyid="<64 hex digits>";alg="ed25519";tag="knowing-v1"

The authority is not covered, so that a reverse proxy may change it; the recipient takes its place, so that a request
to one node is worth nothing at another. Path and query are signed as they stand on the wire, escapes included.

Promises: what `verify` returns was signed by that key, for this node, within 300 seconds of its clock, with this
method, path, query and body; `ReplayGuard` then lets each of them pass once. Which node a key belongs to, and what it
may do, is for others to say.
Must never: accept another label, another list of components, a parameter more or less, a field twice, or a second
spelling of anything. A verifier that repairs what it reads is one that two programs read differently.
"""

from __future__ import annotations

import heapq
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

from knowing_protocol.ed25519 import Verifier

from knowingd.errors import KnowingError

WINDOW: Final = 300
"""How many seconds a request may be older or newer than the clock of whoever reads it."""
NONCE_SIZE: Final = 16
LABEL: Final = "knowing"
TAG: Final = "knowing-v1"
CONTENT_DIGEST: Final = "Content-Digest"
RECIPIENT: Final = "Knowing-Recipient"
SIGNATURE_INPUT: Final = "Signature-Input"
SIGNATURE: Final = "Signature"

_COMPONENTS: Final = '("@method" "@path" "@query" "content-digest" "knowing-recipient")'
_INPUT: Final = re.compile(
    re.escape(f"{LABEL}={_COMPONENTS}")
    + r';created=(0|[1-9][0-9]{0,14});nonce="([A-Za-z0-9_-]{22})";keyid="([0-9a-f]{64})"'
    + re.escape(f';alg="ed25519";tag="{TAG}"')
)
_SIGNATURE: Final = re.compile(re.escape(LABEL) + r"=:([A-Za-z0-9+/]{86}==):")
_DIGEST: Final = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")
_ORIGIN: Final = re.compile(r"[0-9a-f]{64}")
_METHOD: Final = re.compile(r"[A-Z]{1,20}")
# Printable ASCII alone: a newline in one of them would let a request write lines of its own signature base.
_PATH: Final = re.compile(r"/[!-~]*")
_QUERY: Final = re.compile(r"[!-~]*")
_FIELDS: Final = (SIGNATURE_INPUT, SIGNATURE, CONTENT_DIGEST, RECIPIENT)


class SignatureError(KnowingError):
    """A request that is not signed as it must be; `code` names the defect."""

    code = "signature-invalid"
    exit_code = 5


class Signed(NamedTuple):
    """What a signature says of the request that it was found on."""

    key: bytes
    nonce: bytes
    created: int


def content_digest(body: bytes) -> str:
    """The `Content-Digest` of a body."""
    return f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"


def parameters(created: int, nonce: bytes, key: bytes) -> str:
    """The covered components and parameters of a signature: what `Signature-Input` has after the label."""
    text = urlsafe_b64encode(nonce).decode().rstrip("=")
    return f'{_COMPONENTS};created={created};nonce="{text}";keyid="{key.hex()}";alg="ed25519";tag="{TAG}"'


def signature_base(method: str, path: str, query: str, digest: str, recipient: str, params: str) -> bytes:
    """The bytes that are signed (RFC 9421, section 2.5); `query` stands without its question mark."""
    if not _METHOD.fullmatch(method) or not _PATH.fullmatch(path) or not _QUERY.fullmatch(query):
        raise _malformed("the method, path or query of the request has a character that it must not have")
    if "?" in path or "#" in path or "#" in query:
        raise _malformed("the path of the request has a query inside, or a fragment is left in it")
    return (
        f'"@method": {method}\n"@path": {path}\n"@query": ?{query}\n"content-digest": {digest}\n'
        f'"knowing-recipient": {recipient}\n"@signature-params": {params}'
    ).encode("ascii")


def sign(
    method: str,
    path: str,
    query: str,
    body: bytes,
    recipient: bytes,
    key: bytes,
    signer: Callable[[bytes], bytes],
    now: int,
    nonce: bytes,
) -> dict[str, str]:
    """The four fields that sign a request to `recipient`; `signer` signs bytes with the private half of `key`."""
    if len(nonce) != NONCE_SIZE or len(key) != 32 or len(recipient) != 32:
        raise ValueError("a nonce has 16 bytes, a key and a recipient have 32")
    digest, params = content_digest(body), parameters(now, nonce, key)
    signature = signer(signature_base(method, path, query, digest, recipient.hex(), params))
    return {
        CONTENT_DIGEST: digest,
        RECIPIENT: recipient.hex(),
        SIGNATURE_INPUT: f"{LABEL}={params}",
        SIGNATURE: f"{LABEL}=:{b64encode(signature).decode()}:",
    }


def verify(
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    recipient: bytes,
    now: int,
    verifier: Verifier,
) -> Signed:
    """Who signed the request; raises unless all of it is as it was signed, for `recipient`, and now.

    `headers` may be a multidict: a field that stands in it twice is refused. The signature is checked last, after
    everything that costs less, so that errors before it are about what the request claims and nothing more.
    """
    fields = _fields(headers)
    if SIGNATURE_INPUT not in fields and SIGNATURE not in fields:
        raise SignatureError(
            "the request is not signed", code="signature-missing", hint="nodes sign requests, scripts use a token"
        )
    signed, params = _input(_field(fields, SIGNATURE_INPUT))
    signature = _canonical_base64(_SIGNATURE, _field(fields, SIGNATURE), SIGNATURE)
    digest = _canonical_base64(_DIGEST, _field(fields, CONTENT_DIGEST), CONTENT_DIGEST)
    addressed = _field(fields, RECIPIENT)
    if not _ORIGIN.fullmatch(addressed):
        raise _malformed(f"{RECIPIENT} is not the id of a node in lower-case hex")
    base = signature_base(method, path, query, fields[CONTENT_DIGEST], addressed, params)
    if addressed != recipient.hex():
        raise SignatureError(
            f"the request is for the node {addressed[:16]}, this is {recipient.hex()[:16]}",
            code="wrong-recipient",
            hint="another node answers at this address now; check it, then add the peer again",
        )
    if abs(signed.created - now) > WINDOW:
        raise SignatureError(
            f"the request was made at {signed.created} and read at {now} (Unix time): "
            f"{abs(signed.created - now)} seconds apart, at most {WINDOW} are allowed",
            code="clock-skew",
            hint="set the clocks of both machines",
        )
    if not compare_digest(digest, sha256(body).digest()):
        raise SignatureError(
            "the body of the request is not the one that its digest is of",
            code="digest-mismatch",
            hint="something between the nodes changes bodies; a proxy must pass them on as they are",
        )
    if not verifier(signed.key, base, signature):
        raise SignatureError(
            f"the signature by the key {signed.key.hex()[:16]} does not fit the request",
            code="signature-invalid",
            hint="something between the nodes changes requests; a proxy must pass path and query on as they are",
        )
    return signed


def _malformed(message: str) -> SignatureError:
    return SignatureError(message, code="signature-malformed", hint="both nodes must speak the same protocol version")


def _fields(headers: Mapping[str, str]) -> dict[str, str]:
    names = {name.lower(): name for name in _FIELDS}
    found: dict[str, str] = {}
    for given, value in headers.items():
        name = names.get(given.lower())
        if name is None:
            continue
        if name in found:
            raise _malformed(f"the request has the field {name} twice")
        found[name] = value
    return found


def _field(fields: Mapping[str, str], name: str) -> str:
    if name not in fields:
        raise _malformed(f"the signature covers {name}, but the request has no such field")
    return fields[name]


def _input(text: str) -> tuple[Signed, str]:
    match = _INPUT.fullmatch(text)
    if match is None:
        raise _malformed(f"{SIGNATURE_INPUT} is not the one list of components and parameters that nodes use")
    created, nonce_text, key = int(match[1]), match[2], bytes.fromhex(match[3])
    nonce = urlsafe_b64decode(nonce_text + "==")
    params = parameters(created, nonce, key)
    if f"{LABEL}={params}" != text:  # the last digit of the nonce has bits to spare
        raise _malformed("the nonce is not canonical base64")
    return Signed(key, nonce, created), params


def _canonical_base64(form: re.Pattern[str], text: str, name: str) -> bytes:
    match = form.fullmatch(text)
    data = b64decode(match[1]) if match else b""
    if match is None or b64encode(data).decode() != match[1]:
        raise _malformed(f"{name} is not in the one form that nodes use")
    return data


class _Caller:
    """The nonces of one key, and the time up to which all of its requests count as seen."""

    __slots__ = ("by_time", "floor", "newest", "nonces")

    def __init__(self) -> None:
        self.floor = 0
        self.newest = 0
        self.nonces: set[bytes] = set()
        self.by_time: list[tuple[int, bytes]] = []  # a heap, oldest first

    def forget(self, before: int, at_most: int) -> None:
        """Drop what is older than `before` and what is too much; what is dropped is refused by its time from now on."""
        while self.by_time and (self.by_time[0][0] < before or len(self.by_time) > at_most):
            created, nonce = heapq.heappop(self.by_time)
            self.nonces.discard(nonce)
            self.floor = max(self.floor, created)


class ReplayGuard:
    """Lets each signed request pass once; to be asked after `verify`, with the same clock, by one thread.

    A nonce is remembered for as long as `verify` would take its request. Memory is bounded by (keys, nonces a key).
    A key that fills its share loses its own oldest nonces, and from then on everything of that key which is not newer
    than the ones lost is refused: so forgetting never makes a replay pass, an honest caller with a running clock
    notices nothing, and a flood by one key costs only that key. If all places for keys are taken by live ones, a new
    key is refused (`replay-table-full`): keep one guard for accepted peers, whose number is bounded, and another for
    strangers, and strangers can lock out only each other.

    After a restart nothing is known of what passed before. Therefore everything created up to and including the second
    in which the guard was made counts as seen; a caller that signs again (a new nonce, a new time) passes. What that
    does not cover is a request by a clock that runs ahead, dated after the restart and seen before it, which can be
    replayed until its window ends. Nothing but a write to disk for every request would close that, so a handler must
    not do harm when a request comes twice.
    """

    def __init__(self, started: int, *, keys: int = 1024, nonces: int = 4096) -> None:
        self._floor = started
        self._keys = keys
        self._nonces = nonces
        self._callers: dict[bytes, _Caller] = {}

    def check(self, signed: Signed, now: int) -> None:
        """Remember a request, or raise `replayed` if it may have been seen before."""
        caller = self._callers.get(signed.key) or self._new(now)
        caller.forget(now - WINDOW, self._nonces)
        if signed.created <= max(caller.floor, self._floor) or signed.nonce in caller.nonces:
            raise SignatureError(
                f"the request of {signed.created} (Unix time, read at {now}) was seen before, or may have been",
                code="replayed",
                hint="send it again, signed anew",
            )
        caller.nonces.add(signed.nonce)
        heapq.heappush(caller.by_time, (signed.created, signed.nonce))
        caller.newest = max(caller.newest, signed.created)
        self._callers[signed.key] = caller

    def _new(self, now: int) -> _Caller:
        if len(self._callers) >= self._keys:
            for old, caller in list(self._callers.items()):
                if caller.newest < now - WINDOW:  # the clock refuses all of it, and goes on to if it is set back
                    self._floor = max(self._floor, caller.newest)
                    del self._callers[old]
        if len(self._callers) >= self._keys:
            raise SignatureError(
                f"{self._keys} keys have made requests in the last minutes; no more are taken now",
                code="replay-table-full",
                hint="try again in a few minutes",
            )
        return _Caller()
