"""Signed notes and checkpoints: published examples, every malformed case by name, and the inverse laws."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol import ed25519
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.errors import MalformedError, RejectedError
from knowing_protocol.note import (
    MAX_NOTE_SIZE,
    Checkpoint,
    Note,
    Signature,
    check_note,
    checkpoint_text,
    format_note,
    format_verifier_key,
    key_id,
    parse_checkpoint,
    parse_note,
    parse_verifier_key,
    sign_note,
    signature_by,
    signed_bytes,
    valid_key_name,
)


@dataclass(frozen=True)
class TestSigner:
    __test__ = False

    name: str
    seed: bytes

    @property
    def secret(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def public_key(self) -> bytes:
        return self.secret.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self.secret.sign(message)


def openssl_verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


ALICE = TestSigner("alice.example/log", bytes([1] * 32))
BOB = TestSigner("bob.example", bytes([2] * 32))
TEXT = "first line\n\nlast line\n"
SIGNED = sign_note(TEXT, [ALICE, BOB])
LINE = SIGNED.split("\n")[4]
BLOB = base64.b64encode(bytes(68)).decode()

# The example of Go's package golang.org/x/mod/sumdb/note.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
GO_SUMDB_KEY = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"

# The example of c2sp.org/tlog-checkpoint.
C2SP_CHECKPOINT = (
    "example.com/behind-the-sofa\n"
    "20852163\n"
    "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    "\n"
    "— example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
)

verifiers = pytest.mark.parametrize("verify", [openssl_verify, ed25519.verify])


def assert_malformed_note(data: bytes | str) -> None:
    with pytest.raises(MalformedError):
        parse_note(data)
    if isinstance(data, str) and data.isascii():
        with pytest.raises(MalformedError):
            parse_note(data.encode())


def with_line(line: str) -> str:
    return f"{TEXT}\n{line}\n"


def test_the_note_that_these_tests_break_is_well_formed() -> None:
    assert parse_note(SIGNED) == parse_note(SIGNED.encode())
    assert parse_note(with_line(LINE)).text == TEXT
    assert parse_note(with_line(f"— name {BLOB}")).signatures == (Signature("name", bytes(4), bytes(64)),)


# Published examples


@verifiers
def test_go_example_verifies(verify: Verifier) -> None:
    name, public_key = parse_verifier_key(GO_KEY)
    assert name == "PeterNeumann"
    check_note(parse_note(GO_NOTE), name, public_key, verify)


@pytest.mark.parametrize("text", [GO_KEY, GO_SUMDB_KEY])
def test_published_verifier_key_is_written_back(text: str) -> None:
    assert format_verifier_key(*parse_verifier_key(text)) == text


def test_c2sp_checkpoint_example_parses_and_is_written_back() -> None:
    note = parse_note(C2SP_CHECKPOINT)
    checkpoint = parse_checkpoint(note.text)
    assert (checkpoint.origin, checkpoint.size, checkpoint.extensions) == ("example.com/behind-the-sofa", 20852163, ())
    assert checkpoint.root.hex() == "0ac5186a91863e8e1d90c808014aa89bf5da8e3ee1d9f07630f0378f68f1ab62"
    assert checkpoint_text(checkpoint) == note.text
    assert format_note(note) == C2SP_CHECKPOINT


# Key names, key ids, verifier keys


@pytest.mark.parametrize("name", ["a", "example.com/log", "é", "—", "x" * 200, "-", "日本"])
def test_valid_key_name(name: str) -> None:
    assert valid_key_name(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param("a b", id="space"),
        pytest.param("a+b", id="plus"),
        pytest.param("a\n", id="newline at the end"),
        pytest.param("a\tb", id="tab"),
        pytest.param("a\x00", id="NUL"),
        pytest.param("a\x7f", id="DEL"),
        pytest.param("a\x85", id="next line"),
        pytest.param("a\x9b", id="C1 control"),
        pytest.param("a\u00a0b", id="no-break space"),
        pytest.param("a\u1680b", id="ogham space"),
        pytest.param("a\u2003b", id="em space"),
        pytest.param("a\u2028b", id="line separator"),
        pytest.param("a\u2029b", id="paragraph separator"),
        pytest.param("a\u202fb", id="narrow no-break space"),
        pytest.param("a\u205fb", id="mathematical space"),
        pytest.param("a\u3000b", id="ideographic space"),
        pytest.param("a\ud800", id="surrogate"),
        pytest.param("x" * 201, id="too long"),
    ],
)
def test_invalid_key_name(name: str) -> None:
    assert not valid_key_name(name)
    with pytest.raises(MalformedError):
        key_id(name, bytes(32))
    assert_malformed_note(with_line(f"— {name} {BLOB}"))


@given(st.characters())
def test_no_character_that_python_takes_for_a_space_is_in_a_key_name(character: str) -> None:
    if character.isspace():
        assert not valid_key_name(character)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_key_id_of_a_key_of_wrong_length_is_malformed(length: int) -> None:
    with pytest.raises(MalformedError):
        key_id("name", bytes(length))


def verifier_key(name: str = "name", hex_id: str | None = None, typed_key: bytes = b"\x01" + bytes(32)) -> str:
    return f"{name}+{hex_id or key_id('name', bytes(32)).hex()}+{base64.b64encode(typed_key).decode()}"


@given(st.binary(min_size=32, max_size=32))
def test_verifier_key_round_trip(public_key: bytes) -> None:
    assert parse_verifier_key(format_verifier_key("a/b", public_key)) == ("a/b", public_key)


def test_verifier_key_with_the_longest_name_round_trip() -> None:
    name = "é" * 200
    assert parse_verifier_key(format_verifier_key(name, bytes(32))) == (name, bytes(32))


def test_the_verifier_key_that_these_tests_break_is_well_formed() -> None:
    assert parse_verifier_key(verifier_key()) == ("name", bytes(32))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("name", id="name alone"),
        pytest.param("name+00000000", id="no key"),
        pytest.param("++", id="empty parts"),
        pytest.param(verifier_key(name=""), id="empty name"),
        pytest.param(verifier_key(name="na me"), id="space in name"),
        pytest.param(verifier_key(name="nam\ud800"), id="surrogate in name"),
        pytest.param(verifier_key(name="other"), id="id of another name"),
        pytest.param(verifier_key(hex_id="00000000"), id="another id"),
        pytest.param(verifier_key(hex_id=key_id("name", bytes(32)).hex().upper()), id="upper-case id"),
        pytest.param(verifier_key(hex_id=key_id("name", bytes(32)).hex()[:7]), id="short id"),
        pytest.param(verifier_key(typed_key=b"\x02" + bytes(32)), id="another type"),
        pytest.param(verifier_key(typed_key=b""), id="no type"),
        pytest.param(verifier_key(typed_key=b"\x01" + bytes(31)), id="short key"),
        pytest.param(verifier_key(typed_key=b"\x01" + bytes(33)), id="long key"),
        pytest.param(verifier_key() + "\n", id="newline at the end"),
        pytest.param(verifier_key() + "é", id="not ASCII at the end"),
        pytest.param(verifier_key() + "+", id="plus at the end"),
        pytest.param("x" * 10**6 + verifier_key(), id="very long"),
    ],
)
def test_verifier_key_is_malformed(text: str) -> None:
    with pytest.raises(MalformedError):
        parse_verifier_key(text)


# Parsing notes


def test_text_may_have_blank_lines_and_lines_that_look_like_signatures() -> None:
    text = f"a\n\n\n{LINE}\n\n\n"
    assert parse_note(f"{text}\n{LINE}\n").text == text


def test_text_may_be_a_single_newline() -> None:
    assert parse_note(f"\n\n{LINE}\n").text == "\n"


def test_unknown_signature_type_of_any_length_parses() -> None:
    blob = base64.b64encode(bytes(4) + b"x" * 5000).decode()
    assert parse_note(with_line(f"— witness {blob}")).signatures[0].signature == b"x" * 5000


def test_empty_note_is_malformed() -> None:
    assert_malformed_note("")


def test_note_without_final_newline_is_malformed() -> None:
    assert_malformed_note(SIGNED[:-1])


def test_note_with_two_final_newlines_is_malformed() -> None:
    assert_malformed_note(SIGNED + "\n")


def test_note_without_signatures_is_malformed() -> None:
    assert_malformed_note(TEXT)
    assert_malformed_note("text\n\n")
    assert_malformed_note("\n\n")


def test_note_without_blank_line_is_malformed() -> None:
    assert_malformed_note(f"text\n{LINE}\n")


def test_note_without_text_is_malformed() -> None:
    assert_malformed_note(f"\n{LINE}\n")
    assert_malformed_note(f"{LINE}\n")


def test_note_with_invalid_utf_8_is_malformed() -> None:
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x80"):
        assert_malformed_note(bad + SIGNED.encode())


def test_note_with_a_surrogate_is_malformed() -> None:
    assert_malformed_note("\ud800" + SIGNED)


@pytest.mark.parametrize("code", [code for code in range(0x20) if code != 0x0A] + [0x7F])
def test_note_with_a_control_character_is_malformed(code: int) -> None:
    assert_malformed_note(chr(code) + SIGNED)
    assert_malformed_note(SIGNED[:-1] + chr(code) + "\n")


def test_note_with_carriage_returns_is_malformed() -> None:
    assert_malformed_note(SIGNED.replace("\n", "\r\n"))


def test_note_larger_than_64_kib_is_malformed() -> None:
    padding = MAX_NOTE_SIZE - len(SIGNED.encode())
    assert len(parse_note("x" * padding + SIGNED).text) == padding + len(TEXT)
    assert len(parse_note(b"x" * padding + SIGNED.encode()).text) == padding + len(TEXT)
    assert_malformed_note("x" * (padding + 1) + SIGNED)
    assert_malformed_note(b"x" * (padding + 1) + SIGNED.encode())
    assert_malformed_note("é" * (padding // 2 + 1) + SIGNED)


def test_note_with_more_than_16_signatures_is_malformed() -> None:
    lines = [f"— signer{number} {BLOB}" for number in range(17)]
    assert len(parse_note(with_line("\n".join(lines[:16]))).signatures) == 16
    assert_malformed_note(with_line("\n".join(lines)))


def test_note_with_two_signatures_by_one_key_is_malformed() -> None:
    assert_malformed_note(with_line(f"{LINE}\n{LINE}"))
    other_bytes = base64.b64encode(bytes(4) + b"other").decode()
    assert_malformed_note(with_line(f"— name {BLOB}\n— name {other_bytes}"))


def test_one_name_with_two_key_ids_parses() -> None:
    other_id = base64.b64encode(b"\x01" * 68).decode()
    assert len(parse_note(with_line(f"— name {BLOB}\n— name {other_id}")).signatures) == 2


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"- name {BLOB}", id="hyphen"),
        pytest.param(f"– name {BLOB}", id="en dash"),  # noqa: RUF001
        pytest.param(f"—name {BLOB}", id="no space behind the dash"),
        pytest.param(f"—  name {BLOB}", id="two spaces behind the dash"),
        pytest.param(f"— name  {BLOB}", id="two spaces behind the name"),
        pytest.param(f" — name {BLOB}", id="space in front"),
        pytest.param(f"— name {BLOB} ", id="space at the end"),
        pytest.param(f"— {BLOB}", id="no name"),
        pytest.param("— name", id="no signature"),
        pytest.param("— name ", id="empty signature"),
        pytest.param(f"— — name {BLOB}", id="two dashes"),
        pytest.param(f"name {BLOB}", id="no dash"),
        pytest.param("— name AAAAAA==", id="key id alone"),
        pytest.param("— name AAAA", id="less than a key id"),
        pytest.param("— name AAAAAAA", id="base64 without padding"),
        pytest.param("— name AAAAAAB=", id="base64 with loose bits"),
        pytest.param("— name AAAAAAA==", id="base64 with too much padding"),
        pytest.param("— name AAAAAAA=AAAA", id="base64 with padding inside"),
        pytest.param("— name AAAA_-AA", id="base64 of the URL alphabet"),
        pytest.param("— name AAAAAAé=", id="base64 that is not ASCII"),
    ],
)
def test_signature_line_is_malformed(line: str) -> None:
    assert_malformed_note(with_line(line))
    assert_malformed_note(with_line(f"{LINE}\n{line}"))


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda tail: f"text\n\n— {tail}\n"))
def test_any_input_parses_or_is_malformed(data: bytes | str) -> None:
    try:
        note = parse_note(data)
    except MalformedError:
        return
    assert format_note(note) == (data if isinstance(data, str) else data.decode())


# The inverse laws

key_names = st.text(st.sampled_from("abcé—/.日"), min_size=1, max_size=20)
signatures = st.builds(Signature, key_names, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80))
texts = st.text(st.sampled_from("ab —+=\n\né\u2028\x85"), max_size=60).map(lambda text: text + "\n")
notes = st.builds(
    Note,
    texts,
    st.lists(signatures, min_size=1, max_size=16, unique_by=lambda s: (s.name, s.key_id)).map(tuple),
)


@given(notes)
def test_what_is_written_parses_to_an_equal_note(note: Note) -> None:
    assert parse_note(format_note(note)) == note
    assert parse_note(format_note(note).encode()) == note


@given(notes, st.integers(0, 10**6), st.sampled_from(["", "\n", " ", "A", "=", "— ", "\n\n", "+", "\r"]))
def test_what_parses_is_written_back_character_by_character(note: Note, position: int, inserted: str) -> None:
    written = format_note(note)
    at = position % (len(written) + 1)
    varied = written[:at] + inserted + written[at + 1 :]
    try:
        parsed = parse_note(varied)
    except MalformedError:
        return
    assert format_note(parsed) == varied


@pytest.mark.parametrize(
    "note",
    [
        pytest.param(Note(TEXT, ()), id="no signature"),
        pytest.param(Note("text", (Signature("n", bytes(4), b"s"),)), id="text without newline"),
        pytest.param(Note("", (Signature("n", bytes(4), b"s"),)), id="no text"),
        pytest.param(Note(f"{TEXT}\n{LINE}", (Signature("n", bytes(4), b"s"),)), id="text that would lose its end"),
        pytest.param(Note(TEXT, (Signature("n", bytes(5), b"s"),)), id="long key id"),
        pytest.param(Note(TEXT, (Signature("n", bytes(3), b"ss"),)), id="short key id"),
        pytest.param(Note(TEXT, (Signature("n", bytes(4), b""),)), id="empty signature"),
        pytest.param(Note(TEXT, (Signature("n n", bytes(4), b"s"),)), id="bad name"),
        pytest.param(Note(TEXT, (Signature(f"n {BLOB}\n— n", bytes(4), b"s"),)), id="name with a line in it"),
        pytest.param(Note(TEXT, (Signature("n", bytes(4), b"s"),) * 2), id="same key twice"),
        pytest.param(Note(TEXT + "\ud800\n", (Signature("n", bytes(4), b"s"),)), id="surrogate"),
        pytest.param(Note(TEXT, (Signature("n", bytes(4), bytes(MAX_NOTE_SIZE)),)), id="too large"),
    ],
)
def test_note_that_could_not_be_read_back_is_not_written(note: Note) -> None:
    with pytest.raises(MalformedError):
        format_note(note)


# Signing and checking


@verifiers
def test_signed_note_checks_for_each_signer(verify: Verifier) -> None:
    note = parse_note(SIGNED)
    for signer in (ALICE, BOB):
        check_note(note, signer.name, signer.public_key, verify)


@verifiers
def test_note_checked_for_another_key_is_unsigned(verify: Verifier) -> None:
    note = parse_note(SIGNED)
    for name, public_key in (
        ("mallory.example", ALICE.public_key),
        (ALICE.name, BOB.public_key),
        (ALICE.name, bytes(32)),
    ):
        assert signature_by(note, name, public_key) is None
        with pytest.raises(RejectedError) as caught:
            check_note(note, name, public_key, verify)
        assert caught.value.code == "unsigned"


@verifiers
def test_note_with_changed_text_has_a_bad_signature(verify: Verifier) -> None:
    note = parse_note(SIGNED.replace("first", "other"))
    with pytest.raises(RejectedError) as caught:
        check_note(note, ALICE.name, ALICE.public_key, verify)
    assert caught.value.code == "bad-signature"


@verifiers
@pytest.mark.parametrize("bad", [bytes(64), b"s", bytes(65)])
def test_note_with_changed_signature_has_a_bad_signature(verify: Verifier, bad: bytes) -> None:
    note = parse_note(SIGNED)
    forged = Note(note.text, tuple(replace(signature, signature=bad) for signature in note.signatures))
    with pytest.raises(RejectedError) as caught:
        check_note(forged, ALICE.name, ALICE.public_key, verify)
    assert caught.value.code == "bad-signature"


def test_signature_by_finds_name_and_key_id() -> None:
    found = signature_by(parse_note(SIGNED), BOB.name, BOB.public_key)
    assert found == Signature(BOB.name, key_id(BOB.name, BOB.public_key), BOB.sign(TEXT.encode()))


def test_signed_bytes_are_the_text_without_the_blank_line() -> None:
    assert signed_bytes("é\n") == b"\xc3\xa9\n"


@pytest.mark.parametrize("text", ["", "no newline", "\ud800\n", "a\tb\n", "x" * MAX_NOTE_SIZE + "\n"])
def test_text_that_no_note_can_have_is_not_signed(text: str) -> None:
    with pytest.raises(MalformedError):
        signed_bytes(text)
    with pytest.raises(MalformedError):
        sign_note(text, [ALICE])


def test_signing_with_no_signer_or_one_signer_twice_is_malformed() -> None:
    for signers in ([], [ALICE, ALICE]):
        with pytest.raises(MalformedError):
            sign_note(TEXT, signers)


# Checkpoints

ROOT = bytes(range(32))
ROOT_TEXT = base64.b64encode(ROOT).decode()

lines = st.text(st.sampled_from("ab —+=1é\u2028\x85"), min_size=1, max_size=20)
checkpoints = st.builds(
    Checkpoint,
    lines,
    st.integers(0, 2**53 - 1),
    st.binary(min_size=32, max_size=32),
    st.lists(lines, max_size=8).map(tuple),
)


@given(checkpoints)
def test_checkpoint_that_is_written_parses_to_an_equal_one(checkpoint: Checkpoint) -> None:
    assert parse_checkpoint(checkpoint_text(checkpoint)) == checkpoint


@given(checkpoints, st.integers(0, 10**6), st.sampled_from(["", "\n", " ", "0", "=", "A", "٣"]))
def test_checkpoint_that_parses_is_written_back(checkpoint: Checkpoint, position: int, inserted: str) -> None:
    written = checkpoint_text(checkpoint)
    at = position % (len(written) + 1)
    varied = written[:at] + inserted + written[at + 1 :]
    try:
        parsed = parse_checkpoint(varied)
    except MalformedError:
        return
    assert checkpoint_text(parsed) == varied


@given(checkpoints)
def test_signed_checkpoint_round_trip(checkpoint: Checkpoint) -> None:
    note = parse_note(sign_note(checkpoint_text(checkpoint), [ALICE]))
    check_note(note, ALICE.name, ALICE.public_key, openssl_verify)
    assert parse_checkpoint(note.text) == checkpoint


@pytest.mark.parametrize("extensions", [0, 1, 8])
def test_checkpoint_with_up_to_8_extensions_parses(extensions: int) -> None:
    text = f"origin\n0\n{ROOT_TEXT}\n" + "extension\n" * extensions
    assert parse_checkpoint(text) == Checkpoint("origin", 0, ROOT, ("extension",) * extensions)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("\n", id="blank line"),
        pytest.param("origin\n1\n", id="no root"),
        pytest.param(f"origin\n1\n{ROOT_TEXT}", id="no final newline"),
        pytest.param(f"origin\n1\n{ROOT_TEXT}\n\n", id="empty extension"),
        pytest.param(f"origin\n1\n{ROOT_TEXT}\n\nextension\n", id="empty extension before another"),
        pytest.param(f"origin\n1\n{ROOT_TEXT}\nextension", id="extension without newline"),
        pytest.param(f"origin\n1\n{ROOT_TEXT}\n" + "extension\n" * 9, id="9 extensions"),
        pytest.param(f"origin\n1\n{ROOT_TEXT}\n" + "extension\n" * 8 + "\n", id="8 extensions and a blank line"),
        pytest.param(f"origin\n1\n{ROOT_TEXT}\n" + "extension\n" * 8 + "x", id="8 extensions and a rest"),
        pytest.param(f"\n1\n{ROOT_TEXT}\n", id="empty origin"),
        pytest.param(f"origin\n\n{ROOT_TEXT}\n", id="empty size"),
        pytest.param(f"origin\n01\n{ROOT_TEXT}\n", id="leading zero"),
        pytest.param(f"origin\n00\n{ROOT_TEXT}\n", id="two zeros"),
        pytest.param(f"origin\n+1\n{ROOT_TEXT}\n", id="plus sign"),
        pytest.param(f"origin\n-1\n{ROOT_TEXT}\n", id="negative size"),
        pytest.param(f"origin\n1 \n{ROOT_TEXT}\n", id="space behind the size"),
        pytest.param(f"origin\n1_0\n{ROOT_TEXT}\n", id="underscore in the size"),
        pytest.param(f"origin\n٣\n{ROOT_TEXT}\n", id="digit that is not ASCII"),
        pytest.param(f"origin\n0x10\n{ROOT_TEXT}\n", id="hexadecimal size"),
        pytest.param(f"origin\n{2**53}\n{ROOT_TEXT}\n", id="size too large"),
        pytest.param(f"origin\n{'9' * 5000}\n{ROOT_TEXT}\n", id="size far too long"),
        pytest.param(f"origin\n1\n{ROOT_TEXT[:-1]}\n", id="root without padding"),
        pytest.param(f"origin\n1\n{ROOT_TEXT[:-2]}9=\n", id="root with loose bits"),
        pytest.param(f"origin\n1\n {ROOT_TEXT}\n", id="space before the root"),
        pytest.param(f"origin\n1\n{base64.b64encode(bytes(31)).decode()}\n", id="short root"),
        pytest.param(f"origin\n1\n{base64.b64encode(bytes(33)).decode()}\n", id="long root"),
        pytest.param(f"origin\r\n1\r\n{ROOT_TEXT}\r\n", id="carriage returns"),
        pytest.param(f"ori\ud800gin\n1\n{ROOT_TEXT}\n", id="surrogate"),
        pytest.param("x" * MAX_NOTE_SIZE + f"\n1\n{ROOT_TEXT}\n", id="too large"),
    ],
)
def test_checkpoint_is_malformed(text: str) -> None:
    with pytest.raises(MalformedError):
        parse_checkpoint(text)


@pytest.mark.parametrize(
    "checkpoint",
    [
        pytest.param(Checkpoint("", 1, ROOT), id="empty origin"),
        pytest.param(Checkpoint("a\nb", 1, ROOT), id="newline in the origin"),
        pytest.param(Checkpoint(f"a\n1\n{ROOT_TEXT}\nb", 1, ROOT), id="origin with a checkpoint in it"),
        pytest.param(Checkpoint("a", -1, ROOT), id="negative size"),
        pytest.param(Checkpoint("a", 2**53, ROOT), id="size too large"),
        pytest.param(Checkpoint("a", 10**5000, ROOT), id="size far too large"),
        pytest.param(Checkpoint("a", True, ROOT), id="size that is a truth value"),
        pytest.param(Checkpoint("a", 1, bytes(31)), id="short root"),
        pytest.param(Checkpoint("a", 1, ROOT, ("",)), id="empty extension"),
        pytest.param(Checkpoint("a", 1, ROOT, ("b\nc",)), id="extension with a newline"),
        pytest.param(Checkpoint("a", 1, ROOT, ("b",) * 9), id="9 extensions"),
        pytest.param(Checkpoint("a\ud800", 1, ROOT), id="surrogate"),
    ],
)
def test_checkpoint_that_could_not_be_read_back_is_not_written(checkpoint: Checkpoint) -> None:
    with pytest.raises(MalformedError):
        checkpoint_text(checkpoint)
