"""What people read must not be steerable by names that strangers chose."""

from __future__ import annotations

import json

import positive
import pytest
from knowing_protocol.__main__ import text_of
from knowing_protocol.claims import Question
from knowing_protocol.hashing import NodeId
from knowing_protocol.prover import make_bundle
from knowing_protocol.render import visible
from knowing_protocol.trust import parse_trust
from knowing_protocol.verify import Report, verify_bundle
from world import SHOP, Builder, Node

HOSTILE = ["\u202e", "\u2066", "\u200b", "\x1b[2J", "\r", "\n", "\x07", "\u2028", "\ufeff", "\U000e0041", "\x9b"]


@pytest.mark.parametrize("character", HOSTILE)
def test_invisible_characters_are_escaped(character: str) -> None:
    shown = visible(f"a{character}b")
    assert shown.startswith("a\\u{")
    assert shown.isprintable()


@pytest.mark.parametrize("character", HOSTILE)
def test_a_hostile_name_cannot_reach_the_terminal(character: str) -> None:
    name = f"f{character}VERIFIED nobody calls anything"
    made = Builder(SHOP)
    made.edge(made.node("p", name), made.node(f"q{character}", "g"))
    node = Node("hub")
    node.commit(SHOP, made.records, f"c{character}")
    question = Question("callers", NodeId(SHOP, f"q{character}", "g", "function"), ("calls",))
    bundle = make_bundle(question, [node.subject(0)])
    trust = parse_trust(positive.text({"format": "knowing-trust/v1", "nodes": [node.trusted().as_json()]}).encode())
    report = verify_bundle(json.dumps(bundle).encode(), trust)
    assert report.verdict == "verified"
    assert character not in report.statement
    assert character not in "".join(report.not_covered)
    assert character not in text_of(report, 0).replace("\n", "" if character == "\n" else "\n")
    # Nothing that a stranger chose begins a line of its own, where it could pass for a verdict.
    assert not [line for line in text_of(report, 0).splitlines()[1:] if line.lstrip().startswith("VERIFIED")]


def shown_of(case: positive.Case) -> tuple[Report, list[str]]:
    report = verify_bundle(case.bundle.encode(), parse_trust(case.trust.encode()))
    assert report.verdict == "verified", report.reason
    return report, text_of(report, 0).splitlines()


def test_on_a_screen_the_claim_comes_first_and_every_caller_has_its_line() -> None:
    report, lines = shown_of(positive.callers())
    assert lines[:2] == [
        "VERIFIED",
        '  Exactly 3 symbols call the function "charge" in "payments/api" of github.com/acme/payments:',
    ]
    listed = [line for line in lines if line.startswith("      ")]
    assert len(listed) == 3
    for line in listed:
        assert line.split(" as ")[0].strip() in report.statement
    assert "  At the head of 3 repositories, all of the roster of node" in "\n".join(lines)


def test_on_a_screen_what_is_not_excluded_stands_by_repository() -> None:
    report, lines = shown_of(positive.callers_none_but_undecided())
    where = lines.index("  - 1 name was used that could not be followed, and could be it:")
    assert lines[where + 1] == "    github.com/acme/shop"
    assert lines[where + 2].startswith('      call of "')
    assert report.statement.endswith("No repository in scope defines it.")
    assert "no resolved call" in report.statement


def test_ordinary_unicode_stays_readable() -> None:
    assert visible("naïve 変数 ñ") == "naïve 変数 ñ"
