"""The rule of claims over graphs in memory: who is a caller, who is not, what is not known, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol.claims import (
    CALLERS,
    NO_NODE,
    NO_RELATION,
    NODE,
    RELATION,
    Answer,
    Caller,
    Question,
    Source,
    Undecided,
    decide,
    stated_relations,
)
from knowing_protocol.errors import RejectedError
from knowing_protocol.graph import Graph, target_segments
from knowing_protocol.hashing import NodeId, external
from knowing_protocol.records import Facts, LocalType
from knowing_protocol.vocabulary import USES
from knowing_protocol.walk import NO_MEMBER, UNKNOWN_RECEIVER, UNKNOWN_RESULT, UNPUBLISHED, WILDCARD_IMPORT, walk
from world import PAYMENTS, SHOP, TOOLS, Builder, payments, shop, tools

THIRD = "github.com/acme/third"
CHARGE = NodeId(PAYMENTS, "payments/api", "charge", "function")
AUDIT = NodeId(PAYMENTS, "payments/api", "audit", "function")
MODULE = NodeId(PAYMENTS, "payments/api", "", "file")
CLIENT = NodeId(PAYMENTS, "payments/client", "Client", "type")
SEND = NodeId(PAYMENTS, "payments/client", "Client.send", "method")
CLOSE = NodeId(PAYMENTS, "payments/client", "Base.close", "method")
FACTORY = NodeId(PAYMENTS, "payments/client", "make_client", "function")
CHECKOUT = NodeId(SHOP, "shop/cart", "checkout", "function")
REFUND = NodeId(SHOP, "shop/cart", "refund", "function")
MAIN = NodeId(TOOLS, "tools/run", "main", "function")
MD5 = external("python://hashlib.md5")
STANDARD_UNDER_BOTH = "the standard library may know it under both names"


def graphs_of(*made: Builder) -> list[Graph]:
    return [Graph(one.repo, one.records) for one in made]


def ask(symbol: NodeId, *made: Builder, types: tuple[str, ...] = ("calls",)) -> Answer:
    return decide(Question(CALLERS, symbol, types), graphs_of(*made))


def ask_relation(
    claim: str, source: NodeId, symbol: NodeId, *made: Builder, via: str | None = None, kind: str = "calls"
) -> Answer:
    return decide(Question(claim, symbol, (kind,), source, via), graphs_of(*made))


def refusal(action: Callable[..., object], *arguments: Any, **named: Any) -> str:
    with pytest.raises(RejectedError) as caught:
        action(*arguments, **named)
    return caught.value.code


def callers_of(answer: Answer) -> set[tuple[str, str, str | None]]:
    return {(caller.repository, caller.name, caller.via) for caller in answer.callers}


def undecided_of(answer: Answer) -> dict[str, str]:
    return {one.target: one.reason for one in answer.undecided}


def application(*targets: str | NodeId, kind: str = "calls", repo: str = SHOP) -> Builder:
    """A repository with one function `use` that refers to these."""
    made = Builder(repo)
    use = made.node("app", "use")
    for target in targets:
        made.edge(use, target, kind)
    return made


def library(repo: str, root: str, **re_exports: str | NodeId) -> Builder:
    """A repository that publishes its root module, and names in it."""
    made = Builder(repo)
    made.alias(f"python://{root}", made.node(root, "", "file"))
    for name, target in re_exports.items():
        made.alias(f"python://{root}.{name}", target)
    return made


# Callers


def test_callers_of_a_function_are_complete_by_every_name() -> None:
    answer = ask(CHARGE, payments(), shop(), tools())
    assert answer == Answer(
        names=("python://payments.api.charge", "python://payments.charge", "python://tools.pay"),
        callers=(
            Caller(*SEND, "calls", None, ("ast_resolved",), False),
            Caller(*CHECKOUT, "calls", "python://payments.charge", ("ast_resolved",), False),
            Caller(*REFUND, "calls", "python://tools.pay", ("ast_inferred",), False),
        ),
    )


def test_callers_through_a_factory_and_by_a_renamed_member_are_found() -> None:
    assert callers_of(ask(SEND, payments(), shop(), tools())) == {
        (SHOP, "refund", "python://payments.make_client().send"),
        (TOOLS, "main", "python://payments.make_client().submit"),
    }


def test_callers_of_an_inherited_member_are_found() -> None:
    assert callers_of(ask(CLOSE, payments(), shop(), tools())) == {
        (SHOP, "refund", "python://payments.make_client().close")
    }


def test_callers_through_a_type_of_a_third_repository_are_found() -> None:
    third = library(THIRD, "third")
    kind = third.node("third", "Mine", "type")
    third.alias("python://third.Mine", kind)
    third.facts(kind, Facts(bases=("python://payments.Client",)))
    user = application("python://third.Mine().send", "python://third.Mine().close")
    assert callers_of(ask(SEND, payments(), third, user)) == {(SHOP, "use", "python://third.Mine().send")}
    assert callers_of(ask(CLOSE, payments(), third, user)) == {(SHOP, "use", "python://third.Mine().close")}


def test_call_of_an_overridden_member_is_excluded() -> None:
    third = library(THIRD, "third")
    kind, send = third.node("third", "Mine", "type"), third.node("third", "Mine.send", "method")
    third.alias("python://third.Mine", kind)
    third.member(kind, "send", send)
    third.facts(kind, Facts(bases=("python://payments.Client",)))
    user = application("python://third.Mine().send")
    assert ask(SEND, payments(), third, user) == Answer()
    assert callers_of(ask(send, payments(), third, user)) == {(SHOP, "use", "python://third.Mine().send")}


def test_re_export_of_a_re_export_under_another_name_is_found() -> None:
    third = library(THIRD, "third", settle="python://tools.pay")
    user = application("python://third.settle")
    answer = ask(CHARGE, payments(), tools(), third, user)
    assert (SHOP, "use", "python://third.settle") in callers_of(answer)
    assert "python://third.settle" in answer.names


def test_name_that_nobody_calls_has_no_callers() -> None:
    answer = ask(FACTORY, payments(), shop(), tools())
    assert answer == Answer(names=("python://payments.make_client",))


def test_callers_are_those_of_the_types_asked_about() -> None:
    made = payments(), shop(), tools()
    base = NodeId(PAYMENTS, "payments/client", "Base", "type")
    assert callers_of(ask(base, *made, types=("extends",))) == {(PAYMENTS, "Client", None)}
    assert callers_of(ask(base, *made, types=("calls",))) == set()
    both = ask(CHARGE, *made, types=("calls", "contains"))
    assert [caller.type for caller in both.callers] == ["contains", "calls", "calls", "calls"]


def test_symbol_that_refers_in_two_ways_is_listed_with_both() -> None:
    made = application("python://payments.charge")
    made.edge(NodeId(SHOP, "app", "use", "function"), "python://payments.charge", how="ast_inferred")
    (caller,) = [one for one in ask(CHARGE, payments(), made).callers if one.repository == SHOP]
    assert caller.provenances == ("ast_inferred", "ast_resolved")


def test_answer_does_not_depend_on_the_order_of_the_graphs() -> None:
    made = [payments(), shop(), tools()]
    for symbol in (CHARGE, SEND, CLOSE, MD5):
        assert ask(symbol, *made) == ask(symbol, *made[::-1])


def test_local_symbol_with_the_same_last_segment_is_excluded() -> None:
    user = application()
    use, mine = NodeId(SHOP, "app", "use", "function"), user.node("app", "charge")
    user.edge(use, mine)
    answer = ask(CHARGE, payments(), user)
    assert callers_of(answer) == {(PAYMENTS, "Client.send", None)}
    assert answer.undecided == ()
    assert callers_of(ask(mine, payments(), user)) == {(SHOP, "use", None)}


def test_published_symbol_with_the_same_last_segment_is_excluded() -> None:
    third = library(THIRD, "third")
    third.alias("python://third.charge", third.node("third", "charge"))
    answer = ask(CHARGE, payments(), third, application("python://third.charge"))
    assert callers_of(answer) == {(PAYMENTS, "Client.send", None)}
    assert answer.undecided == ()


def test_caller_by_a_name_of_two_claims_is_ambiguous() -> None:
    third = library(THIRD, "payments")
    theirs = third.node("payments", "charge")
    third.alias("python://payments.charge", theirs)
    user = application("python://payments.charge", "python://payments.api.charge")
    for symbol in (CHARGE, theirs):
        by_via = {one.via: one.ambiguous for one in ask(symbol, payments(), third, user).callers}
        assert by_via["python://payments.charge"]
    by_via = {one.via: one.ambiguous for one in ask(CHARGE, payments(), third, user).callers}
    assert by_via["python://payments.api.charge"]  # a module of that name in the third may have it at run time
    assert not by_via[None]


def test_caller_by_candidates_is_ambiguous() -> None:
    user = application("python://{payments.charge|elsewhere.charge}")
    ((caller,), rest) = (
        [one for one in ask(CHARGE, payments(), user).callers if one.repository == SHOP],
        ask(CHARGE, payments(), user).undecided,
    )
    assert caller.ambiguous
    assert rest == ()


def copy_of_payments(*names: str) -> tuple[Builder, NodeId]:
    """A repository without a manifest that has a copy of the library, and the last of the symbols copied."""
    made = Builder(THIRD)
    made.alias("python://payments", made.node("copy", "", "file"), claimed=False)
    symbol = NodeId(THIRD, "copy", "", "file")
    for name in names:
        symbol = made.node("copy", name)
        made.alias(f"python://payments.{name}", symbol, claimed=False)
    return made, symbol


def test_caller_by_a_name_that_is_claimed_and_copied_is_ambiguous_for_both() -> None:
    third, copied = copy_of_payments("charge")
    for symbol in (CHARGE, copied):
        answer = ask(symbol, payments(), third, application("python://payments.charge"))
        assert [one.ambiguous for one in answer.callers if one.repository == SHOP] == [True]


def test_longer_name_of_another_repository_takes_no_callers_away() -> None:
    third, copied = copy_of_payments("Client.send")
    for symbol in (SEND, copied):
        answer = ask(symbol, payments(), third, application("python://payments.Client.send"))
        assert callers_of(answer) == {(SHOP, "use", "python://payments.Client.send")}


# Undecided


def test_name_that_only_a_copy_publishes_is_not_excluded() -> None:
    # the library itself is not in scope, and nobody claims its name: a copy does not show what it is
    third = Builder(THIRD)
    third.alias("python://elsewhere", third.node("copy", "", "file"), claimed=False)
    third.alias("python://elsewhere.charge", third.node("copy", "charge"), claimed=False)
    answer = ask(CHARGE, payments(), third, application("python://elsewhere.charge"))
    assert undecided_of(answer).keys() == {"python://elsewhere.charge"}


def test_unresolved_receiver_is_undecided_with_its_sources() -> None:
    third = Builder(THIRD)
    first, second = third.node("b", "first"), third.node("a", "second")
    third.edge(first, "unresolved://python/charge", how="ast_inferred")
    third.edge(second, "unresolved://python/charge")
    answer = ask(CHARGE, payments(), third)
    sources = (
        Source("a", "second", "function", ("ast_resolved",)),
        Source("b", "first", "function", ("ast_inferred",)),
    )
    assert answer.undecided == (Undecided(THIRD, "calls", "unresolved://python/charge", UNKNOWN_RECEIVER, sources),)
    assert callers_of(answer) == {(PAYMENTS, "Client.send", None)}


def test_every_way_not_to_know_is_undecided_with_its_reason() -> None:
    third = library(THIRD, "third")
    third.alias("python://third.unknown", third.node("third", "unknown"))
    targets = {
        "python://elsewhere.charge": UNPUBLISHED,
        "python://elsewhere.Client().charge": UNPUBLISHED,
        "python://third.charge": NO_MEMBER,
        "python://third.unknown().charge": UNKNOWN_RESULT,
        "python://hashlib.md5().charge": UNKNOWN_RESULT,
        "unresolved://python/charge": UNKNOWN_RECEIVER,
    }
    answer = ask(CHARGE, payments(), third, application(*targets, "python://elsewhere.refund"))
    assert undecided_of(answer) == targets
    assert callers_of(answer) == {(PAYMENTS, "Client.send", None)}


def test_renamed_member_makes_its_name_undecided_too() -> None:
    answer = ask(SEND, payments(), application("unresolved://python/submit", "unresolved://python/other"))
    assert undecided_of(answer) == {"unresolved://python/submit": UNKNOWN_RECEIVER}


def test_re_export_makes_its_name_undecided_too() -> None:
    answer = ask(CHARGE, payments(), tools(), application("unresolved://python/pay", "python://elsewhere.pay"))
    assert undecided_of(answer) == {"unresolved://python/pay": UNKNOWN_RECEIVER, "python://elsewhere.pay": UNPUBLISHED}


def test_target_that_is_the_symbol_by_one_candidate_is_no_longer_undecided() -> None:
    answer = ask(CHARGE, payments(), application("python://{unknown.charge|payments.charge}"))
    assert answer.undecided == ()
    assert (SHOP, "use", "python://{unknown.charge|payments.charge}") in callers_of(answer)


# The standard library


def test_standard_library_is_excluded_for_another_symbol() -> None:
    user = application("python://zlib.charge", "python://os.path.charge", "python://builtins.dict().charge")
    answer = ask(CHARGE, payments(), user)
    assert undecided_of(answer) == {"python://builtins.dict().charge": UNKNOWN_RESULT}  # no dict has such a member
    assert callers_of(answer) == {(PAYMENTS, "Client.send", None)}


def test_another_name_of_the_standard_library_is_undecided_for_one_of_its_symbols() -> None:
    user = application("python://hashlib.md5", "python://_md5.md5", "python://hashlib.sha256", "python://elsewhere.md5")
    answer = ask(MD5, payments(), user)
    assert answer.names == ("python://hashlib.md5",)
    assert callers_of(answer) == {(SHOP, "use", "python://hashlib.md5")}
    assert undecided_of(answer) == {"python://_md5.md5": STANDARD_UNDER_BOTH, "python://elsewhere.md5": UNPUBLISHED}


def test_re_export_of_the_standard_library_is_found() -> None:
    third = library(THIRD, "third", digest="python://hashlib.md5")
    answer = ask(MD5, third, application("python://third.digest", "python://hashlib.new"))
    assert answer.names == ("python://hashlib.md5", "python://third.digest")
    assert callers_of(answer) == {(SHOP, "use", "python://third.digest")}
    assert answer.undecided == ()


def test_symbol_of_the_standard_library_that_nobody_uses_has_no_callers() -> None:
    assert ask(MD5, payments(), shop(), tools(), types=tuple(USES)) == Answer(names=("python://hashlib.md5",))


# Wildcards and results


def test_wildcard_import_of_the_module_is_an_import_of_the_symbol() -> None:
    user = application("python://payments.*", "python://payments.api.*", kind="imports")
    answer = ask(CHARGE, payments(), user, types=("imports",))
    assert callers_of(answer) == {(SHOP, "use", "python://payments.*"), (SHOP, "use", "python://payments.api.*")}
    assert answer.undecided == ()


def test_wildcard_import_of_a_re_export_is_an_import_of_the_symbol() -> None:
    answer = ask(CHARGE, payments(), tools(), application("python://tools.*", kind="imports"), types=("imports",))
    assert (SHOP, "use", "python://tools.*") in callers_of(answer)


def test_wildcard_import_of_the_unknown_is_undecided() -> None:
    user = application("python://elsewhere.*", "python://{elsewhere.*|other.*}", kind="imports")
    answer = ask(CHARGE, payments(), user, types=("imports",))
    assert undecided_of(answer).keys() == {"python://elsewhere.*", "python://{elsewhere.*|other.*}"}
    assert answer.callers == ()


def test_wildcard_import_of_the_standard_library_is_excluded() -> None:
    answer = ask(CHARGE, payments(), application("python://os.path.*", kind="imports"), types=("imports",))
    assert callers_of(answer) == set()
    assert undecided_of(answer) == {}


def test_wildcard_import_of_the_module_of_a_standard_symbol_is_an_import_of_it() -> None:
    answer = ask(MD5, application("python://hashlib.*", "python://os.*", kind="imports"), types=("imports",))
    assert callers_of(answer) == {(SHOP, "use", "python://hashlib.*")}
    assert undecided_of(answer) == {"python://os.*": STANDARD_UNDER_BOTH}


def test_wildcard_import_is_answered_for_a_module_too() -> None:
    # a module has no name of its own, only names by which it is imported
    user = application("python://payments", "python://payments.*", "python://elsewhere.*", kind="imports")
    answer = ask(MODULE, payments(), user, types=("imports",))
    assert (SHOP, "use", "python://payments") in callers_of(answer)
    assert "python://elsewhere.*" in undecided_of(answer)


def test_wildcard_import_that_is_too_long_to_be_walked_is_undecided() -> None:
    target = f"python://{'a' * 4085}.*"
    answer = ask(CHARGE, payments(), application(target, kind="imports"), types=("imports",))
    assert undecided_of(answer).keys() == {target}


def test_wildcard_import_is_listed_where_the_symbol_has_too_many_names_to_try() -> None:
    first = payments()
    for number in range(40):
        first.alias(f"python://payments.charge{number}", CHARGE)
    answer = ask(CHARGE, first, application("python://os.*", kind="imports"), types=("imports",))
    assert undecided_of(answer) == {"python://os.*": WILDCARD_IMPORT}


def callable_result() -> tuple[Builder, NodeId]:
    made = library(THIRD, "third")
    handler, call = made.node("third", "Handler", "type"), made.node("third", "Handler.__call__", "method")
    made.member(handler, "__call__", call)
    make, plain = made.node("third", "make"), made.node("third", "plain")
    made.alias("python://third.make", make)
    made.alias("python://third.plain", plain)
    made.facts(make, Facts(returns=(LocalType("third", "Handler", "type"),)))
    return made, call


def test_call_of_a_result_is_a_call_of_what_it_does() -> None:
    third, call = callable_result()
    use, via = NodeId(SHOP, "app", "use", "function"), "python://third.make()"
    assert ask_relation(RELATION, use, call, third, application(via), via=via) == Answer(provenances=("ast_resolved",))


def test_call_of_a_result_of_another_type_is_excluded() -> None:
    third, _ = callable_result()
    answer = ask(CHARGE, payments(), third, application("python://third.make()"))
    assert callers_of(answer) == {(PAYMENTS, "Client.send", None)}
    assert answer.undecided == ()


def test_call_of_a_result_of_unknown_type_is_undecided_for_every_symbol() -> None:
    third, _ = callable_result()
    for symbol in (CHARGE, SEND, MD5):
        answer = ask(symbol, payments(), third, application("python://third.plain()", "python://elsewhere.f()"))
        assert undecided_of(answer) == {"python://third.plain()": UNKNOWN_RESULT, "python://elsewhere.f()": UNPUBLISHED}


# Names that lead to the symbol in ways that no list of aliases shows


def test_re_export_through_a_re_exported_module_is_found() -> None:
    # tools: from payments import api;  third: from tools.api import charge as settle
    first = payments()
    first.alias("python://payments.api", MODULE)
    second = library(TOOLS, "tools", api="python://payments.api")
    third = library(THIRD, "third", settle="python://tools.api.charge")
    made = first, second, third, application("python://third.settle")
    assert walk("python://third.settle", graphs_of(*made)).definitions == {CHARGE}
    assert (SHOP, "use", "python://third.settle") in callers_of(ask(CHARGE, *made))


def test_re_export_of_the_standard_library_through_a_re_exported_module_is_found() -> None:
    # tools: import hashlib;  third: from tools import hashlib; digest = hashlib.md5
    second = library(TOOLS, "tools", hashlib="python://hashlib")
    third = library(THIRD, "third", digest="python://tools.hashlib.md5")
    answer = ask(MD5, second, third, application("python://third.digest"))
    assert callers_of(answer) == {(SHOP, "use", "python://third.digest")}


def test_re_export_through_a_star_import_is_found() -> None:
    # tools: from payments import *;  third: from tools import charge as settle
    second = library(TOOLS, "tools")
    second.facts(NodeId(TOOLS, "tools", "", "file"), Facts(stars=("python://payments",)))
    third = library(THIRD, "third", settle="python://tools.charge")
    made = payments(), second, third, application("python://third.settle")
    assert walk("python://third.settle", graphs_of(*made)).definitions == {CHARGE}
    assert (SHOP, "use", "python://third.settle") in callers_of(ask(CHARGE, *made))


def test_re_export_of_a_member_is_found() -> None:
    # third: from payments import Client; settle = Client.send
    third = library(THIRD, "third", settle="python://payments.Client.send")
    made = payments(), third, application("python://third.settle")
    assert walk("python://third.settle", graphs_of(*made)).definitions == {SEND}
    assert (SHOP, "use", "python://third.settle") in callers_of(ask(SEND, *made))


ROOTS = ("a", "b", "c", "d")
ENDS = ("f", "g", "K.m", "K.n", "K", "x", "y.f", "y.K.m", "K().n", "K().f", "x()", "make().m", "make().f", "v.n", "v.f")


def random_world(rng: random.Random, *, copies: bool) -> list[Builder]:
    """Four repositories that re-export each other's modules and names in every way, and call whatever they can."""
    made = [library(f"github.com/acme/{root}", root) for root in ROOTS]
    for root, one in zip(ROOTS, made, strict=True):
        kind, make, value = one.node(root, "K", "type"), one.node(root, "make"), one.node(root, "v", "var")
        for node in (kind, make, value, one.node(root, "f"), one.node(root, "g")):
            one.alias(f"python://{root}.{node.name}", node)
        for name in ("f", "g"):
            one.member(kind, rng.choice(("m", "n", name)), one.node(root, f"K.{name}", "method"))
        one.facts(make, Facts(returns=(rng.choice((LocalType(*kind[1:]), f"python://{rng.choice(ROOTS)}.K")),)))
        one.facts(value, Facts(types=tuple(f"python://{other}.K" for other in rng.sample(ROOTS, rng.randrange(3)))))
        if rng.random() < 0.4:
            stars = tuple(f"python://{other}" for other in rng.sample(ROOTS, rng.randrange(3)))
            one.facts(NodeId(one.repo, root, "", "file"), Facts(stars=stars))
        if rng.random() < 0.5:
            bases = tuple(f"python://{other}.K" for other in rng.sample(ROOTS, rng.randrange(3)))
            one.facts(kind, Facts(bases=bases))
        for name in rng.sample(["x", "y", "z"], 2):
            end = rng.choice(["", *(f".{end}" for end in ENDS)])
            one.alias(f"python://{root}.{name}", f"python://{rng.choice(ROOTS)}{end}")
        if copies and rng.random() < 0.2:  # a copy of somebody else's module
            other, name = rng.choice(ROOTS), rng.choice(("f", "K", "K.m", "x"))
            one.alias(f"python://{other}", one.node("copy", "", "file"), claimed=False)
            one.alias(f"python://{other}.{name}", one.node("copy", name), claimed=False)
        use = one.node(root, "use")
        for _ in range(4):
            heads = rng.sample([f"{other}.{rng.choice([*ENDS, 'y', 'z', 'z.g', 'y.x'])}" for other in ROOTS], 2)
            one.edge(use, f"python://{heads[0]}" if rng.random() < 0.8 else f"python://{{{heads[0]}|{heads[1]}}}")
    return made


