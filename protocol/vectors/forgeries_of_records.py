"""Records and lists with something dropped, added, swapped or told differently."""

from __future__ import annotations

from typing import Any

import positive
from forge import (
    changed,
    encoded,
    on_statement,
    rejected,
    section_of,
)
from knowing_protocol import graph
from knowing_protocol.claims import Question
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.graph import Level, edge_type_key, package_key
from knowing_protocol.hashing import external, node_hash, relation_hash
from knowing_protocol.mapproof import prove_map
from knowing_protocol.prover import make_bundle
from positive import AUDIT, CALLS, CHARGE, Case, case
from world import PAYMENTS, SHOP, TOOLS, Node, payments, shop


@rejected("facts-value")
def record_bytes_swapped() -> Case:
    def swap(parts: dict[str, Any]) -> None:
        rows = section_of(parts, PAYMENTS)["facts"]
        rows[0][1], rows[1][1] = rows[1][1], rows[0][1]

    return changed(positive.relation_through_a_base_class(), swap)


@rejected("provenance")
def provenance_changed() -> Case:
    def change(parts: dict[str, Any]) -> None:
        parts["statement"]["provenances"] = ["scip_resolved"]
        parts["graphs"][0]["relations"][0][3] = ["scip_resolved"]

    return changed(positive.relation(), change)


@rejected("statement-provenances")
def provenance_changed_in_the_statement_alone() -> Case:
    return on_statement(positive.relation, lambda statement: statement.update(provenances=["scip_resolved"]))


@rejected("inbound-incomplete")
def caller_dropped() -> Case:
    return on_statement(positive.callers, lambda statement: statement["callers"].pop())


@rejected("inbound-incomplete")
def caller_added() -> Case:
    def add(statement: dict[str, Any]) -> None:
        statement["callers"].append({**statement["callers"][-1], "name": "zealous"})

    return on_statement(positive.callers, add)


@rejected("inbound-doubled")
def caller_doubled() -> Case:
    return on_statement(positive.callers, lambda statement: statement["callers"].append(statement["callers"][-1]))


@rejected("statement-callers")
def callers_reordered() -> Case:
    return on_statement(positive.callers, lambda statement: statement["callers"].reverse())


@rejected("alias_of-incomplete")
def alias_left_out_of_the_closure() -> Case:
    def leave_out(parts: dict[str, Any]) -> None:
        for row in section_of(parts, PAYMENTS)["alias_of"]:
            if len(row[1]) == 2:
                row[1].pop()
        parts["statement"]["names"].remove("python://payments.charge")

    return changed(positive.callers(), leave_out)


@rejected("alias_of-incomplete")
def re_export_left_out_of_the_closure() -> Case:
    def leave_out(parts: dict[str, Any]) -> None:
        section_of(parts, TOOLS)["alias_of"][0][1] = ["python://tools.other"]
        parts["statement"]["names"].remove("python://tools.pay")

    return changed(positive.callers(), leave_out)


@rejected("statement-names")
def alias_left_out_of_the_statement() -> Case:
    return on_statement(positive.callers, lambda statement: statement["names"].pop())


@rejected("names-incomplete")
def member_of_a_names_set_left_out() -> Case:
    def leave_out(parts: dict[str, Any]) -> None:
        for row in section_of(parts, SHOP)["names"]:
            if row[1] == "get":
                row[2] = row[2][:1]
        parts["statement"]["undecided"] = []

    return changed(positive.callers_none_but_undecided(), leave_out)


@rejected("inbound-incomplete")
def undecided_member_passed_off_as_excluded() -> Case:
    return on_statement(positive.callers_none_but_undecided, lambda statement: statement.update(undecided=[]))


@rejected("statement-undecided")
def reason_of_an_undecided_member_changed() -> Case:
    def change(statement: dict[str, Any]) -> None:
        statement["undecided"][0]["reason"] = "it is harmless"

    return on_statement(positive.callers_none_but_undecided, change)


@rejected("statement-callers")
def caller_of_another_target() -> Case:
    """A caller that has another name for the symbol than it uses."""

    def change(statement: dict[str, Any]) -> None:
        statement["callers"].append({**statement["callers"][0], "name": "zealous", "via": "python://no.where"})

    return on_statement(positive.callers, change)


