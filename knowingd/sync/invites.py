"""Invitations: one line that says where a node is, who it is, how to know it again, and lets its reader in once.

`knowing-invite-1.` and the base64url of a canonical JSON record: `url`, `first_key`, `origin`, `tls` (the SHA-256
fingerprint of a self-made certificate, or empty), `code` (128 random bits, good for one use), and `check`, a checksum
of the others. The checksum is no protection against anybody but a tired typist: it tells a line that was damaged on
its way from a code that the node does not know.

Promises: `parse_invite(invite_text(x)) == x`; whatever else is put in is refused with what is wrong with it.
Must never: contact anything, or accept a line whose node id is not the hash of its first key.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import sha256
from typing import Final, NamedTuple

from knowing_protocol import encoding
from knowing_protocol.errors import KnowingError
from knowing_protocol.history import origin_id

from knowingd.errors import UsageError
from knowingd.store.addresses import MAX_ADDRESS, node_url

PREFIX: Final = "knowing-invite-"
VERSION: Final = "1"
CODE_SIZE: Final = 16
MAX_INVITE: Final = 4096
_CHECK_BYTES: Final = 6
_VERSIONED: Final = re.compile(re.escape(PREFIX) + r"([0-9]{1,9})\.(.*)", re.DOTALL)
_PLAIN: Final = re.compile(rb"[ -~]*")
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*")


class Invite(NamedTuple):
    """An invitation; `tls` is the fingerprint to pin, None where the certificate is a normal one or there is none."""

    url: str
    first_key: bytes
    tls: bytes | None
    code: bytes

    @property
    def origin(self) -> bytes:
        """The id of the node that invites."""
        return origin_id(self.first_key)


def invite_text(invite: Invite) -> str:
    """The one line of an invitation."""
    if len(invite.code) != CODE_SIZE or len(invite.first_key) != 32 or len(invite.tls or bytes(32)) != 32:
        raise ValueError("a code has 16 bytes, a key and a fingerprint have 32")
    if invite.url != node_url(invite.url) or (invite.tls and not invite.url.startswith("https:")):
        raise ValueError("the address of an invitation is in its one spelling, and https where a certificate is pinned")
    fields = _fields(invite)
    data = encoding.canonical_json({**fields, "check": _check(fields)})
    return f"{PREFIX}{VERSION}.{_to_base64(data)}"


def parse_invite(text: str) -> Invite:
    """The invitation of a line; spaces and newlines around it are what pasting adds."""
    text = text.strip()
    match = _VERSIONED.fullmatch(text) if len(text) <= MAX_INVITE else None
    if match is None:
        raise UsageError(
            "that is not an invitation",
            code="not-an-invitation",
            hint=f"it is one line that begins with {PREFIX}{VERSION}. and comes from `knowing peer invite`",
        )
    if match[1] != VERSION:
        raise UsageError(
            f"the invitation is of version {match[1]}; this program reads version {VERSION}",
            code="invite-version",
            hint="use the same version of knowing on both machines",
        )
    return _invite(_document(match[2]))


def _document(text: str) -> bytes:
    if not _ALPHABET.fullmatch(text):
        raise _mistyped("it has characters inside that no invitation has, perhaps a space or a line break")
    try:
        # A line that was cut anywhere decodes up to its last whole character group.
        data = urlsafe_b64decode(text[: len(text) // 4 * 4])
        tail = text[len(text) // 4 * 4 :]
        data += urlsafe_b64decode(tail + "=" * (-len(tail) % 4)) if len(tail) > 1 else b""
    except (Base64Error, ValueError):
        raise _mistyped("it cannot be decoded") from None
    if data[:1] not in (b"", b"{") or not _PLAIN.fullmatch(data):
        raise _mistyped("a character is missing, wrong, or too many")  # from there on all bits are shifted
    if not data.endswith(b"}"):
        raise UsageError(
            "the end of the invitation is missing",
            code="invite-truncated",
            hint="copy the whole line; a terminal may have wrapped it",
        )
    if _to_base64(data) != text:
        raise _mistyped("its last character is not the one that was printed")
    return data


def _invite(data: bytes) -> Invite:
    try:
        found = _RECORD(encoding.parse_json(data, MAX_INVITE), "the invitation")
    except KnowingError as error:
        raise _mistyped(error.message) from error
    fields: dict[str, str] = {name: value for name, value in found.items() if name != "check"}
    if encoding.canonical_json(found) != data or found["check"] != _check(fields):
        raise _mistyped("its checksum does not fit")
    try:
        first_key, origin, code = (bytes.fromhex(fields[name]) for name in ("first_key", "origin", "code"))
        tls = bytes.fromhex(fields["tls"])
        url = node_url(fields["url"])
    except (ValueError, UsageError) as error:
        raise _wrong("a field of it is not what it must be") from error
    if len(code) != CODE_SIZE or len(first_key) != 32 or len(tls) not in (0, 32) or url != fields["url"]:
        raise _wrong("a field of it is not what it must be")
    if origin != origin_id(first_key):
        raise _wrong("its node is not the one that its key belongs to")
    if tls and not url.startswith("https:"):
        raise _wrong("it names a certificate, but not an https address")
    invite = Invite(url, first_key, tls or None, code)
    if _fields(invite) != fields:
        raise _wrong("a field of it is not in its one spelling")
    return invite


def _fields(invite: Invite) -> dict[str, str]:
    return {
        "url": invite.url,
        "first_key": invite.first_key.hex(),
        "origin": invite.origin.hex(),
        "tls": (invite.tls or b"").hex(),
        "code": invite.code.hex(),
    }


_RECORD: Final = encoding.record(
    {
        "url": encoding.text(MAX_ADDRESS),
        "first_key": encoding.text(64),
        "origin": encoding.text(64),
        "tls": encoding.text(64),
        "code": encoding.text(32),
        "check": encoding.text(2 * _CHECK_BYTES),
    }
)


def _check(fields: dict[str, str]) -> str:
    return sha256(encoding.canonical_json(fields)).hexdigest()[: 2 * _CHECK_BYTES]


def _to_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _mistyped(why: str) -> UsageError:
    return UsageError(
        f"the invitation was damaged on its way: {why}",
        code="invite-mistyped",
        hint="copy the whole line again",
    )


def _wrong(why: str) -> UsageError:
    return UsageError(
        f"the invitation is wrong: {why}", code="invite-malformed", hint="ask for a new one with `knowing peer invite`"
    )