def references(made: list[Builder], graphs: list[Graph]) -> dict[tuple[str, str, str], NodeId]:
    """Every call of a name from outside: repository, caller and name, with its target."""
    return {
        (graph.repo, source.name, target.name): target
        for graph, one in zip(graphs, made, strict=True)
        for target in one.records.nodes
        if target.kind == "external"
        for source, _ in graph.inbound("calls", target)
    }


def symbols_of(made: list[Builder]) -> list[NodeId]:
    return sorted({node for one in made for node in one.records.nodes if node.kind in {"function", "method", "type"}})


def listed_callers(answer: Answer) -> set[tuple[str, str, str]]:
    return {(one.repository, one.name, one.via) for one in answer.callers if one.via is not None}


def listed_undecided(answer: Answer) -> set[tuple[str, str, str]]:
    return {(one.repository, source.name, one.target) for one in answer.undecided for source in one.sources}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_callers_are_every_reference_that_leads_to_the_symbol_and_no_other(seed: int) -> None:
    made = random_world(random.Random(seed), copies=True)
    graphs = graphs_of(*made)
    outcomes = {place: walk(target.name, graphs) for place, target in references(made, graphs).items()}
    for symbol in symbols_of(made):
        answer = decide(Question(CALLERS, symbol, ("calls",)), graphs)
        assert {place for place, one in outcomes.items() if symbol in one.definitions} <= listed_callers(answer)
        for place in listed_callers(answer):
            assert symbol in outcomes[place].definitions or outcomes[place].names & set(answer.names)
        assert listed_callers(answer).isdisjoint(listed_undecided(answer))
        assert all(outcomes[place].open or outcomes[place].standard for place in listed_undecided(answer))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_what_only_a_repository_out_of_scope_shows_is_undecided_and_not_excluded(seed: int) -> None:
    rng = random.Random(seed)
    made = random_world(rng, copies=False)  # who copies a name of a repository out of scope takes its place
    truth = graphs_of(*made)
    missing = rng.randrange(len(made))
    in_scope = [one for index, one in enumerate(made) if index != missing]
    graphs = graphs_of(*in_scope)
    leads = {place: walk(target.name, truth).definitions for place, target in references(in_scope, graphs).items()}
    for symbol in symbols_of(in_scope):
        answer = decide(Question(CALLERS, symbol, ("calls",)), graphs)
        segments = target_segments(symbol).union(*(target_segments(external(name)) for name in answer.names))
        for place, target in references(in_scope, graphs).items():
            if symbol in leads[place] and segments & target_segments(target):
                assert place in listed_callers(answer) | listed_undecided(answer)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32))
