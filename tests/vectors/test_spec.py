"""The specification names what the code does: every reason code, enumeration member, level and limit."""

from __future__ import annotations

import re
from pathlib import Path

from knowing_protocol import access, bundle, evidence, mapproof, pack, rice, statement, walk
from knowing_protocol.graph import MAP_LEVELS, Level
from knowing_protocol.vocabulary import Coverage, EdgeType, NodeKind, Provenance

from knowingd.http import app, events
from knowingd.sync import chunks, descent, fetching, following, invites, serving, signatures, spaces, wire

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol" / "SPEC.md").read_text()
KERNEL = ROOT / "protocol" / "knowing_protocol"
SYNC = SPEC.split("\n## 25. ")[1].split("\n## 39. ")[0]
MODULES = """
chunks client delta descent fetching following invites logs publishing pulling replica serving signatures spaces tokens
visible wire
"""


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


def test_the_specification_lists_every_reason_code_of_sync() -> None:
    codes: set[str] = set()
    for name in MODULES.split():
        text = (ROOT / "knowingd" / "sync" / f"{name}.py").read_text()
        codes |= set(re.findall(r'RejectedError\(\s*"([a-z-]+)"', text))
        codes |= set(re.findall(r'\bcode ?= ?"([a-z-]+)"', text))
    assert len(codes) > 30
    assert {code for code in codes if f"`{code}`" not in SPEC} == set()


def test_the_specification_names_every_endpoint_of_the_wire() -> None:
    text = (ROOT / "knowingd" / "http" / "app.py").read_text()
    (served,) = re.findall(r"for name in \(([^)]*)\):\n *app.router.add_post", text)
    paths = {f"/v1/{name}" for name in re.findall(r'"([a-z]+)"', served)}
    paths |= set(re.findall(r'router\.add_(?:get|post)\("(/v1/[a-z]+)"', text))
    assert len(paths) > 10
    assert {path for path in paths if path not in SYNC} == set()


def test_the_specification_has_the_numbers_of_what_travels() -> None:
    row = next(line for line in SYNC.splitlines() if line.startswith("| provenances |"))
    assert re.findall(r"`([a-z0-9_]+)` ([0-9])", row) == [(one.value, str(n)) for n, one in enumerate(Provenance)]
    lists = SPEC.split("### 2.1")[1].split("### 2.3")[0] + SPEC.split("### 2.4")[1].split("### 2.5")[0]
    names = re.findall(r"`([a-z_]+)`", lists)
    for kind in (NodeKind, EdgeType, Coverage):
        members = [one.value for one in kind]
        start = names.index(members[0])
        assert names[start : start + len(members)] == members
    for number, name in enumerate(spaces.MAPS):
        assert f"| {number} | `{name}` |" in SYNC
    kinds = ("children", "leaves", "want", "branches")
    for number, name in enumerate(kinds):
        assert getattr(descent, name.upper()) == number
        assert f"| {number} | {name} |" in SYNC


def test_the_specification_states_the_limits_of_sync() -> None:
    text = re.sub(r"(?<=\d)[ ,](?=\d{3}\b)", "", SYNC)
    for limit in (
        access.MAX_NODES,
        chunks.MAX_CHUNK,
        descent.FEW,
        descent.MANY,
        descent.MAX_ASKS,
        descent.MAX_BITS,
        following.MAX_LEAVES,
        invites.MAX_INVITE,
        pack.MAX_FACTS,
        pack.MAX_TEXT,
        rice.MAX_PARAMETER - 1,
        evidence.MAX_EVIDENCE_BYTES,
        events.MAX_STREAMS,
        fetching.MAX_PIECES,
        app.MAX_INTRODUCTION,
        serving.MAX_DELTA,
        serving.MAX_LEAVES,
        serving.MAX_LOGS,
        serving.MAX_PIECES,
        signatures.WINDOW,
        wire.MAX_BODY,
        wire.MAX_LISTS,
        wire.MAX_QUESTION,
        wire.MAX_SENT,
    ):
        spellings = {str(limit), f"{limit >> 10} KiB", f"{limit >> 20} MiB"}
        assert any(re.search(rf"\b{one}\b", text) for one in spellings), limit
    for name in (wire.MEDIA_TYPE, wire.COMPRESSED, access.ACCESS, "knowing-hello/v1", evidence.EVIDENCE):
        assert name in SYNC


def test_sections_are_numbered_one_after_another_and_references_lead_somewhere() -> None:
    sections = [int(one) for one in re.findall(r"^## (\d+)\. ", SPEC, re.MULTILINE)]
    assert sections == list(range(1, len(sections) + 1))
    numbers = {str(one) for one in sections} | set(re.findall(r"^### (\d+\.\d+) ", SPEC, re.MULTILINE))
    without_codes = re.sub(r"```.*?```|`[^`\n]*`", "", SPEC, flags=re.DOTALL)
    named = re.findall(r"\((\d+\.\d+)[,)]", without_codes)
    assert len(named) > 100
    assert set(named) <= numbers
