"""The specification names what the code does: every reason code, enumeration member, level and limit."""

from __future__ import annotations

import re
from pathlib import Path

from knowing_protocol import bundle, mapproof, statement, walk
from knowing_protocol.graph import MAP_LEVELS, Level
from knowing_protocol.vocabulary import Coverage, EdgeType, NodeKind, Provenance

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol" / "SPEC.md").read_text()
KERNEL = ROOT / "protocol" / "knowing_protocol"


def test_the_specification_lists_every_reason_code() -> None:
    codes: set[str] = set()
    for module in KERNEL.glob("*.py"):
        text = module.read_text()
        codes |= set(re.findall(r'RejectedError\(\s*f?"(?:\{what\})?([a-z_-]+)"', text))
        codes |= set(re.findall(r'code="([a-z-]+)"', text))
    assert len(codes) > 80
    assert {code for code in codes if code not in SPEC} == set()


def test_the_specification_lists_the_closed_enumerations() -> None:
    assert len(EdgeType) == 38
    for kind in (NodeKind, EdgeType, Provenance, Coverage):
        for member in kind:
            assert f"`{member.value}`" in SPEC, member
    for name in MAP_LEVELS:
        assert f"`{name}`" in SPEC, name


def test_the_specification_has_the_byte_of_every_level() -> None:
    table = SPEC.split("### 2.5")[1].split("\n## ")[0]
    for level in Level:
        name = level.name.lower()
        spellings = {name, name.replace("_", " "), name.replace("_set", " set")}
        assert any(f"| {int(level)} | {spelling} |" in table for spelling in spellings), level


def test_the_specification_states_the_limits() -> None:
    text = re.sub(r"(?<=\d)[ ,](?=\d{3}\b)", "", SPEC)
    for limit in (
        mapproof.MAX_PROOF_BYTES,
        bundle.MAX_BUNDLE_BYTES,
        statement.MAX_SCOPE,
        statement.MAX_CALLERS,
        statement.MAX_NAMES,
        walk.MAX_STEPS,
        walk.MAX_WORK,
        walk.MAX_ORDER,
    ):
        mebibytes = f"{limit >> 20} MiB" if limit >= 1 << 20 and limit % (1 << 20) == 0 else str(limit)
        assert str(limit) in text or mebibytes in text, limit


def test_formats_are_named_as_the_code_has_them() -> None:
    for name in (bundle.BUNDLE_FORMAT, "knowing-header/v1", "knowing-trust/v1", "knowing-attest/v1"):
        assert name in SPEC