def test_no_relation_is_refused_exactly_for_callers(seed: int) -> None:
    made = random_world(random.Random(seed), copies=True)
    graphs = graphs_of(*made)
    for symbol in symbols_of(made):
        answer = decide(Question(CALLERS, symbol, ("calls",)), graphs)
        for one in made:
            use = next(node for node in one.records.nodes if node.name == "use")
            question = Question(NO_RELATION, symbol, ("calls",), use)
            if (use.repo, "use") in {caller[:2] for caller in listed_callers(answer)}:
                assert refusal(decide, question, graphs) == "relation-present"
            else:
                undecided = decide(question, graphs).undecided
                mine = {place for place in listed_undecided(answer) if place[0] == use.repo}
                assert {(entry.repository, "use", entry.target) for entry in undecided} == mine


# Subjects that are refused


def test_symbol_of_a_repository_that_is_not_in_scope_is_refused() -> None:
    assert refusal(ask, CHARGE, shop(), tools()) == "not-in-scope"


def test_symbol_that_its_repository_does_not_define_is_refused() -> None:
    for symbol in (
        CHARGE._replace(name="charges"),
        CHARGE._replace(kind="method"),
        CHARGE._replace(package="payments"),
    ):
        assert refusal(ask, symbol, payments(), shop()) == "subject-absent"