@rejected("inbound-incomplete")
def place_of_an_undecided_member_dropped() -> Case:
    return on_statement(
        positive.callers_none_but_undecided, lambda statement: statement["undecided"][0]["sources"].pop()
    )


@rejected("inbound-incomplete")
def provenance_of_a_caller_changed() -> Case:
    def change(statement: dict[str, Any]) -> None:
        statement["callers"][0]["provenances"] = ["ast_inferred", "ast_resolved"]

    return on_statement(positive.callers, change)


@rejected("statement-callers")
def caller_passed_off_as_undecided() -> Case:
    def change(statement: dict[str, Any]) -> None:
        caller = statement["callers"].pop()
        statement["undecided"].append(
            {
                "repository": caller["repository"],
                "type": "calls",
                "target": caller["via"],
                "reason": "the receiver's type is not known",
                "sources": [[caller["package"], caller["name"], caller["kind"], caller["provenances"]]],
            }
        )

    return on_statement(positive.callers, change)


@rejected("members-not-shown")
def member_that_the_bundle_offers_for_another_name() -> Case:
    """The walk asks for the member that the path names, whatever the bundle would rather show."""
    node = Node("hub")
    node.commit(PAYMENTS, payments().records, "1" * 40)
    made = shop()
    refund = made.node("shop/cart", "refund")
    forged = external("python://payments.make_client().zzz")
    made.edge(refund, forged.name)
    node.commit(SHOP, made.records, "2" * 40)
    honest = "python://payments.make_client().close"
    bundle = make_bundle(Question("relation", positive.CLOSE, CALLS, refund, honest), node.subjects())
    bundle["statement"]["via"] = forged.name
    section = section_of(bundle, SHOP)
    section["symbols"] = [forged.name if one == honest else one for one in section["symbols"]]
    relation = relation_hash(node_hash(*refund), node_hash(*forged), "calls")
    section["branches"][0][2] = encoded(prove_map(node.graphs[1][0].branches["shop/cart"]["calls"], [relation]))
    return case(bundle, node.trusted())


class LyingGraph(graph.Graph):
    """A graph whose forward map was stripped of one relation before it was signed."""

    def _build_edges(self, edges: Any) -> None:
        super()._build_edges(edges)
        wanted = relation_hash(node_hash(*CHARGE), node_hash(*AUDIT), "calls")
        kept = {key: value for key, value in self.branches["payments/api"]["calls"] if key != wanted}
        self.branches["payments/api"]["calls"] = MerkleMap.of(Level.RELATIONS, kept)
        self.package_types["payments/api"] = MerkleMap.of(
            Level.EDGE_TYPES,
            {edge_type_key(one): tree.root for one, tree in self.branches["payments/api"].items()},
        )
        self.packages = MerkleMap.of(
            Level.PACKAGES, {package_key(package): tree.root for package, tree in self.package_types.items()}
        )


@rejected("forward-inbound-disagree")
def forward_and_inbound_maps_disagree() -> Case:
    """A dishonest index signed both: the inbound map has a call that the forward map denies."""
    node = Node("hub")
    header = node.commit(PAYMENTS, payments().records, "1" * 40)
    lying = LyingGraph(PAYMENTS, payments().records)
    node = Node("hub")
    fields = {name: getattr(header, name) for name in type(header).__slots__} | {"source": lying.root}
    node._append(type(header)(**fields), lying, None)  # noqa: SLF001

    class Silent(LyingGraph):
        """Answers as its forward map does, to get past the prover."""

        def relation(self, source: Any, target: Any, edge_type: str) -> tuple[str, ...]:
            lie = (source, target, edge_type) == (CHARGE, AUDIT, "calls")
            return () if lie else super().relation(source, target, edge_type)

        inbound_relation = relation

    node.graphs[0] = (Silent(PAYMENTS, payments().records), None)
    bundle = make_bundle(Question("no-relation", AUDIT, CALLS, CHARGE), [node.subject(0)])
    section = bundle["graphs"][0]
    at = section["symbols"].index(list(AUDIT[1:]))
    section["symbols"].append(list(CHARGE[1:]))
    section["relations"] = [[len(section["symbols"]) - 1, at, "calls", ["ast_resolved"]]]
    return case(bundle, node.trusted())
