"""What a verified statement says is true of the graphs, and a screen says no less: names from outside, kinds, refs."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
import world as vectors
from extract.helpers import Indexed
from knowing_protocol.__main__ import text_of
from knowing_protocol.bundle import seal_of
from knowing_protocol.claims import CALLERS, NO_NODE, NO_RELATION, NODE, RELATION, Question
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.errors import RejectedError
from knowing_protocol.graph import Graph, Level, graph_map, inbound_key, names_key, set_value
from knowing_protocol.hashing import NodeId, external, node_hash
from knowing_protocol.history import Header
from knowing_protocol.prover import Subject, make_bundle
from knowing_protocol.trust import parse_trust, trust_to_json
from knowing_protocol.verify import Report, verify_bundle
from positive import AUDIT, CALLS, CHARGE
from world import PAYMENTS, SHOP, START, Builder, Node, payments, world

from knowingd import keys


def report_on(bundle: dict[str, object], node: Node) -> Report:
    trust = parse_trust(json.dumps(trust_to_json([node.trusted()])).encode())
    sealed = {**bundle, "seal": seal_of(bundle).hex()}
    return verify_bundle(json.dumps(sealed).encode(), trust, keys.verify)


def verified(question: Question, subjects: list[Subject], node: Node) -> str:
    """The text of a statement that verifies."""
    report = report_on(make_bundle(question, subjects), node)
    assert (report.verdict, report.code) == ("verified", "verified")
    return text_of(report, START) + report.statement


@pytest.mark.parametrize("claim", [NODE, RELATION])
def test_repositories_that_a_statement_asks_nothing_are_no_reason_to_refuse_it(claim: str) -> None:
    node = world()
    question = Question(NODE, CHARGE) if claim == NODE else Question(RELATION, AUDIT, CALLS, CHARGE)
    verified(question, node.subjects(), node)


def test_an_overlay_that_nobody_had_to_ask_is_no_reason_to_refuse_a_statement() -> None:
    node = Node("hub")
    over = Builder(PAYMENTS)
    over.edge(over.node(*CHARGE[1:]), over.node(*AUDIT[1:]), how="runtime_observed")
    node.commit(PAYMENTS, payments().records, "1" * 40, overlay=over.records)
    verified(Question(NODE, CHARGE), node.subjects(), node)


def test_a_name_that_a_repository_publishes_is_not_said_to_be_defined_by_none() -> None:
    node = world()
    text = verified(Question(NO_NODE, external("python://payments.charge")), [node.subject(0)], node)
    assert "No repository in scope defines it" not in text


def test_a_name_of_the_standard_library_that_a_repository_publishes_is_no_name_from_outside() -> None:
    made = Builder(PAYMENTS)
    made.alias("python://tomllib", made.node("tomllib", "", "file"), claimed=False)
    made.alias("python://tomllib.loads", made.node("tomllib", "loads"), claimed=False)
    node = Node("hub")
    node.commit(PAYMENTS, made.records, "1" * 40)
    with pytest.raises(RejectedError) as caught:
        make_bundle(Question(CALLERS, external("python://tomllib.loads"), CALLS), node.subjects())
    assert caught.value.code == "subject-published"
    text = verified(Question(CALLERS, external("python://tomllib.load"), CALLS), node.subjects(), node)
    assert "No repository in scope defines it" in text


def test_a_nameless_symbol_of_another_kind_is_not_called_a_module() -> None:
    node = world()
    module = NodeId(PAYMENTS, "payments/api", "", "file")
    assert 'has the module "payments/api"' in verified(Question(NODE, module), [node.subject(0)], node)
    text = verified(Question(NO_NODE, module._replace(kind="function")), [node.subject(0)], node)
    assert 'no module "payments/api"' not in text
    assert "function" in text


class Misnamed(Node):
    """A node that calls every branch main."""

    def _append(self, header: Header, source: Graph | None, overlay: Graph | None) -> Header:
        return super()._append(replace(header, branch="main"), source, overlay)


def test_a_ref_that_is_not_the_default_stands_on_the_screen() -> None:
    node = Misnamed("hub")
    node.commit(PAYMENTS, Builder(PAYMENTS).records, "7" * 40, ref="abandoned/2019")
    node.commit(PAYMENTS, payments().records, "1" * 40)
    report = report_on(make_bundle(Question(NO_NODE, CHARGE), [node.subject(0)]), node)
    assert "abandoned/2019" in report.statement
    assert "abandoned/2019" in text_of(report, START)


def test_a_second_proof_of_one_map_does_not_travel_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that signs one root for the callers of two names could let a bundle carry a proof that nobody decodes."""
    names = ("python://payments.charge", "python://payments.api.charge")
    made = Builder(SHOP)
    other, quiet = made.node("shop", "other"), made.node("shop", "quiet")
    for name in names:
        made.edge(other, name)
    graph = Graph(SHOP, made.records)
    first, second = (inbound_key("calls", node_hash(*external(name))) for name in names)
    graph.inbound_sets[second] = graph.inbound_sets[first]
    value = set_value(*graph.inbound_sets[first])
    listed = MerkleMap.of(Level.NAMES_SET, {node_hash(*external(name)): value for name in names})
    graph.names_sets[names_key("calls", "charge")] = (listed, len(names))
    for name, level, sets in (("inbound", Level.INBOUND, graph.inbound_sets), ("names", Level.NAMES, graph.names_sets)):
        graph.maps[name] = MerkleMap.of(level, {key: set_value(*one) for key, one in sets.items()})
    graph.top = graph_map({name: tree.root for name, tree in graph.maps.items()})
    node = Node("hub")
    node.commit(PAYMENTS, payments().records, "1" * 40)
    monkeypatch.setattr(vectors, "Graph", lambda *_: graph)
    node.commit(SHOP, made.records, "2" * 40)
    bundle = make_bundle(Question(NO_RELATION, CHARGE, CALLS, quiet), node.subjects())
    [section] = [one for one in bundle["graphs"] if "sets" in one]
    section["sets"][1][4] = base64.b64encode(b"what nobody reads").decode()
    assert report_on(bundle, node).verdict == "rejected"


def test_a_name_that_a_call_or_an_unknown_import_gave_is_still_a_reference() -> None:
    """The call alone would be none, but the import may be anything of that name."""
    body = """
        from other import make
        def use(run):
            try:
                from ....beyond import charge
            except ImportError:
                charge = make()
            run(charge)
    """
    code = Indexed({"app/__init__.py": "", "app/main.py": body})
    assert "unresolved://python/charge" in code.targets("app/main:use", "references")
