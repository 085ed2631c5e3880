"""Signed requests: the bytes of RFC 9421, what is refused, and that nothing passes twice."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol import ed25519
from knowing_protocol.history import origin_id
from world import seed

from knowingd.keys import SigningKey, verify
from knowingd.sync import signatures
from knowingd.sync.signatures import WINDOW, ReplayGuard, SignatureError, Signed

SENDER, OTHER = SigningKey("", seed("sender")), SigningKey("", seed("other"))
HERE, ELSEWHERE = origin_id(SigningKey("", seed("here")).public_key), origin_id(OTHER.public_key)
NOW = 1_700_000_000
NONCE = bytes(range(16))
BODY = b'{"have": 1}'


def request(
    method: str = "POST", path: str = "/v1/roster", query: str = "since=4&x=%2F", body: bytes = BODY
) -> dict[str, str]:
    return signatures.sign(method, path, query, body, HERE, SENDER.public_key, SENDER.sign, NOW, NONCE)


def read(
    headers: Mapping[str, str],
    *,
    method: str = "POST",
    path: str = "/v1/roster",
    query: str = "since=4&x=%2F",
    body: bytes = BODY,
    recipient: bytes = HERE,
    now: int = NOW,
) -> Signed:
    return signatures.verify(method, path, query, headers, body, recipient, now, verify)


def refused(run: Callable[[], object]) -> str:
    with pytest.raises(SignatureError) as caught:
        run()
    assert caught.value.hint
    return caught.value.code


def test_the_signature_base_is_that_of_rfc_9421_byte_for_byte() -> None:
    # Written out by hand from RFC 9421, sections 2.2, 2.3 and 2.5.
    key = SENDER.public_key.hex()
    digest = b64encode(sha256(BODY).digest()).decode()
    base = (
        '"@method": POST\n'
        '"@path": /v1/roster\n'
        '"@query": ?since=4&x=%2F\n'
        f'"content-digest": sha-256=:{digest}:\n'
        f'"knowing-recipient": {HERE.hex()}\n'
        '"@signature-params": ("@method" "@path" "@query" "content-digest" "knowing-recipient")'
        f';created=1700000000;nonce="AAECAwQFBgcICQoLDA0ODw";keyid="{key}";alg="ed25519";tag="knowing-v1"'
    ).encode()
    seen: list[bytes] = []

    def signer(message: bytes) -> bytes:
        seen.append(message)
        return SENDER.sign(message)

    headers = signatures.sign("POST", "/v1/roster", "since=4&x=%2F", BODY, HERE, SENDER.public_key, signer, NOW, NONCE)
    assert seen == [base]
    assert headers == {
        "Content-Digest": f"sha-256=:{digest}:",
        "Knowing-Recipient": HERE.hex(),
        "Signature-Input": 'knowing=("@method" "@path" "@query" "content-digest" "knowing-recipient")'
        f';created=1700000000;nonce="AAECAwQFBgcICQoLDA0ODw";keyid="{key}";alg="ed25519";tag="knowing-v1"',
        "Signature": f"knowing=:{b64encode(SENDER.sign(base)).decode()}:",
    }
    # A verifier that shares no code with the signer agrees.
    assert ed25519.verify(SENDER.public_key, base, b64decode(headers["Signature"][9:-1]))
    assert read(headers) == Signed(SENDER.public_key, NONCE, NOW)


def test_an_empty_body_has_the_digest_of_rfc_9530_and_an_empty_query_is_a_question_mark() -> None:
    headers = request("GET", "/", "", b"")
    assert headers["Content-Digest"] == "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"
    assert b'"@query": ?\n' in signatures.signature_base("GET", "/", "", "d", "r", "p")
    assert read(headers, method="GET", path="/", query="", body=b"").created == NOW


@pytest.mark.parametrize("ahead", [-WINDOW, WINDOW])
def test_clocks_may_differ_by_the_window_and_not_by_a_second_more(ahead: int) -> None:
    headers = request()
    assert read(headers, now=NOW + ahead).created == NOW
    beyond = NOW + ahead + (1 if ahead > 0 else -1)
    with pytest.raises(SignatureError, match=f"made at {NOW} and read at {beyond}") as caught:
        read(headers, now=beyond)
    assert caught.value.code == "clock-skew"


def test_each_defect_has_its_code() -> None:
    headers = request()
    assert refused(lambda: read({})) == "signature-missing"
    for name in headers:
        assert refused(partial(read, {k: v for k, v in headers.items() if k != name})) == "signature-malformed"
    assert refused(lambda: read(headers, recipient=ELSEWHERE)) == "wrong-recipient"
    assert refused(lambda: read(headers, body=BODY + b" ")) == "digest-mismatch"
    assert refused(lambda: read(headers, path="/v1/Roster")) == "signature-invalid"
    forged = headers["Signature-Input"].replace(SENDER.public_key.hex(), OTHER.public_key.hex())
    assert refused(lambda: read({**headers, "Signature-Input": forged})) == "signature-invalid"


def respellings(headers: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    given_input, signature, digest = headers["Signature-Input"], headers["Signature"], headers["Content-Digest"]
    params = given_input.removeprefix("knowing=")
    components = params.split(";")[0]
    inputs = {
        "another label": f"sig1={params}",
        "two labels": f"{given_input}, other={params}",
        "the label twice": f"{given_input}, {given_input}",
        "a space before": " " + given_input,
        "a newline behind": given_input + "\n",
        "a space after a semicolon": given_input.replace(";created", "; created"),
        "components in another order": given_input.replace('"@method" "@path"', '"@path" "@method"'),
        "a component less": given_input.replace(' "@query"', ""),
        "a component more": given_input.replace('"@method"', '"@method" "@authority"'),
        "a component twice": given_input.replace('"@method"', '"@method" "@method"'),
        "a component with a parameter": given_input.replace('"content-digest"', '"content-digest";sf'),
        "no components": given_input.replace(components, "()"),
        "a parameter more": given_input + ";expires=1800000000",
        "a parameter twice": given_input + f";created={NOW}",
        "parameters in another order": re.sub(r'(;alg="ed25519")(;tag="knowing-v1")', r"\2\1", given_input),
        "no tag": given_input.replace(';tag="knowing-v1"', ""),
        "another tag": given_input.replace("knowing-v1", "knowing-v2"),
        "another algorithm": given_input.replace("ed25519", "hmac-sha256"),
        "no algorithm": given_input.replace(';alg="ed25519"', ""),
        "a zero before the time": given_input.replace("created=", "created=0"),
        "a sign before the time": given_input.replace("created=", "created=-"),
        "a decimal time": given_input.replace(f"{NOW};", f"{NOW}.0;"),
        "an endless time": given_input.replace(str(NOW), "9" * 5000),
        "other digits": given_input.replace(str(NOW), "١٧٠٠٠٠٠٠٠٠"),  # noqa: RUF001
        "an upper-case key": given_input.replace(SENDER.public_key.hex(), SENDER.public_key.hex().upper()),
        "a short nonce": given_input.replace("AAECAwQFBgcICQoLDA0ODw", "AAEC"),
        "a nonce with spare bits": given_input.replace("ODw", "ODx"),
        "a padded nonce": given_input.replace("ODw", "ODw=="),
    }
    for name, text in inputs.items():
        assert text != given_input, name
        yield name, {**headers, "Signature-Input": text}
    others = {
        "a signature under another label": signature.replace("knowing=", "sig1="),
        "two signatures": f"{signature}, {signature}",
        "a short signature": "knowing=:AAAA:",
        "a signature with a parameter": signature + ";x",
        "a signature in base64url": signature.replace("+", "-").replace("/", "_") if "+" in signature else "knowing=::",
    }
    for name, text in others.items():
        yield name, {**headers, "Signature": text}
    digests = {
        "two digests": f"{digest}, {digest}",
        "another hash": digest.replace("sha-256", "sha-512"),
        "a digest with a parameter": digest + ";x",
        "no digest": "",
    }
    for name, text in digests.items():
        yield name, {**headers, "Content-Digest": text}
    yield "an upper-case recipient", {**headers, "Knowing-Recipient": HERE.hex().upper()}
    yield "a field twice", {**headers, "signature": signature}


@pytest.mark.parametrize(("name", "headers"), list(respellings(request())))
def test_no_other_serialisation_is_accepted(name: str, headers: dict[str, str]) -> None:
    assert refused(lambda: read(headers)) == "signature-malformed", name


def test_field_names_may_come_in_any_case() -> None:
    assert read({name.upper(): value for name, value in request().items()}).key == SENDER.public_key


def test_a_field_that_a_multidict_has_twice_is_refused() -> None:
    from multidict import CIMultiDict

    headers = CIMultiDict(request())
    assert read(headers).key == SENDER.public_key
    headers.add("knowing-recipient", HERE.hex())
    assert refused(lambda: read(headers)) == "signature-malformed"


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/a\n/b", ""),
        ("GET", "/a", 'x\n"@path": /b'),
        ("GET", "/ä", ""),
        ("GET", "a", ""),
        ("GET", "/a?b", ""),
        ("GET", "/a", "b#c"),
        ("GET\n", "/a", ""),
        ("get", "/a", ""),
    ],
)
def test_what_could_write_lines_of_the_signature_base_is_never_signed_or_read(
    method: str, path: str, query: str
) -> None:
    assert refused(lambda: request(method, path, query)) == "signature-malformed"
    assert refused(lambda: read(request(), method=method, path=path, query=query)) == "signature-malformed"


PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), max_size=40)


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    PRINTABLE.map(lambda text: "/" + text),
    PRINTABLE,
    st.binary(max_size=200),
    st.binary(min_size=16, max_size=16),
)
def test_what_was_signed_verifies(method: str, path: str, query: str, body: bytes, nonce: bytes) -> None:
    headers = signatures.sign(method, path, query, body, HERE, SENDER.public_key, SENDER.sign, NOW, nonce)
    found = signatures.verify(method, path, query, headers, body, HERE, NOW, verify)
    assert found == Signed(SENDER.public_key, nonce, NOW)


@given(st.sampled_from(["method", "path", "query", "body"]), st.data())
def test_tampering_with_any_covered_part_is_refused(part: str, data: st.DataObject) -> None:
    original: dict[str, str | bytes] = {
        "method": "POST", "path": "/v1/roster", "query": "since=4&x=%2F", "body": BODY
    }  # fmt: skip
    kinds: dict[str, st.SearchStrategy[str | bytes]] = {
        "method": st.text("GEPOSTU", min_size=1, max_size=8),
        "path": PRINTABLE.map(lambda text: "/" + text),
        "query": PRINTABLE,
        "body": st.binary(max_size=100),
    }
    changed = data.draw(kinds[part].filter(lambda value: value != original[part]))
    assert refused(lambda: read(request(), **{part: changed})) in {"signature-invalid", "digest-mismatch"}  # type: ignore[arg-type]


@given(st.sampled_from(sorted(request())), st.data())
def test_changing_any_character_of_a_field_is_refused(name: str, data: st.DataObject) -> None:
    headers = request()
    value = headers[name]
    place = data.draw(st.integers(0, len(value) - 1))
    character = data.draw(st.characters().filter(lambda c: c != value[place]))
    with pytest.raises(SignatureError):
        read({**headers, name: value[:place] + character + value[place + 1 :]})


# Replays


def made(created: int, nonce: int, key: bytes = SENDER.public_key) -> Signed:
    return Signed(key, nonce.to_bytes(16, "big"), created)


def test_a_request_passes_once() -> None:
    guard = ReplayGuard(NOW - 10)
    guard.check(made(NOW, 1), NOW)
    guard.check(made(NOW, 2), NOW)
    for later in (NOW, NOW + WINDOW):
        assert refused(partial(guard.check, made(NOW, 1), later)) == "replayed"
    guard.check(made(NOW, 1, OTHER.public_key), NOW)  # a nonce is its key's


def test_after_a_restart_nothing_from_before_passes_and_what_is_signed_anew_does() -> None:
    guard = ReplayGuard(NOW)
    for created in (NOW - WINDOW, NOW - 1, NOW):  # the second of the start belongs to both processes
        assert refused(partial(guard.check, made(created, 1), NOW)) == "replayed"
    guard.check(made(NOW + 1, 1), NOW + 1)


def test_a_flood_by_one_key_costs_only_that_key_and_forgetting_lets_no_replay_pass() -> None:
    guard = ReplayGuard(NOW - 1000, nonces=10)
    guard.check(made(NOW, 7, OTHER.public_key), NOW)
    accepted = []
    for number in range(100):
        try:
            guard.check(made(NOW + number // 5, number), NOW + number // 5)
            accepted.append(made(NOW + number // 5, number))
        except SignatureError:
            continue
    assert len(accepted) == 100  # time goes on, so the oldest make room
    for one in accepted:
        assert refused(partial(guard.check, one, NOW + 20)) == "replayed"
    assert refused(lambda: guard.check(made(NOW, 7, OTHER.public_key), NOW + 20)) == "replayed"
    guard.check(made(NOW, 8, OTHER.public_key), NOW + 20)
    caller = guard._callers[SENDER.public_key]
    assert len(caller.nonces) == len(caller.by_time) <= 11


def test_a_flood_within_one_second_is_cut_off() -> None:
    guard = ReplayGuard(NOW - 1000, nonces=10)
    passed = 0
    for number in range(1000):
        try:
            guard.check(made(NOW, number), NOW)
        except SignatureError:
            continue
        passed += 1
    assert passed == 11
    guard.check(made(NOW + 1, 0), NOW + 1)


def test_keys_are_bounded_and_those_out_of_the_window_make_room() -> None:
    guard = ReplayGuard(NOW - 1000, keys=3)
    for number in range(3):
        guard.check(made(NOW, 1, bytes([number]) * 32), NOW)
    assert refused(lambda: guard.check(made(NOW, 1, b"x" * 32), NOW)) == "replay-table-full"
    later = NOW + WINDOW + 1
    guard.check(made(later, 1, b"x" * 32), later)
    # Even a clock that is set back does not open the window again for what was forgotten.
    assert refused(lambda: guard.check(made(NOW, 1, bytes(32)), NOW)) == "replayed"


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 2)), max_size=120))
def test_nothing_passes_twice_whatever_is_forgotten(steps: list[tuple[int, int, int]]) -> None:
    guard = ReplayGuard(NOW - 1000, keys=2, nonces=3)
    passed: set[Signed] = set()
    now = NOW
    for delay, nonce, key in steps:
        now += delay
        one = made(now - (nonce * 60), nonce, bytes([key]) * 32)
        if abs(one.created - now) > WINDOW:
            continue
        try:
            guard.check(one, now)
        except SignatureError:
            continue
        assert one not in passed
        passed.add(one)
