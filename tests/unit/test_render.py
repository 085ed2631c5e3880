"""What people read must not be steerable by names that strangers chose."""

from __future__ import annotations

import json

import positive
import pytest
from knowing_protocol.claims import Question
from knowing_protocol.hashing import NodeId
from knowing_protocol.prover import make_bundle
from knowing_protocol.render import visible
from knowing_protocol.trust import parse_trust
from knowing_protocol.verify import verify_bundle
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


def test_ordinary_unicode_stays_readable() -> None:
    assert visible("naïve 変数 ñ") == "naïve 変数 ñ"
