"""Evidence against a node: what shows something, with nothing but the document, and what only looks like it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol import ed25519, tlog
from knowing_protocol.__main__ import main
from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import KnowingError
from knowing_protocol.evidence import (
    FORK,
    MAX_EVIDENCE_BYTES,
    ROLLBACK,
    State,
    check_evidence,
    evidence_document,
    is_evidence,
    signed_state,
)
from knowing_protocol.history import checkpoint_of, log_name, node_name
from knowing_protocol.keys import KeyChain, Revocation, Rotation, revocation_text, rotation_text
from knowing_protocol.note import checkpoint_text, sign_note
from knowing_protocol.verify import verify_document
from world import START, Node, seed

from knowingd import keys
from knowingd.keys import SigningKey, public_key_of
from knowingd.sync.logs import DishonestLogError, first_difference, follow

ROOT = Path(__file__).parents[2]
HUB, SHOP = Node("hub"), Node("shop")
LATER = public_key_of(seed("later"))
HONEST, OTHER = ([bytes([one]) * 32 for one in leaves] for leaves in ((1, 2, 3, 4, 5), (1, 2, 9, 4, 5, 6, 7)))


def note(leaves: Sequence[bytes], time: int = START, *, key: str = "hub", epoch: int = 0) -> str:
    text = checkpoint_text(checkpoint_of(HUB.origin, epoch, len(leaves), tlog.Log(leaves).root(), time))
    return sign_note(text, [SigningKey(log_name(HUB.origin, epoch), seed(key))])


def place(index: int, *sides: Sequence[bytes]) -> dict[str, Any]:
    return {
        "index": index,
        "leaves": [leaves[index].hex() for leaves in sides],
        "paths": [[one.hex() for one in tlog.Log(leaves).inclusion_proof(index, len(leaves))] for leaves in sides],
    }


def shown(kind: str, *notes: str, where: dict[str, Any] | None = None, key_notes: Sequence[str] = ()) -> bytes:
    one, two = notes
    return evidence_document(kind, HUB.first_key, list(key_notes), (one, two), where or {}).encode()


def node_note(text: str, *names: str) -> str:
    return sign_note(text, [SigningKey(node_name(HUB.origin), seed(name)) for name in names])


def rotation(size: int, epoch: int = 0) -> str:
    return node_note(rotation_text(Rotation(HUB.origin, epoch, size, HUB.first_key, LATER)), "hub", "later")


def changed(data: bytes, **changes: Any) -> bytes:
    return canonical_json({**json.loads(data), **changes})


def refusal(data: bytes) -> str:
    with pytest.raises(KnowingError) as caught:
        check_evidence(data, keys.verify)
    return caught.value.code


ONE_SIZE = shown(FORK, note(HONEST), note(OTHER[:5]))
TWO_SIZES = shown(FORK, note(HONEST), note(OTHER), where=place(2, HONEST, OTHER))
SHORTER = shown(ROLLBACK, note(HONEST), note(HONEST[:2], START + 1))
TRUE = {"one size": ONE_SIZE, "two sizes": TWO_SIZES, "shorter": SHORTER}


@pytest.mark.parametrize("verifier", [ed25519.verify, keys.verify], ids=["pure python", "cryptography"])
@pytest.mark.parametrize("data", TRUE.values(), ids=TRUE)
def test_two_statements_that_cannot_both_be_true_are_evidence(data: bytes, verifier: ed25519.Verifier) -> None:
    found = check_evidence(data, verifier)
    assert found.before.origin == HUB.origin
    assert found.kind == json.loads(data)["kind"]
    assert HUB.origin.hex()[:16] in found.sentence
    report = verify_document(data, None, verifier)
    assert (report.verdict, report.code, report.statement) == ("verified", "verified", found.sentence)
    assert report.not_covered


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (changed(ONE_SIZE, notes=[note(HONEST), note(OTHER[:5], key="shop")]), "unsigned"),
        (changed(ONE_SIZE, notes=[note(HONEST), note(OTHER[:5]).replace("\n5\n", "\n6\n")]), "bad-signature"),
        (changed(ONE_SIZE, origin=SHOP.origin.hex()), "evidence"),
        (changed(ONE_SIZE, origin=SHOP.origin.hex(), first_key=SHOP.first_key.hex()), "checkpoint-origin"),
        (changed(ONE_SIZE, notes=[note(HONEST), note(HONEST, START + 9)]), "evidence"),
        (changed(ONE_SIZE, notes=[note(HONEST)]), "evidence"),
        (changed(ONE_SIZE, kind=ROLLBACK), "evidence"),
        (shown(FORK, note(HONEST), note(OTHER)), "evidence"),
        (shown(FORK, note(HONEST), note(HONEST[:2])), "evidence"),
        (shown(FORK, note(HONEST), note(OTHER), where=place(1, HONEST, OTHER)), "evidence"),
        (changed(TWO_SIZES, index=3), "log-inclusion"),
        (changed(TWO_SIZES, index=5), "log-inclusion"),
        (changed(TWO_SIZES, paths=[[], []]), "log-inclusion"),
        (changed(TWO_SIZES, leaves=[HONEST[2].hex(), HONEST[3].hex()]), "log-inclusion"),
        (changed(TWO_SIZES, leaves=[HONEST[2].hex()]), "evidence"),
        (changed(TWO_SIZES, leaves=[]), "evidence"),
        (shown(ROLLBACK, note(HONEST[:2]), note(HONEST, START + 1)), "evidence"),
        (shown(ROLLBACK, note(HONEST), note(HONEST[:2])), "evidence"),
        (shown(ROLLBACK, note(HONEST), note(HONEST[:2], START - 1)), "evidence"),
        (shown(ROLLBACK, note(HONEST), note(HONEST[:2], START + 1, epoch=1)), "evidence"),
        (shown(FORK, note(HONEST), note(OTHER[:5], epoch=1)), "evidence"),
        (changed(ONE_SIZE, index=0), "missing-field"),
        (changed(ONE_SIZE, leaves=[]), "unknown-field"),
        (changed(ONE_SIZE, kind="both"), "unknown-value"),
        (changed(TWO_SIZES, index=True), "wrong-type"),
        (changed(TWO_SIZES, paths=[["00" * 32] * 65, []]), "too-long"),
        (changed(ONE_SIZE, first_key="00" * 32), "bad-key"),
        (ONE_SIZE + b" " * MAX_EVIDENCE_BYTES, "too-large"),
        (b"[]", "wrong-type"),
    ],
)
def test_what_shows_nothing_is_refused_for_its_own_reason(data: bytes, code: str) -> None:
    assert refusal(data) == code
    assert verify_document(data, None).verdict == "rejected"


def test_each_note_counts_if_a_key_of_the_node_signed_it_in_its_range() -> None:
    where = place(2, HONEST, OTHER)
    after = note(OTHER, key="later")
    assert check_evidence(shown(FORK, note(HONEST), after, where=where, key_notes=[rotation(5)]), keys.verify)
    assert refusal(shown(FORK, note(HONEST), after, where=where)) == "unsigned"
    assert refusal(shown(FORK, note(HONEST), after, where=where, key_notes=[rotation(4)])) == "key-range"
    assert refusal(shown(FORK, note(HONEST), after, where=where, key_notes=[rotation(8)])) == "key-range"
    gone = node_note(revocation_text(Revocation(HUB.origin, 0, 4, HUB.first_key)), "hub")
    assert refusal(changed(ONE_SIZE, key_notes=[gone])) == "key-range"


def test_a_chain_of_another_node_reads_no_state() -> None:
    with pytest.raises(KnowingError) as caught:
        signed_state(note(HONEST), KeyChain(SHOP.first_key), keys.verify)
    assert caught.value.code == "checkpoint-origin"


leaves = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(lambda found: [bytes([one]) * 32 for one in found])


def dishonesty(before: State, after: State, old: list[bytes], new: list[bytes]) -> KnowingError | None:
    try:
        follow(before, after, [], KeyChain(HUB.first_key), keys.verify)
    except KnowingError as error:
        return error
    return first_difference(before, after, old, new) if new[: len(old)] != old else None


@given(old=leaves, new=leaves, later=st.booleans())
def test_what_following_finds_is_evidence_and_of_one_log_there_is_none(
    old: list[bytes], new: list[bytes], later: bool
) -> None:
    chain = KeyChain(HUB.first_key)
    before = signed_state(note(old), chain, keys.verify)
    after = signed_state(note(new, START + later), chain, keys.verify)
    caught = dishonesty(before, after, old, new)
    if isinstance(caught, DishonestLogError):
        found = check_evidence(caught.body(HUB.first_key, []).encode(), keys.verify)
        assert (found.kind, found.before, found.after) == (caught.kind, before, after)
        assert found.kind == (ROLLBACK if len(new) < len(old) else FORK)
    else:
        assert caught is None or caught.code == "behind"
    for index in range(min(len(old), len(new))):
        if old[index] == new[index]:
            assert refusal(shown(FORK, note(old), note(new), where=place(index, old, new))) == "evidence"


@given(st.binary(max_size=60), st.integers(0, len(TWO_SIZES)))
def test_no_bytes_make_the_verifier_fail(noise: bytes, where: int) -> None:
    data = TWO_SIZES[:where] + noise + TWO_SIZES[where + len(noise) :]
    assert verify_document(data, None, keys.verify).verdict in ("verified", "rejected")


def test_evidence_is_told_from_bundles_by_its_format() -> None:
    assert is_evidence(ONE_SIZE)
    for path in sorted((ROOT / "protocol" / "vectors" / "bundles").glob("*.json"))[:3]:
        assert not is_evidence(json.loads(path.read_text())["bundle"].encode())


@pytest.mark.parametrize("command", [["verify"], []], ids=["verify FILE", "FILE"])
def test_the_command_judges_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    file = tmp_path / "evidence.json"
    file.write_bytes(TWO_SIZES)
    assert main([*command, str(file)]) == 0
    said = capsys.readouterr().out
    assert "signed two different histories" in said
    assert "Entries:" not in said
    file.write_bytes(changed(TWO_SIZES, index=1))
    assert main([*command, str(file), "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["code"], report["statement"]) == ("rejected", "log-inclusion", "")


def test_the_module_and_the_single_file_judge_evidence_alone(tmp_path: Path) -> None:
    single = tmp_path / "knowing-verify.pyz"
    subprocess.run([sys.executable, ROOT / "tools" / "make_verifier.py", single], check=True, capture_output=True)
    (tmp_path / "good.json").write_bytes(SHORTER)
    (tmp_path / "bad.json").write_bytes(changed(SHORTER, kind=FORK))
    module = [sys.executable, "-m", "knowing_protocol", "verify"]
    for command in (module, [sys.executable, "-I", str(single)]):
        for name, code in (("good.json", 0), ("bad.json", 3)):
            done = subprocess.run([*command, name], cwd=tmp_path, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (code, "")
            assert ("a shorter log after a longer one" in done.stdout) == (code == 0)