@pytest.mark.parametrize(
    "name", ["__init__", "__new__", "constructor", "<init>", "__call__", "__enter__", "__getitem__"]
)
def test_method_that_is_called_without_its_name_is_refused(name: str) -> None:
    made = payments()
    symbol = made.node("payments/client", f"Client.{name}", "method")
    made.member(CLIENT, name, symbol)
    assert refusal(ask, symbol, made, shop()) == "subject-implicit"
    assert refusal(ask_relation, NO_RELATION, CHECKOUT, symbol, made, shop()) == "subject-implicit"


def test_method_that_is_also_called_without_its_name_is_refused() -> None:
    made = payments()
    made.member(CLIENT, "__call__", SEND)
    assert refusal(ask, SEND, made, shop()) == "subject-implicit"


def test_constructor_by_its_outside_name_is_refused() -> None:
    assert refusal(ask, external("python://elsewhere.Client.__init__"), payments()) == "subject-implicit"


def test_function_with_underscores_is_no_implicit_method() -> None:
    made = payments()
    hook = made.node("payments/api", "__getattr__")
    made.edge(CHARGE, hook)
    assert callers_of(ask(hook, made)) == {(PAYMENTS, "charge", None)}


@pytest.mark.parametrize("name", ["payments.charge", "payments.api.charge", "tools.pay", "payments.Client.send"])
def test_outside_name_of_a_symbol_in_scope_is_refused(name: str) -> None:
    assert refusal(ask, external(f"python://{name}"), payments(), tools()) == "subject-is-alias"


