"""The committed vectors, read from their files as any implementation would, without the code that made them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from knowing_protocol import ed25519
from knowing_protocol.trust import parse_trust
from knowing_protocol.verify import verify_bundle

from knowingd import keys

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "protocol" / "vectors"
BUNDLES = sorted((VECTORS / "bundles").glob("*.json"))
FORGERIES = sorted((VECTORS / "forgeries").glob("*.json"))

# The defects that must each have a vector, whatever else there is.
DEFECTS = """
empty-proof all-zero-fields root-proven-to-contain-itself inner-node-passed-off-as-a-leaf steps-moved-between-levels
package-renamed edge-type-renamed repository-renamed ref-renamed commit-renamed source-renamed target-renamed
neighbour-style-absence-for-a-present-key absence-proven-with-the-leaf-of-the-key-itself leaf-not-on-its-keys-path
sibling-of-a-wrong-length depth-not-increasing truncated-path path-longer-than-256 duplicated-last-leaf
level-swapped subtree-of-another-repository record-bytes-swapped caller-dropped caller-added caller-doubled
callers-reordered alias-left-out-of-the-closure member-of-a-names-set-left-out
undecided-member-passed-off-as-excluded caller-passed-off-as-undecided forward-and-inbound-maps-disagree
provenance-changed colon-moved-from-package-to-name checkpoint-without-a-signature checkpoint-wrongly-signed
checkpoint-signed-by-another-key checkpoint-of-a-node-that-is-not-trusted repository-outside-of-the-trusted-pattern
header-not-in-the-log older-entry-claimed-as-head checkpoint-older-than-the-pin same-size-with-another-root
rotated-key-used-beyond-its-range revoked-key-used-beyond-its-range unknown-field duplicate-json-key upper-case-hex
boolean-for-an-integer
"""


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    assert found["format"] == "knowing-vector/v1"
    assert found["name"] == path.stem
    return found


def test_every_named_defect_has_a_vector() -> None:
    assert {*DEFECTS.split()} <= {path.stem for path in FORGERIES}


@pytest.mark.parametrize("verifier", [ed25519.verify, keys.verify], ids=["pure python", "cryptography"])
@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_honest_bundle_verifies_with_exactly_this_report(path: Path, verifier: ed25519.Verifier) -> None:
    vector = load(path)
    report = verify_bundle(vector["bundle"].encode(), parse_trust(vector["trust"].encode()), verifier)
    assert report.as_json() == vector["expect"]


@pytest.mark.parametrize("path", FORGERIES, ids=lambda path: path.stem)
def test_forgery_is_rejected_for_its_own_reason(path: Path) -> None:
    vector = load(path)
    report = verify_bundle(vector["bundle"].encode(), parse_trust(vector["trust"].encode()))
    assert (report.verdict, report.code) == ("rejected", vector["expect"]["code"])
    assert report.reason
    assert not report.statement


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_without_a_trust_file_nobody_can_tell_who_signed(path: Path) -> None:
    vector = load(path)
    report = verify_bundle(vector["bundle"].encode(), None)
    assert report.verdict == "cannot-tell"
    assert report.statement == vector["expect"]["statement"]
    assert report.not_covered == vector["expect"]["not_covered"]


def test_a_forgery_without_a_trust_file_is_never_better_than_cannot_tell() -> None:
    verdicts = {verify_bundle(load(path)["bundle"].encode(), None).verdict for path in FORGERIES}
    assert "verified" not in verdicts


def test_single_file_verifier_judges_all_vectors_alone_in_an_empty_directory(tmp_path: Path) -> None:
    single = tmp_path / "knowing-verify.pyz"
    subprocess.run([sys.executable, ROOT / "tools" / "make_verifier.py", single], check=True, capture_output=True)
    expected = {"verified": 0, "rejected": 3, "cannot-tell": 1}
    (tmp_path / "work").mkdir()
    # A handful is enough to show that the file stands alone; the others differ only in what the kernel says.
    for path in [*BUNDLES[::4], *FORGERIES[::15]]:
        vector = load(path)
        (tmp_path / "work" / "b.json").write_text(vector["bundle"])
        (tmp_path / "work" / "t.json").write_text(vector["trust"])
        done = subprocess.run(
            [sys.executable, "-I", single, "b.json", "--trust", "t.json", "--json"],
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected[vector["expect"]["verdict"]], (path.stem, done.stderr)
        assert not done.stderr
        report = json.loads(done.stdout)
        assert {key: report[key] for key in vector["expect"]} == vector["expect"]


def test_single_file_verifier_is_reproducible(tmp_path: Path) -> None:
    made = []
    for name in ("a.pyz", "b.pyz"):
        target = tmp_path / name
        subprocess.run([sys.executable, ROOT / "tools" / "make_verifier.py", target], check=True, capture_output=True)
        made.append(target.read_bytes())
    assert made[0] == made[1]


def test_verifier_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); "
        "import knowing_protocol.__main__; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT / "protocol")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["knowing_protocol"]
