"""The keys of a node: which of them may sign which state of its log, and the notes that say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol import ed25519
from knowing_protocol.errors import KnowingError, MalformedError, RejectedError
from knowing_protocol.history import log_name, node_name, origin_id
from knowing_protocol.keys import (
    MAX_KEY_NOTES,
    Attestation,
    KeyChain,
    NewEpoch,
    Revocation,
    Rotation,
    attestation_text,
    epoch_text,
    parse_attestation,
    parse_epoch,
    parse_key_note,
    revocation_text,
    rotation_text,
)
from knowing_protocol.note import Note, format_note, parse_note, sign_note
from world import seed

from knowingd.keys import SigningKey, public_key_of, verify

FIRST, SECOND, THIRD, STRANGER = (public_key_of(seed(name)) for name in ("first", "second", "third", "stranger"))
SEEDS = {public_key_of(seed(name)): seed(name) for name in ("first", "second", "third", "stranger")}
ORIGIN = origin_id(FIRST)
MAX = 2**53 - 1


def signed(text: str, *keys: bytes, name: str = node_name(ORIGIN)) -> str:
    return sign_note(text, [SigningKey(name, SEEDS[key]) for key in keys])


def rotation(old: bytes, new: bytes, size: int, epoch: int = 0) -> str:
    return signed(rotation_text(Rotation(ORIGIN, epoch, size, old, new)), old, new)


def revocation(key: bytes, size: int, epoch: int = 0, by: bytes = FIRST) -> str:
    return signed(revocation_text(Revocation(ORIGIN, epoch, size, key)), by)


def chain_of(*notes: str) -> KeyChain:
    chain = KeyChain(FIRST)
    chain.add(notes, verify)
    return chain


def refusal(action: Callable[..., object], *arguments: Any, **named: Any) -> str:
    with pytest.raises(KnowingError) as caught:
        action(*arguments, **named)
    return caught.value.code


def may_sign(chain: KeyChain, key: bytes, epoch: int, size: int) -> bool:
    try:
        chain.check_range(key, epoch, size)
    except RejectedError as error:
        assert error.code == "key-range"  # noqa: PT017 — the answer is what is asked for
        return False
    return True


def ranges(chain: KeyChain, key: bytes, *states: tuple[int, int]) -> list[bool]:
    return [may_sign(chain, key, *state) for state in states]


# Rotation


def test_first_key_names_the_node_and_signs_everything() -> None:
    chain = KeyChain(FIRST)
    assert chain.origin == origin_id(FIRST)
    assert chain.current == FIRST
    assert chain.keys == (FIRST,)
    assert ranges(chain, FIRST, (0, 0), (0, MAX), (7, 3)) == [True, True, True]


BAD_KEYS = {
    "of small order": bytes([1]) + bytes(31),
    "another of small order": bytes(32),
    "not on the curve": bytes([2]) + bytes(31),
    "not reduced": bytes([0xEE]) + b"\xff" * 30 + bytes([0x7F]),
}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS.keys())
def test_key_that_no_signature_can_be_checked_with_is_refused(key: bytes) -> None:
    assert refusal(KeyChain, key) == "bad-key"
    chain = KeyChain(FIRST)
    note = signed(rotation_text(Rotation(ORIGIN, 0, 10, FIRST, key)), FIRST)
    assert refusal(chain.add, [note], lambda *_: True) == "bad-key"
    assert chain.keys == (FIRST,)


def test_rotation_ends_the_old_key_and_begins_the_new_one() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10))
    assert chain.current == SECOND
    assert chain.keys == (FIRST, SECOND)
    assert chain.origin == origin_id(FIRST)
    states = (0, 0), (0, 9), (0, 10), (0, 11), (1, 0)
    assert ranges(chain, FIRST, *states) == [True, True, True, False, False]
    assert ranges(chain, SECOND, *states) == [False, False, True, True, True]


def test_rotation_is_checked_alike_by_the_kernels_own_verifier() -> None:
    chain = KeyChain(FIRST)
    chain.add([rotation(FIRST, SECOND, 10), revocation(FIRST, 5, by=SECOND)], ed25519.verify)
    assert chain.keys == (FIRST, SECOND)
    assert ranges(chain, FIRST, (0, 5), (0, 6)) == [True, False]


def test_rotation_in_a_later_epoch_is_after_every_size_of_earlier_ones() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 3, epoch=2))
    states = (0, MAX), (1, MAX), (2, 2), (2, 3), (2, 4), (3, 0)
    assert ranges(chain, FIRST, *states) == [True, True, True, True, False, False]
    assert ranges(chain, SECOND, *states) == [False, False, False, True, True, True]


def test_rotations_follow_each_other() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10), rotation(SECOND, THIRD, 20))
    assert chain.current == THIRD
    assert chain.keys == (FIRST, SECOND, THIRD)
    states = (0, 9), (0, 10), (0, 11), (0, 19), (0, 20), (0, 21)
    assert ranges(chain, FIRST, *states) == [True, True, False, False, False, False]
    assert ranges(chain, SECOND, *states) == [False, True, True, True, True, False]
    assert ranges(chain, THIRD, *states) == [False, False, False, False, True, True]


def test_key_may_be_rotated_away_where_it_began() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10), rotation(SECOND, THIRD, 10))
    assert ranges(chain, SECOND, (0, 9), (0, 10), (0, 11)) == [False, True, False]
    assert may_sign(chain, THIRD, 0, 10)


def test_rotation_is_refused_before_its_old_key_began() -> None:
    assert refusal(chain_of, rotation(FIRST, SECOND, 10), rotation(SECOND, THIRD, 9)) == "key-rotation"
    notes = rotation(FIRST, SECOND, 0, epoch=1), rotation(SECOND, THIRD, MAX, epoch=0)
    assert refusal(chain_of, *notes) == "key-rotation"


@pytest.mark.parametrize("signer", [FIRST, SECOND, STRANGER], ids=["old alone", "new alone", "neither"])
def test_rotation_that_is_not_signed_by_both_keys_is_refused(signer: bytes) -> None:
    text = rotation_text(Rotation(ORIGIN, 0, 10, FIRST, SECOND))
    chain = KeyChain(FIRST)
    assert refusal(chain.add, [signed(text, signer)], verify) == "unsigned"
    assert chain.keys == (FIRST,)
    assert ranges(chain, FIRST, (0, 11)) == [True]


def test_rotation_whose_signatures_are_of_another_text_is_refused() -> None:
    other = parse_note(rotation(FIRST, SECOND, 11))
    text = rotation_text(Rotation(ORIGIN, 0, 10, FIRST, SECOND))
    assert refusal(chain_of, format_note(Note(text, other.signatures))) == "bad-signature"
    good = parse_note(rotation(FIRST, SECOND, 10)).signatures
    for mixed in ((good[0], other.signatures[1]), (other.signatures[0], good[1])):
        note = format_note(Note(text, mixed))
        assert refusal(chain_of, note) == "bad-signature"


def test_rotation_signed_under_another_name_is_refused() -> None:
    text = rotation_text(Rotation(ORIGIN, 0, 10, FIRST, SECOND))
    for name in (log_name(ORIGIN, 0), node_name(origin_id(SECOND))):
        note = signed(text, FIRST, SECOND, name=name)
        assert refusal(chain_of, note) == "unsigned"


def test_rotation_from_a_stale_key_is_refused() -> None:
    assert refusal(chain_of, rotation(FIRST, SECOND, 10), rotation(FIRST, THIRD, 10)) == "key-rotation"
    assert refusal(chain_of, rotation(FIRST, SECOND, 10), rotation(FIRST, THIRD, 5)) == "key-rotation"


def test_rotation_from_a_key_that_the_node_never_had_is_refused() -> None:
    assert refusal(chain_of, rotation(STRANGER, SECOND, 10)) == "key-rotation"


def test_rotation_given_before_the_one_it_follows_is_refused() -> None:
    assert refusal(chain_of, rotation(SECOND, THIRD, 20), rotation(FIRST, SECOND, 10)) == "key-rotation"


def test_rotation_back_to_an_earlier_key_is_refused() -> None:
    assert refusal(chain_of, rotation(FIRST, SECOND, 10), rotation(SECOND, FIRST, 20)) == "key-rotation"


def test_rotation_to_the_same_key_changes_nothing_or_is_refused() -> None:
    text = rotation_text(Rotation(ORIGIN, 0, 10, FIRST, FIRST))
    assert refusal(chain_of, signed(text, FIRST)) == "key-rotation"
    chain = chain_of(signed(rotation_text(Rotation(ORIGIN, 0, 0, FIRST, FIRST)), FIRST))
    assert ranges(chain, FIRST, (0, 0), (0, 1)) == [True, True]


def test_refused_rotation_leaves_the_chain_as_it_was() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10))
    for note in (rotation(FIRST, THIRD, 10), rotation(SECOND, THIRD, 9), rotation(SECOND, FIRST, 20)):
        with pytest.raises(RejectedError):
            chain.add([note], verify)
    assert chain.keys == (FIRST, SECOND)
    assert ranges(chain, SECOND, (0, 9), (0, 10), (0, MAX)) == [False, True, True]


# Revocation


@pytest.mark.parametrize("by", [FIRST, SECOND, THIRD], ids=["an earlier key", "itself", "a later key"])
def test_any_key_of_the_node_may_revoke(by: bytes) -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10), rotation(SECOND, THIRD, 20), revocation(SECOND, 15, by=by))
    assert ranges(chain, SECOND, (0, 10), (0, 15), (0, 16), (0, 20)) == [True, True, False, False]
    assert ranges(chain, FIRST, (0, 0), (0, 10)) == [True, True]
    assert ranges(chain, THIRD, (0, 20), (0, MAX)) == [True, True]


def test_revocation_of_the_only_key_ends_it() -> None:
    chain = chain_of(revocation(FIRST, 10))
    assert chain.current == FIRST
    assert ranges(chain, FIRST, (0, 10), (0, 11), (1, 0)) == [True, False, False]


def test_revocation_names_an_epoch_and_voids_later_ones() -> None:
    chain = chain_of(revocation(FIRST, 4, epoch=1))
    assert ranges(chain, FIRST, (0, MAX), (1, 4), (1, 5), (2, 0)) == [True, True, False, False]


def test_revocation_only_narrows() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10), revocation(FIRST, 50), revocation(FIRST, 0, epoch=9))
    assert ranges(chain, FIRST, (0, 10), (0, 11)) == [True, False]
    chain.add([revocation(FIRST, 3), revocation(FIRST, 8)], verify)
    assert ranges(chain, FIRST, (0, 3), (0, 4)) == [True, False]


def test_revocation_before_a_key_began_voids_all_of_it() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10), revocation(SECOND, 4))
    assert ranges(chain, SECOND, (0, 4), (0, 9), (0, 10), (0, 11)) == [False, False, False, False]


@pytest.mark.parametrize(("size", "epoch"), [(0, 0), (5, 0), (10, 0), (11, 0), (0, 1)])
def test_revoked_key_hands_over_to_no_other(size: int, epoch: int) -> None:
    handover = rotation(FIRST, SECOND, size, epoch)
    assert refusal(chain_of, revocation(FIRST, 10), handover) == "key-rotation"
    assert chain_of(handover, revocation(FIRST, 10)).current == SECOND


def test_revoked_key_hands_over_to_no_other_even_where_the_revocation_took_nothing_away() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10), revocation(SECOND, MAX))
    assert refusal(chain.add, [rotation(SECOND, THIRD, 20)], verify) == "key-rotation"
    assert may_sign(chain, SECOND, 0, 21)


def test_revocation_by_a_stranger_is_refused() -> None:
    chain = chain_of(rotation(FIRST, SECOND, 10))
    assert refusal(chain.add, [revocation(SECOND, 10, by=STRANGER)], verify) == "bad-signature"
    assert refusal(chain.add, [revocation(SECOND, 10, by=THIRD)], verify) == "bad-signature"
    assert may_sign(chain, SECOND, 0, 11)


def test_revocation_whose_signature_is_of_another_text_is_refused() -> None:
    other = parse_note(revocation(FIRST, 11)).signatures
    note = format_note(Note(revocation_text(Revocation(ORIGIN, 0, 10, FIRST)), other))
    assert refusal(chain_of, note) == "bad-signature"


def test_revocation_signed_under_another_name_is_refused() -> None:
    note = signed(revocation_text(Revocation(ORIGIN, 0, 10, FIRST)), FIRST, name=log_name(ORIGIN, 0))
    assert refusal(chain_of, note) == "bad-signature"


def test_revocation_of_a_key_that_the_node_never_had_is_refused() -> None:
    assert refusal(chain_of, revocation(STRANGER, 10)) == "key-revocation"
    assert refusal(chain_of, revocation(SECOND, 10), rotation(FIRST, SECOND, 10)) == "key-revocation"


# All notes


def test_note_of_another_node_is_refused() -> None:
    foreign = origin_id(SECOND)
    for text in (
        rotation_text(Rotation(foreign, 0, 10, FIRST, SECOND)),
        revocation_text(Revocation(foreign, 0, 10, FIRST)),
    ):
        for name in (node_name(ORIGIN), node_name(foreign)):
            note = signed(text, FIRST, SECOND, name=name)
            assert refusal(chain_of, note) == "key-note-foreign"


def test_repeated_notes_are_harmless() -> None:
    notes = [rotation(FIRST, SECOND, 10), revocation(FIRST, 5, by=SECOND), rotation(SECOND, THIRD, 20)]
    once, again = chain_of(*notes), chain_of(*notes, *notes, notes[0], notes[1])
    again.add(notes, verify)
    assert again.keys == once.keys
    assert again.current == once.current == THIRD
    states = (0, 5), (0, 6), (0, 10), (0, 11), (0, 20), (0, 21)
    for key in once.keys:
        assert ranges(again, key, *states) == ranges(once, key, *states)
    assert ranges(again, FIRST, *states) == [True, False, False, False, False, False]


def test_at_most_64_notes_are_read() -> None:
    note = rotation(FIRST, SECOND, 10)
    chain_of(*[note] * MAX_KEY_NOTES)
    assert MAX_KEY_NOTES == 64
    with pytest.raises(MalformedError) as caught:
        chain_of(*[note] * (MAX_KEY_NOTES + 1))
    assert caught.value.code == "too-long"


def test_other_notes_are_no_key_notes() -> None:
    for text in (
        epoch_text(NewEpoch(ORIGIN, 1, 10, bytes(32))),
        attestation_text(Attestation("reproduced", ORIGIN, 0, 1, bytes(32), bytes(32))),
        "hello\n",
    ):
        note = signed(text, FIRST)
        assert refusal(chain_of, note) == "key-note"


def test_what_is_no_note_is_refused() -> None:
    for text in ("", "hello", rotation_text(Rotation(ORIGIN, 0, 1, FIRST, SECOND)), rotation(FIRST, SECOND, 1)[:-1]):
        assert refusal(chain_of, text) == "malformed"


# Texts


HEX = "ab" * 32
ROTATION = f"knowing-rotate/v1\norigin {HEX}\nepoch 0\nsize 4\nold {'01' * 32}\nnew {'02' * 32}\n"
REVOCATION = f"knowing-revoke/v1\norigin {HEX}\nepoch 1\nsize 12\nkey {'03' * 32}\n"
EPOCH = f"knowing-epoch/v1\norigin {HEX}\nepoch 2\nsize 7\nroot {'04' * 32}\n"
ATTESTATION = (
    f"knowing-attest/v1\nkind hash-checked\norigin {HEX}\nepoch 0\nindex 3\nsource {'05' * 32}\nextractor {'06' * 32}\n"
)


def test_texts_are_written_as_the_protocol_has_them() -> None:
    origin = bytes.fromhex(HEX)
    assert rotation_text(Rotation(origin, 0, 4, b"\1" * 32, b"\2" * 32)) == ROTATION
    assert revocation_text(Revocation(origin, 1, 12, b"\3" * 32)) == REVOCATION
    assert epoch_text(NewEpoch(origin, 2, 7, b"\4" * 32)) == EPOCH
    assert attestation_text(Attestation("hash-checked", origin, 0, 3, b"\5" * 32, b"\6" * 32)) == ATTESTATION


digests = st.binary(min_size=32, max_size=32)
counts = st.integers(0, MAX)


@given(
    st.builds(Rotation, digests, counts, counts, digests, digests)
    | st.builds(Revocation, digests, counts, counts, digests)
)
def test_key_note_reads_back(stated: Rotation | Revocation) -> None:
    text = rotation_text(stated) if isinstance(stated, Rotation) else revocation_text(stated)
    assert parse_key_note(text) == stated


@given(st.builds(NewEpoch, digests, counts, counts, digests))
def test_epoch_reads_back(epoch: NewEpoch) -> None:
    assert parse_epoch(epoch_text(epoch)) == epoch


@given(
    st.builds(Attestation, st.sampled_from(("hash-checked", "reproduced")), digests, counts, counts, digests, digests)
)
def test_attestation_reads_back(attestation: Attestation) -> None:
    assert parse_attestation(attestation_text(attestation)) == attestation


PARSERS: list[tuple[str, Callable[[str], object]]] = [
    (ROTATION, parse_key_note),
    (REVOCATION, parse_key_note),
    (EPOCH, parse_epoch),
    (ATTESTATION, parse_attestation),
]
each_kind = pytest.mark.parametrize(("text", "parse"), PARSERS, ids=["rotation", "revocation", "epoch", "attestation"])


def changed(text: str, line: int, new: str | None) -> str:
    """A text with one line replaced, or taken out."""
    lines = text.split("\n")
    lines[line : line + 1] = [] if new is None else [new]
    return "\n".join(lines)


@each_kind
def test_text_with_a_line_missing_doubled_or_swapped_is_refused(text: str, parse: Callable[[str], object]) -> None:
    parse(text)
    lines = text.split("\n")[:-1]
    for number, line in enumerate(lines):
        assert refusal(parse, changed(text, number, None)) == "key-note"
        doubled = changed(text, number, f"{line}\n{line}")
        assert refusal(parse, doubled) == "key-note"
    for number in range(len(lines) - 1):
        swapped = [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :], ""]
        assert refusal(parse, "\n".join(swapped)) == "key-note"


@each_kind
def test_text_that_is_not_exactly_its_lines_is_refused(text: str, parse: Callable[[str], object]) -> None:
    for wrong in (
        "",
        "\n",
        text[:-1],
        text + "\n",
        text + "more",
        text + "more 1\n",
        "\n" + text,
        text.replace("/v1", "/v2"),
        text.upper(),
    ):
        assert refusal(parse, wrong) == "key-note"


@each_kind
def test_field_in_another_spelling_is_refused(text: str, parse: Callable[[str], object]) -> None:
    for number, line in enumerate(text.split("\n")[1:-1], start=1):
        name, _, value = line.partition(" ")
        for wrong in (
            f"{name}  {value}",
            f"{name}\t{value}",
            f"{name}={value}",
            f" {name} {value}",
            f"{name.upper()} {value}",
            name,
        ):
            with pytest.raises(MalformedError):
                parse(changed(text, number, wrong))


@each_kind
def test_hash_that_is_not_canonical_is_refused(text: str, parse: Callable[[str], object]) -> None:
    numbers = [number for number, line in enumerate(text.split("\n")) if len(line.partition(" ")[2]) == 64]
    assert numbers
    for number in numbers:
        name, _, value = text.split("\n")[number].partition(" ")
        for wrong, code in (
            ("AB" * 32, "not-canonical-hex"),
            (value[:-1], "not-canonical-hex"),
            (value + " ", "not-canonical-hex"),
            (value[:-2], "wrong-length"),
            (value + "00", "wrong-length"),
            ("", "wrong-length"),
        ):
            spoiled = changed(text, number, f"{name} {wrong}")
            assert refusal(parse, spoiled) == code


@each_kind
@pytest.mark.parametrize(
    "wrong",
    ["", "-1", "+1", "01", "00", "1.0", "1e3", "0x1", "1_0", " 1", "1 ", "\u0661", "\u00b2", "9" * 17, "9" * 5000],
)
def test_number_that_is_not_canonical_is_refused(text: str, parse: Callable[[str], object], wrong: str) -> None:
    fields = [number for number, line in enumerate(text.split("\n")) if line.startswith(("epoch ", "size ", "index "))]
    assert len(fields) == 2
    for number in fields:
        name = text.split("\n")[number].partition(" ")[0]
        assert refusal(parse, changed(text, number, f"{name} {wrong}")) == "key-note"


@each_kind
def test_number_beyond_2_to_the_53_is_refused(text: str, parse: Callable[[str], object]) -> None:
    for number, line in enumerate(text.split("\n")):
        name = line.partition(" ")[0]
        if name in {"epoch", "size", "index"}:
            parse(changed(text, number, f"{name} {MAX}"))
            spoiled = changed(text, number, f"{name} {MAX + 1}")
            assert refusal(parse, spoiled) == "integer-range"


@pytest.mark.parametrize("kind", ["", "checked", "Reproduced", "hash-checked ", "hash_checked"])
def test_attestation_of_another_kind_is_refused(kind: str) -> None:
    assert refusal(parse_attestation, changed(ATTESTATION, 1, f"kind {kind}")) == "attestation-kind"