def test_outside_name_that_a_repository_in_scope_re_exports_from_outside_is_refused() -> None:
    third = library(THIRD, "third", get="python://requests.get")
    assert refusal(ask, external("python://third.get"), third) == "subject-is-alias"
    assert ask(external("python://requests.get"), third).names == ("python://requests.get", "python://third.get")


def test_outside_name_that_a_repository_in_scope_should_define_is_refused() -> None:
    for name in ("payments.nothing", "payments.Client.nothing", "payments.api.nothing"):
        symbol = external(f"python://{name}")
        assert refusal(ask, symbol, payments()) == "subject-undefined"
        assert ask(symbol, shop(), tools()).callers == ()


@pytest.mark.parametrize(
    "path",
    [
        "python://elsewhere.make().send",
        "python://elsewhere.make()",
        "python://elsewhere.*",
        "python://{elsewhere.a|other.a}",
        "unresolved://python/get",
    ],
)
def test_path_through_types_is_no_name_to_ask_about(path: str) -> None:
    assert refusal(ask, external(path), payments()) == "subject-not-a-name"


def test_question_about_no_type_is_refused() -> None:
    assert refusal(ask, CHARGE, payments(), types=()) == "malformed-question"


class HidingNames(Graph):
    """A graph whose names map leaves out a target."""

    hidden = ""

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        return tuple(node for node in super().named(edge_type, segment) if node.name != self.hidden)


