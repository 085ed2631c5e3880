"""Statements that say something else than what is proven, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import positive
from forge import (
    changed,
    encoded,
    on_statement,
    rejected,
    section_of,
    wide_branch,
)
from knowing_protocol.claims import Question
from knowing_protocol.hashing import external, node_hash, relation_hash
from knowing_protocol.mapproof import prove_map
from knowing_protocol.prover import make_bundle
from positive import CALLS, CHARGE, CHECKOUT, SEND, Case, case
from world import PAYMENTS, SHOP, TOOLS, Builder, Node, world


def renamed(part: str, field: str, value: Any, base: Callable[[], Case] = positive.relation) -> Case:
    """A case whose statement names another thing."""
    return on_statement(base, lambda statement: statement[part].update({field: value}))


@rejected("by-order")
def uses_by_a_repository_out_of_scope() -> Case:
    return on_statement(positive.callers_by_one_repository, lambda statement: statement.update(by=[TOOLS]))


@rejected("by-order")
def uses_by_the_whole_scope_spelled_out() -> Case:
    return on_statement(positive.callers_by_one_repository, lambda statement: statement.update(by=[PAYMENTS, SHOP]))


@rejected("all-of-by")
def uses_by_some_of_all() -> Case:
    """True, but "all" would be read as if nobody else used it either."""
    return on_statement(positive.callers, lambda statement: statement.update(by=[SHOP]))


@rejected("not-canonical")
def uses_by_nobody() -> Case:
    return on_statement(positive.callers_by_one_repository, lambda statement: statement.update(by=[]))


@rejected("malformed-question")
def relation_by_a_repository() -> Case:
    return on_statement(positive.relation_across_repositories, lambda statement: statement.update(by=[SHOP]))


@rejected("names-not-shown")
def uses_by_one_repository_passed_off_as_all() -> Case:
    return on_statement(positive.callers_by_one_repository, lambda statement: statement.pop("by"))


@rejected("names-not-shown")
def uses_by_one_repository_passed_off_as_those_by_another() -> Case:
    def change(statement: dict[str, Any]) -> None:
        statement.update(by=[PAYMENTS], callers=[])

    return on_statement(positive.callers_by_one_repository, change)


@rejected("edges-not-shown")
def package_renamed() -> Case:
    return renamed("source", "package", "payments/client")


@rejected("relation-absent")
def edge_type_renamed() -> Case:
    return on_statement(positive.relation, lambda statement: statement.update(types=["references"]))


@rejected("relations-not-shown")
def source_renamed() -> Case:
    return on_statement(wide_branch, lambda statement: statement["source"].update(name="another"))


@rejected("relations-not-shown")
def target_renamed() -> Case:
    return on_statement(wide_branch, lambda statement: statement["symbol"].update(name="callee"))


@rejected("no-header")
def repository_renamed() -> Case:
    return on_statement(positive.relation, lambda statement: statement["scope"][0].update(repository=TOOLS))


@rejected("no-header")
def ref_renamed() -> Case:
    return on_statement(positive.relation, lambda statement: statement["scope"][0].update(ref="release"))


@rejected("no-header")
def commit_renamed() -> Case:
    return on_statement(positive.relation, lambda statement: statement["scope"][0].update(commit="9" * 40))


@rejected("log-inclusion")
def commit_renamed_in_statement_and_header() -> Case:
    def rename(parts: dict[str, Any]) -> None:
        parts["statement"]["scope"][0]["commit"] = "9" * 40
        parts["entries"][0]["header"]["commit"] = "9" * 40

    return changed(positive.relation_at_an_old_commit(), rename)


@rejected("not-in-scope")
def source_of_another_repository() -> Case:
    return renamed("source", "repo", SHOP)


@rejected("relation-absent")
def colon_moved_from_package_to_name() -> Case:
    def move(statement: dict[str, Any]) -> None:
        statement["source"].update(package="a", name="b:c")

    return on_statement(positive.names_with_colons, move)


@rejected("relation-absent")
def phantom_in_place_of_the_symbol() -> Case:
    """The source calls a name; the statement says that it calls the symbol itself."""

    def join(parts: dict[str, Any]) -> None:
        parts["statement"]["via"] = None
        node = world()
        source = node.graphs[3][0]
        relation = relation_hash(node_hash(*CHECKOUT), node_hash(*CHARGE), "calls")
        section = section_of(parts, SHOP)
        section["branches"][0][2] = encoded(prove_map(source.branches["shop/cart"]["calls"], [relation]))

    return changed(positive.relation_across_repositories(), join)


@rejected("via-elsewhere")
def via_that_leads_elsewhere() -> Case:
    return on_statement(
        positive.relation_across_repositories,
        lambda statement: statement.update(symbol=dict(zip(("repo", "package", "name", "kind"), SEND, strict=True))),
    )


@rejected("subject-undefined")
def name_that_a_repository_in_scope_should_define() -> Case:
    node = world()
    bundle = make_bundle(Question("callers", external("python://hashlib.md5"), CALLS), node.subjects())
    full = make_bundle(Question("callers", CHARGE, CALLS), node.subjects())
    bundle["statement"]["symbol"]["name"] = "python://payments.missing"
    bundle["statement"]["names"] = ["python://payments.missing"]
    bundle["graphs"] = full["graphs"]
    for section in bundle["graphs"]:
        source = node.graphs[{PAYMENTS: 0, TOOLS: 2, SHOP: 3}[section_repository(bundle, section)]][0]
        top = source.tree("graph")
        section["top"] = encoded(prove_map(top, [key for key, _ in top]))
        for name in ("aliases", "members", "facts", "alias_of", "names", "inbound"):
            tree = source.maps[name]
            section["maps"][name] = encoded(prove_map(tree, [key for key, _ in tree]))
        if section_repository(bundle, section) == PAYMENTS:
            section["symbols"].append(["payments/api", "", "file"])
            section["aliases"] = [["python://payments", [[len(section["symbols"]) - 1, True]]]]
    return case(bundle, node.trusted())


def section_repository(bundle: dict[str, Any], section: dict[str, Any]) -> str:
    """The repository of a section."""
    found: str = bundle["entries"][section["entry"]]["header"]["repository"]
    return found


@rejected("not-in-scope")
def symbol_of_a_repository_that_is_not_in_scope() -> Case:
    node = world()
    bundle = make_bundle(Question("callers", external("python://payments.charge"), CALLS), [node.subject(3)])
    bundle["statement"]["symbol"] = dict(zip(("repo", "package", "name", "kind"), CHARGE, strict=True))
    return case(bundle, node.trusted())


@rejected("nodes-not-shown")
def symbol_that_its_repository_does_not_define() -> Case:
    return on_statement(positive.callers, lambda statement: statement["symbol"].update(name="discharge"))


def implicit(name: str) -> Case:
    """A statement about a method that is called without being named, with everything shown that it could ask for."""
    node = Node("hub")
    made = Builder(SHOP)
    owner = made.node("shop", "C", "type")
    setup = made.node("shop", "C.setup", "method")
    made.node("shop", name, "method")
    made.member(owner, "setup", setup)
    node.commit(SHOP, made.records, "1" * 40)
    bundle = make_bundle(Question("callers", setup, CALLS), [node.subject(0)])
    source, section = node.graphs[0][0], bundle["graphs"][0]
    section["maps"]["nodes"] = encoded(prove_map(source.maps["nodes"], [key for key, _ in source.maps["nodes"]]))
    bundle["statement"]["symbol"]["name"] = name
    return case(bundle, node.trusted())


@rejected("subject-implicit")
def constructor_that_is_called_through_its_type() -> Case:
    return implicit("C.__init__")


@rejected("subject-implicit")
def operator_method_that_is_called_without_its_name() -> Case:
    return implicit("C.__add__")


@rejected("malformed-question")
def source_in_a_statement_about_callers() -> Case:
    return on_statement(positive.callers, lambda statement: statement.update(source=statement["symbol"]))


@rejected("seal")
def another_true_statement_with_the_same_proofs() -> Case:
    """What proves one name absent proves it of its neighbours, but nobody stated that."""
    base = positive.node_absent()
    parts = base.parts
    parts["statement"]["symbol"]["name"] = "calls"
    return Case(positive.text(parts), base.trust)
