"""Invitations: what is printed is what is read, and whatever else is pasted is told what is wrong with it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol.history import origin_id

from knowingd.errors import UsageError
from knowingd.store.addresses import node_url
from knowingd.sync.invites import Invite, invite_text, parse_invite

INVITE = Invite("https://hub.acme.com:8443/graph", bytes(range(32)), b"\x07" * 32, bytes(range(16)))
TEXT = invite_text(INVITE)

urls = st.builds(
    lambda scheme, host, port, path: node_url(f"{scheme}://{host}{port}{path}"),
    st.sampled_from(["http", "https"]),
    st.sampled_from(["hub", "hub.acme.com", "127.0.0.1", "[::1]", "xn--bcher-kva.example"]),
    st.sampled_from(["", ":80", ":8443"]),
    st.sampled_from(["", "/graph", "/a/b~c"]),
)
keys = st.binary(min_size=32, max_size=32)
invites = st.builds(Invite, urls, keys, st.none() | keys, st.binary(min_size=16, max_size=16)).map(
    lambda invite: invite if invite.url.startswith("https:") else invite._replace(tls=None)
)


def refused(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_invite(text)
    assert caught.value.hint
    return caught.value.code


@given(invites)
def test_what_is_printed_is_what_is_read(invite: Invite) -> None:
    text = invite_text(invite)
    assert parse_invite(text) == invite
    assert parse_invite(f"\n  {text} \r\n") == invite
    assert text.isascii()
    assert not set(text) & set(" \n\"'$&")  # one word in any shell


@given(invites, st.data())
def test_any_change_of_one_character_is_refused(invite: Invite, data: st.DataObject) -> None:
    text = invite_text(invite)
    place = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters().filter(lambda c: c != text[place]))
    changed = text[:place] + character + text[place + 1 :]
    if changed.strip() != changed:
        return  # the first or last character became a space: that is another change, a cut
    assert refused(changed).startswith(("invite-", "not-an-invitation"))


def test_every_change_to_another_letter_is_refused_and_most_are_told_as_damage() -> None:
    codes = set()
    for place in range(len(TEXT)):
        for character in "Aa0_-.":
            if TEXT[place] != character:
                codes.add(refused(TEXT[:place] + character + TEXT[place + 1 :]))
    assert codes == {"invite-mistyped", "invite-truncated", "invite-version", "not-an-invitation"}


@given(st.integers(0, len(TEXT) - 1))
def test_a_cut_line_is_told_as_cut(length: int) -> None:
    begun = length >= len("knowing-invite-1.")
    assert refused(TEXT[:length]) == ("invite-truncated" if begun else "not-an-invitation")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "not-an-invitation"),
        ("https://hub.acme.com", "not-an-invitation"),
        (TEXT[5:], "not-an-invitation"),
        (TEXT * 20, "not-an-invitation"),
        (TEXT.replace("-1.", "-2."), "invite-version"),
        (TEXT[:60] + "\n" + TEXT[60:], "invite-mistyped"),
        (TEXT[:60] + TEXT[61:], "invite-mistyped"),
        (TEXT + "A", "invite-mistyped"),
        (TEXT + "=", "invite-mistyped"),
    ],
)
def test_other_texts_are_told_apart(text: str, code: str) -> None:
    assert refused(text) == code


def rewritten(**fields: Any) -> str:
    """The invitation with other fields and a checksum that fits: not damaged, but wrong."""
    data = json.loads(urlsafe_b64decode(TEXT.partition(".")[2] + "=="))
    del data["check"]
    data |= fields
    plain = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    data["check"] = sha256(plain).hexdigest()[:12]
    text = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return "knowing-invite-1." + urlsafe_b64encode(text).decode().rstrip("=")


def test_the_rewriter_of_these_tests_writes_what_we_write() -> None:
    assert rewritten() == TEXT


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "00" * 32},
        {"first_key": "01" * 32},
        {"url": "https://user:secret@hub"},
        {"url": "https://HUB"},
        {"url": "https://hub/"},
        {"url": "ftp://hub"},
        {"url": "http://hub"},
        {"tls": "07" * 31},
        {"tls": "AB" * 32},
        {"code": "00" * 15},
        {"code": "xx" * 16},
    ],
)
def test_a_wrong_invitation_is_refused_whoever_made_it(fields: dict[str, str]) -> None:
    assert refused(rewritten(**fields)) == "invite-malformed"


@pytest.mark.parametrize("fields", [{"more": "1"}, {"url": 1}, {"code": None}, {"tls": "0" * 100}])
def test_other_fields_and_types_are_refused(fields: dict[str, Any]) -> None:
    assert refused(rewritten(**fields)) == "invite-mistyped"


def test_the_node_is_the_one_that_the_key_belongs_to() -> None:
    assert INVITE.origin == origin_id(INVITE.first_key)


@pytest.mark.parametrize(
    "invite",
    [
        INVITE._replace(code=b"short"),
        INVITE._replace(url="http://hub"),
        INVITE._replace(url="https://hub/"),
        INVITE._replace(tls=b"short"),
    ],
)
def test_what_could_not_be_read_is_not_written(invite: Invite) -> None:
    with pytest.raises(ValueError, match=r"invitation|bytes"):
        invite_text(invite)