@pytest.mark.parametrize("hidden", ["charge", "python://payments.charge"])
def test_names_map_that_hides_a_caller_is_refused(hidden: str) -> None:
    graphs = [HidingNames(one.repo, one.records) for one in (payments(), shop())]
    question = Question(CALLERS, CHARGE, ("calls",))
    assert len(decide(question, graphs).callers) == 2
    for graph in graphs:
        graph.hidden = hidden
    assert refusal(decide, question, graphs) == "inbound-names-disagree"


# Names from outside


def test_outside_name_is_found_wherever_it_is_used() -> None:
    requests = external("python://requests.get")
    third = library(THIRD, "third", fetch="python://requests.get")
    user = application("python://requests.get", "python://third.fetch", "python://requests.Session().get")
    answer = ask(requests, third, user)
    assert answer.names == ("python://requests.get", "python://third.fetch")
    assert callers_of(answer) == {(SHOP, "use", "python://requests.get"), (SHOP, "use", "python://third.fetch")}
    assert undecided_of(answer) == {"python://requests.Session().get": UNPUBLISHED}


def test_use_of_exactly_the_name_asked_about_is_not_ambiguous() -> None:
    answer = ask(external("python://requests.get"), application("python://requests.get"))
    assert [(one.via, one.ambiguous) for one in answer.callers] == [("python://requests.get", False)]


