"""Bearer tokens for people, scripts and CI runners: `knowing_<8 hex digits>_<base64url of 32 random bytes>`.

The digits name the token in lists and logs; the rest is the secret. The node keeps the SHA-256 of the whole text and
shows the text once. A token has a scope (`read`, or `publish`, which includes reading what it publishes to), a pattern
of repositories (SPEC 4.5), and perhaps an end.

Promises: secrets are compared in constant time, and a token that does not exist takes the same path as one whose secret
is wrong and gives the same answer. Why a token no longer works is told only to whoever holds its secret.
Must never: keep, log or repeat a secret.
"""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

from knowing_protocol.urls import matches

from knowingd.errors import KnowingError
from knowingd.store.peerstore import TokenRow

READ: Final = "read"
PUBLISH: Final = "publish"
SCOPES: Final = (READ, PUBLISH)
_TOKEN: Final = re.compile(r"knowing_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_ID_BYTES: Final = 4
_SECRET_BYTES: Final = 32


class TokenError(KnowingError):
    """A token that does not open what it was shown for; `code` says why as far as its holder may know."""

    code = "token-invalid"
    exit_code = 5


class Token(NamedTuple):
    """A token as its holder has it."""

    id: str
    secret: bytes

    @property
    def text(self) -> str:
        """What goes into the `Authorization` field, after `Bearer `."""
        return f"knowing_{self.id}_{urlsafe_b64encode(self.secret).decode().rstrip('=')}"

    @property
    def digest(self) -> bytes:
        """What the node keeps."""
        return sha256(self.text.encode("ascii")).digest()

    def __repr__(self) -> str:
        return f"Token({self.id})"  # a secret in a traceback is a secret in a log


def new_token() -> Token:
    """A token that nobody has yet."""
    return Token(secrets.token_hex(_ID_BYTES), secrets.token_bytes(_SECRET_BYTES))


def parse_token(text: str) -> Token:
    """The token of a text, in its one spelling."""
    match = _TOKEN.fullmatch(text)
    token = Token(match[1], urlsafe_b64decode(match[2] + "=")) if match else None
    if token is None or token.text != text:
        raise TokenError("that is not a token", code="token-malformed", hint="`knowing token create` prints one")
    return token


def authenticate(text: str, find: Callable[[str], TokenRow | None], now: int) -> TokenRow:
    """The row of a token that may be used now; `find` gives the row of an id."""
    token = parse_token(text)
    row = find(token.id)
    same = compare_digest(token.digest, row.digest if row is not None else bytes(32))
    if row is None or not same:
        raise TokenError("the token is not known here", code="token-invalid", hint="check which node it was made for")
    if row.revoked is not None:
        raise TokenError(f"the token {row.id} was revoked", code="token-revoked", hint="ask for a new one")
    if row.expires is not None and now >= row.expires:
        raise TokenError(
            f"the token {row.id} ended at {row.expires} (Unix time, now {now})",
            code="token-expired",
            hint="ask for a new one",
        )
    return row


def allows(row: TokenRow, scope: str, url: str) -> bool:
    """Whether a token opens a repository for reading or for publishing."""
    return (row.scope in (scope, PUBLISH)) and matches(row.pattern, url)
