"""Tokens: one spelling, only a hash kept, and nothing told to whoever does not hold the secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowingd.store.peerstore import TokenRow
from knowingd.sync.tokens import PUBLISH, READ, Token, TokenError, allows, authenticate, new_token, parse_token

NOW = 1_700_000_000
tokens = st.builds(Token, st.binary(min_size=4, max_size=4).map(bytes.hex), st.binary(min_size=32, max_size=32))


def row(token: Token, *, scope: str = READ, expires: int | None = None, revoked: int | None = None) -> TokenRow:
    return TokenRow(token.id, token.digest, scope, "github.com/acme/*", "ci", NOW, expires, revoked)


def refused(text: str, kept: TokenRow | None) -> str:
    with pytest.raises(TokenError) as caught:
        authenticate(text, lambda token: kept if kept and kept.id == token else None, NOW)
    assert caught.value.hint
    assert len(text) < 9 or text[17:] not in caught.value.message
    return caught.value.code


@given(tokens)
def test_what_is_printed_is_what_is_read(token: Token) -> None:
    assert parse_token(token.text) == token
    assert authenticate(token.text, lambda _: row(token), NOW).id == token.id


@given(tokens, st.data())
def test_any_change_of_one_character_is_refused(token: Token, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(token.text) - 1))
    character = data.draw(st.characters().filter(lambda c: c != token.text[place]))
    changed = token.text[:place] + character + token.text[place + 1 :]
    assert refused(changed, row(token)) in {"token-invalid", "token-malformed"}


@pytest.mark.parametrize("text", ["", "knowing_", "Bearer x", "knowing_0123456_" + "A" * 43, "knowing_01234567_A\n"])
def test_other_texts_are_no_tokens(text: str) -> None:
    assert refused(text, None) == "token-malformed"


def test_an_unknown_token_and_a_wrong_secret_answer_alike() -> None:
    token = new_token()
    other = Token(token.id, bytes(32))
    with pytest.raises(TokenError) as unknown:
        authenticate(token.text, lambda _: None, NOW)
    for kept in (row(token), row(token, revoked=NOW), row(token, expires=NOW - 1)):
        with pytest.raises(TokenError) as wrong:
            authenticate(other.text, lambda _, kept=kept: kept, NOW)  # type: ignore[misc]
        assert wrong.value.as_json() == unknown.value.as_json()


def test_its_holder_is_told_why_a_token_no_longer_works() -> None:
    token = new_token()
    assert refused(token.text, row(token, revoked=NOW)) == "token-revoked"
    assert refused(token.text, row(token, expires=NOW)) == "token-expired"
    assert authenticate(token.text, lambda _: row(token, expires=NOW + 1), NOW)


def test_scopes_and_patterns() -> None:
    reader, publisher = row(new_token()), row(new_token(), scope=PUBLISH)
    mine, other = "github.com/acme/a/b", "github.com/acmeister/a"
    assert [allows(reader, READ, mine), allows(reader, PUBLISH, mine), allows(reader, READ, other)] == [1, 0, 0]
    assert [allows(publisher, READ, mine), allows(publisher, PUBLISH, mine)] == [1, 1]
    assert not allows(publisher, PUBLISH, other)


def test_a_secret_is_not_shown_by_accident() -> None:
    token = new_token()
    assert token.text[17:] not in f"{token!r} {token}"
    assert str(token.secret) not in repr([token])
    assert len({new_token().text for _ in range(100)}) == 100