# Nodes


def test_node_is_there_or_not() -> None:
    graphs = graphs_of(payments(), shop())
    absent = CHARGE._replace(name="refund")
    assert decide(Question(NODE, CHARGE), graphs) == Answer()
    assert decide(Question(NO_NODE, absent), graphs) == Answer()
    assert refusal(decide, Question(NODE, absent), graphs) == "node-absent"
    assert refusal(decide, Question(NO_NODE, CHARGE), graphs) == "node-present"


def test_node_of_a_repository_that_is_not_in_scope_is_neither_there_nor_not() -> None:
    for claim in (NODE, NO_NODE):
        assert refusal(decide, Question(claim, CHARGE), graphs_of(shop())) == "not-in-scope"


def test_phantom_is_there_or_not_in_one_repository() -> None:
    phantom, absent = external("python://payments.charge"), external("python://payments.refund")
    assert decide(Question(NODE, phantom), graphs_of(shop())) == Answer()
    assert decide(Question(NO_NODE, absent), graphs_of(shop())) == Answer()
    assert refusal(decide, Question(NO_NODE, phantom), graphs_of(shop())) == "node-present"
    assert refusal(lambda: decide(Question(NODE, phantom), graphs_of(shop(), tools()))) == "not-in-scope"


# Relations


def test_relation_inside_a_repository_is_shown_with_its_provenances() -> None:
    assert ask_relation(RELATION, CHARGE, AUDIT, payments()) == Answer(provenances=("ast_resolved",))


def test_relation_across_repositories_is_shown_by_the_name_it_uses() -> None:
    made = payments(), shop(), tools()
    for source, symbol, via, how in (
        (CHECKOUT, CHARGE, "python://payments.charge", "ast_resolved"),
        (REFUND, CHARGE, "python://tools.pay", "ast_inferred"),
        (REFUND, SEND, "python://payments.make_client().send", "ast_resolved"),
        (REFUND, CLOSE, "python://payments.make_client().close", "ast_resolved"),
        (MAIN, SEND, "python://payments.make_client().submit", "ast_inferred"),
    ):
        assert ask_relation(RELATION, source, symbol, *made, via=via) == Answer(provenances=(how,))


def test_relation_that_is_not_there_is_refused() -> None:
    made = payments(), shop(), tools()
    for source, symbol, via, kind in (
        (AUDIT, CHARGE, None, "calls"),
        (CHARGE, AUDIT, None, "references"),
        (CHECKOUT, CHARGE, None, "calls"),
        (CHECKOUT, CHARGE, "python://tools.pay", "calls"),
        (CHECKOUT, CHARGE, "python://nowhere.at.all", "calls"),
    ):
        code = refusal(ask_relation, RELATION, source, symbol, *made, via=via, kind=kind)
        assert code == "relation-absent"


def test_relation_by_a_name_that_leads_elsewhere_is_refused() -> None:
    made = payments(), shop(), tools()
    for symbol in (AUDIT, SEND, external("python://payments.api.audit")):
        code = refusal(ask_relation, RELATION, CHECKOUT, symbol, *made, via="python://payments.charge")
        assert code == "via-elsewhere"
    unresolved = "unresolved://python/get"
    assert refusal(ask_relation, RELATION, CHECKOUT, CHARGE, *made, via=unresolved) == "via-elsewhere"


def test_relation_from_a_repository_that_is_not_in_scope_is_refused() -> None:
    for claim in (RELATION, NO_RELATION):
        code = refusal(ask_relation, claim, CHECKOUT, CHARGE, payments())
        assert code == "not-in-scope"


