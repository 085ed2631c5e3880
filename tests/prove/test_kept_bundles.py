"""Bundles that releases left behind still verify, and still say what they said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from knowing_protocol import ed25519
from knowing_protocol.trust import parse_trust
from knowing_protocol.verify import VERIFIED, verify_document
from prove import make_bundles

from knowingd import keys

KEPT = sorted(path for path in make_bundles.FOLDER.glob("*/*.json") if not path.stem.isupper())


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_kept_bundle_verifies_with_the_statement_of_its_day(path: Path) -> None:
    expected = json.loads((path.parent / "STATEMENTS.json").read_text())[path.stem]
    for verifier in (keys.verify, ed25519.verify):
        trust = parse_trust((path.parent / "TRUST.json").read_bytes(), verifier)
        report = verify_document(path.read_bytes(), trust, verifier)
        assert report.verdict == VERIFIED, (report.code, report.reason)
        found = {"verdict": report.verdict, "statement": report.statement, "not_covered": report.not_covered}
        assert found == expected


def test_every_release_has_one_of_each_kind() -> None:
    assert KEPT
    for statements in make_bundles.FOLDER.glob("*/STATEMENTS.json"):
        expected = json.loads(statements.read_text())
        assert set(expected) == {path.stem for path in KEPT if path.parent == statements.parent}
        texts = {name: one["statement"] for name, one in expected.items()}
        assert "calls the method" in texts["relation"]
        assert "there is no call" in texts["absence"]
        assert "no resolved call" in texts["absence-with-undecided"]
        assert "all of the roster" in texts["callers-all-of"]
        assert "At the named commits" in texts["at-commits"]
        assert "two different histories" in texts["evidence"]


def test_what_made_them_still_makes_bundles_of_every_kind(tmp_path: Path) -> None:
    bundles, trust = make_bundles.make(tmp_path)
    for name, bundle in bundles.items():
        data = json.dumps(bundle, separators=(",", ":")).encode()
        assert verify_document(data, trust, keys.verify).verdict == VERIFIED, name