def test_relation_by_a_name_of_two_claims_is_ambiguous() -> None:
    third = library(THIRD, "payments")
    third.alias("python://payments.charge", third.node("payments", "charge"))
    via = "python://payments.charge"
    assert ask_relation(RELATION, CHECKOUT, CHARGE, payments(), shop(), third, via=via).ambiguous
    assert not ask_relation(RELATION, CHECKOUT, CHARGE, payments(), shop(), via=via).ambiguous


def test_relation_by_candidates_is_ambiguous() -> None:
    via = "python://{payments.charge|elsewhere.charge}"
    use = NodeId(SHOP, "app", "use", "function")
    assert ask_relation(RELATION, use, CHARGE, payments(), application(via), via=via).ambiguous


def test_relation_to_a_name_from_outside_goes_by_the_names_passed() -> None:
    third = library(THIRD, "third", digest="python://hashlib.md5")
    use = NodeId(SHOP, "app", "use", "function")
    made = third, application("python://third.digest")
    found = ask_relation(RELATION, use, MD5, *made, via="python://third.digest")
    assert found == Answer(provenances=("ast_resolved",))


def test_no_relation_is_shown_with_the_names_it_speaks_of() -> None:
    made = payments(), shop(), tools()
    answer = ask_relation(NO_RELATION, MAIN, CHARGE, *made)
    names = ("python://payments.api.charge", "python://payments.charge", "python://tools.pay")
    assert answer == Answer(names=names)
    assert ask_relation(NO_RELATION, CHECKOUT, CHARGE, *made, kind="references") == Answer(names=names)


@pytest.mark.parametrize(
    ("source", "symbol"),
    [(CHARGE, AUDIT), (CHECKOUT, CHARGE), (REFUND, CHARGE), (REFUND, SEND), (REFUND, CLOSE), (MAIN, SEND)],
    ids=["local", "by its name", "by a re-export", "through a factory", "through a base", "by a renamed member"],
)
def test_no_relation_where_there_is_one_is_refused(source: NodeId, symbol: NodeId) -> None:
    made = payments(), shop(), tools()
    assert refusal(ask_relation, NO_RELATION, source, symbol, *made) == "relation-present"


def test_no_relation_names_what_the_source_may_mean() -> None:
    user = application("unresolved://python/charge", "python://elsewhere.charge")
    other = user.node("app", "other")
    user.edge(other, "unresolved://python/charge", how="ast_inferred")
    use = NodeId(SHOP, "app", "use", "function")
    answer = ask_relation(NO_RELATION, use, CHARGE, payments(), user)
    source = Source("app", "use", "function", ("ast_resolved",))
    assert answer.undecided == (
        Undecided(SHOP, "calls", "python://elsewhere.charge", UNPUBLISHED, (source,)),
        Undecided(SHOP, "calls", "unresolved://python/charge", UNKNOWN_RECEIVER, (source,)),
    )


def test_no_relation_from_a_source_that_is_not_there_is_refused() -> None:
    absent = CHECKOUT._replace(name="nobody")
    assert refusal(ask_relation, NO_RELATION, absent, CHARGE, payments(), shop()) == "source-absent"


def test_no_relation_to_a_symbol_that_cannot_be_asked_about_is_refused() -> None:
    made = payments(), shop()
    assert refusal(ask_relation, NO_RELATION, CHECKOUT, AUDIT._replace(name="x"), *made) == "subject-absent"
    assert refusal(ask_relation, NO_RELATION, CHECKOUT, MAIN, *made) == "not-in-scope"
    alias = external("python://payments.charge")
    assert refusal(ask_relation, NO_RELATION, CHECKOUT, alias, *made) == "subject-is-alias"


def test_forward_and_inbound_that_disagree_are_refused() -> None:
    class Hiding(Graph):
        def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:  # noqa: ARG002
            return ()

    made = payments()
    graphs = [Hiding(made.repo, made.records)]
    question = Question(NO_RELATION, AUDIT, ("calls",), CHARGE)
    assert refusal(decide, question, graphs) == "forward-inbound-disagree"


@pytest.mark.parametrize("claim", [RELATION, NO_RELATION])
def test_relation_without_one_source_and_one_type_is_refused(claim: str) -> None:
    graphs = graphs_of(payments())
    for source, types in ((None, ("calls",)), (CHARGE, ()), (CHARGE, ("calls", "references"))):
        question = Question(claim, AUDIT, types, source)
        assert refusal(decide, question, graphs) == "malformed-question"


# What an answer states


def assert_states_what_the_graphs_have(question: Question, *made: Builder) -> None:
    graphs = graphs_of(*made)
    answer = decide(question, graphs)
    for graph in graphs:
        for (edge_type, target), relations in stated_relations(question, answer).get(graph.repo, {}).items():
            assert tuple(sorted(relations)) == graph.inbound(edge_type, target)


def test_answer_states_exactly_the_relations_of_the_graphs() -> None:
    for symbol in (CHARGE, SEND, CLOSE, AUDIT, external("python://os.environ.get")):
        assert_states_what_the_graphs_have(Question(CALLERS, symbol, tuple(USES)), payments(), shop(), tools())
