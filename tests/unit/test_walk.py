"""The walk from a canonical path to the definitions it can mean: every rule, and graphs made to mislead it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol.graph import Graph
from knowing_protocol.hashing import NodeId
from knowing_protocol.records import Facts, LocalType, TypeRef
from knowing_protocol.walk import (
    NO_MEMBER,
    NO_PORTION,
    TOO_FAR,
    UNCLAIMED,
    UNKNOWN_BASE,
    UNKNOWN_RECEIVER,
    UNKNOWN_RESULT,
    UNKNOWN_TYPE,
    UNPUBLISHED,
    WILDCARD_IMPORT,
    Outcome,
    walk,
)
from world import PAYMENTS, SHOP, TOOLS, Builder, payments, shop, tools

LIB = "github.com/acme/lib"
OTHER = "github.com/acme/other"
THIRD = "github.com/acme/third"


class Code(Builder):
    """Records in the words of these tests; every module named is published."""

    def __init__(self, repo: str = LIB, *modules: str) -> None:
        super().__init__(repo)
        for name in modules:
            self.module(name)

    def module(self, name: str) -> NodeId:
        node = self.node(name.replace(".", "/"), "", "file")
        self.alias(f"python://{name}", node)
        return node

    def function(self, name: str, *returns: TypeRef) -> NodeId:
        """A function of the module before its last dot, with what it returns."""
        return self._symbol(name, "function", Facts(returns=returns))

    def type(self, name: str, *bases: TypeRef, methods: Sequence[str] = ()) -> NodeId:
        node = self._symbol(name, "type", Facts(bases=bases))
        for method in methods:
            self.method(node, method)
        return node

    def method(self, owner: NodeId, name: str, *returns: TypeRef, types: tuple[TypeRef, ...] = ()) -> NodeId:
        kind = "field" if types else "method"
        node = self.node(owner.package, f"{owner.name}.{name}", kind)
        self.member(owner, name, node)
        self.facts(node, Facts(returns=returns, types=types))
        return node

    def value(self, name: str, *types: TypeRef) -> NodeId:
        return self._symbol(name, "var", Facts(types=types))

    def _symbol(self, name: str, kind: str, facts: Facts) -> NodeId:
        module, _, last = name.rpartition(".")
        node = self.node(module.replace(".", "/"), last, kind)
        self.alias(f"python://{name}", node)
        self.facts(node, facts)
        return node


def local(node: NodeId) -> LocalType:
    return LocalType(*node[1:])


def go(path: str, *made: Builder) -> Outcome:
    return walk(path, [Graph(one.repo, one.records) for one in made])


def assert_leads_to(outcome: Outcome, *nodes: NodeId) -> None:
    """Exactly these definitions, and nothing left unknown."""
    assert outcome.definitions == set(nodes)
    assert outcome.open == set()
    assert not outcome.standard


def assert_open(outcome: Outcome, *reasons: str) -> None:
    """Nothing found, for exactly these reasons."""
    assert outcome.definitions == set()
    assert outcome.open == set(reasons)


# Names


def test_published_name_leads_to_its_definition() -> None:
    lib = Code(LIB, "lib")
    f = lib.function("lib.f")
    outcome = go("python://lib.f", lib)
    assert_leads_to(outcome, f)
    assert outcome.names == {"python://lib.f"}


def test_longest_published_prefix_wins() -> None:
    lib = Code(LIB, "lib")
    sub = lib.type("lib.sub", methods=["f", "g"])
    lib.module("lib.sub.deep")
    f = lib.function("lib.sub.f")
    root = NodeId(LIB, "lib", "", "file")
    lib.member(root, "sub", lib.type("lib.elsewhere", methods=["f", "g"]))
    assert_leads_to(go("python://lib.sub.f", lib), f)
    assert_leads_to(go("python://lib.sub.g", lib), NodeId(LIB, sub.package, "sub.g", "method"))
    assert_open(go("python://lib.sub.deep.f", lib), NO_MEMBER)


def test_prefix_of_a_name_is_not_the_name() -> None:
    lib = Code(LIB, "lib")
    lib.function("lib.f")
    assert_open(go("python://lib.ff", lib), NO_MEMBER)
    assert_open(go("python://lib2.f", lib), UNPUBLISHED)
    assert_open(go("java://lib.f", lib), UNPUBLISHED)


def test_last_part_of_a_name_is_never_compared() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER, "other")
    lib.function("lib.f")
    other.module("other.lib")
    assert_open(go("python://other.f", lib, other), NO_MEMBER)
    assert_open(go("python://other.lib.f", lib, other), NO_MEMBER)


def test_names_of_every_language_are_walked() -> None:
    lib = Code(LIB)
    f = lib.node("lib", "f")
    for root, name in (
        ("npm://@acme/lib", "npm://@acme/lib#f"),
        ("go://acme.dev/lib", "go://acme.dev/lib.F"),
        ("rust://lib", "rust://lib::de::f"),
        ("java://dev", "java://dev.acme.Lib.f"),
        ("csharp://Acme", "csharp://Acme.Lib.F"),
    ):
        lib.alias(root, lib.node(root, "", "package"))
        lib.alias(name, f)
        assert_leads_to(go(name, lib), f)


def test_unresolved_receiver_is_open() -> None:
    lib = Code(LIB, "lib")
    lib.function("lib.get")
    assert_open(go("unresolved://python/get", lib), UNKNOWN_RECEIVER)


def test_wildcard_is_open() -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.T")
    for path in ("python://lib.*", "python://lib.T.*", "python://lib.T().*", "python://nowhere.*"):
        assert_open(go(path, lib), WILDCARD_IMPORT)


# Re-exports


def test_re_exports_are_followed_through_third_repositories() -> None:
    lib, other, third = Code(LIB, "lib"), Code(OTHER, "other"), Code(THIRD, "third")
    f = lib.function("lib.f")
    other.alias("python://other.g", "python://lib.f")
    third.alias("python://third.h", "python://other.g")
    outcome = go("python://third.h", lib, other, third)
    assert_leads_to(outcome, f)
    assert outcome.names == {"python://third.h", "python://other.g", "python://lib.f"}


def test_further_steps_go_with_a_re_export() -> None:
    lib, other = Code(LIB, "lib", "lib.api"), Code(OTHER, "other")
    lib.type("lib.api.Client", methods=["send"])
    send = NodeId(LIB, "lib/api", "Client.send", "method")
    other.alias("python://other.C", "python://lib.api.Client")
    other.alias("python://other.api", "python://lib.api")
    assert_leads_to(go("python://other.C().send", lib, other), send)
    assert_leads_to(go("python://other.api.Client().send", lib, other), send)
    assert_leads_to(go("python://other.C.send", lib, other), send)


def test_re_export_of_what_nobody_publishes_is_open_under_both_names() -> None:
    other = Code(OTHER, "other")
    other.alias("python://other.get", "python://requests.get")
    outcome = go("python://other.get", other)
    assert_open(outcome, UNPUBLISHED)
    assert outcome.names == {"python://other.get", "python://requests.get"}


def copy_of_lib(*names: str) -> Code:
    """A repository without a manifest that has a copy of a library."""
    made = Code(OTHER)
    made.alias("python://lib", made.node("copy", "", "file"), claimed=False)
    for name in names:
        made.alias(f"python://lib.{name}", made.node("copy", name), claimed=False)
    return made


def test_unclaimed_name_neither_hides_a_claimed_one_nor_is_hidden() -> None:
    lib = Code(LIB, "lib")
    f = lib.function("lib.f")
    copied = NodeId(OTHER, "copy", "f", "function")
    outcome = go("python://lib.f", copy_of_lib("f"), lib)
    assert outcome.definitions == {f, copied}
    assert outcome.open == {UNCLAIMED}
    alone = go("python://lib.f", copy_of_lib("f"))
    assert alone.definitions == {copied}
    assert alone.open == {UNCLAIMED}


def test_longer_name_of_another_repository_hides_nothing() -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.Client", methods=["send"])
    send, copied = NodeId(LIB, "lib", "Client.send", "method"), NodeId(OTHER, "copy", "Client.send", "function")
    outcome = go("python://lib.Client.send", lib, copy_of_lib("Client.send"))
    assert outcome.definitions == {send, copied}
    assert outcome.open == {UNCLAIMED}


def test_repositories_may_share_a_root() -> None:
    lib, other = Code(LIB, "ns"), Code(OTHER, "ns")
    f, g = lib.function("ns.a.f"), other.function("ns.b.g")
    for path, found in (("python://ns.a.f", f), ("python://ns.b.g", g)):
        outcome = go(path, lib, other)
        assert outcome.definitions == {found}
        assert outcome.open == {NO_MEMBER}  # the other's module may have it at run time
    assert_open(go("python://ns.c.h", lib, other), NO_MEMBER)


def test_portions_of_a_namespace_package_say_nothing_of_each_other() -> None:
    lib, other = Code(LIB), Code(OTHER)
    for code in (lib, other):
        code.alias("python://ns", code.node("ns", "", "package"))
    f, g = lib.function("ns.a.f"), other.function("ns.b.g")
    assert_leads_to(go("python://ns.a.f", lib, other), f)
    assert_leads_to(go("python://ns.b.g", lib, other), g)
    assert_open(go("python://ns.c.h", lib, other), NO_PORTION)


def test_repository_that_shares_a_root_and_may_have_the_name_leaves_it_open() -> None:
    lib, other = Code(LIB, "ns"), Code(OTHER)
    f = lib.function("ns.f")
    with_stars(other, "ns", "python://elsewhere")
    outcome = go("python://ns.f", lib, other)
    assert outcome.definitions == {f}
    assert outcome.open == {UNPUBLISHED}


def test_several_claimed_targets_are_all_kept() -> None:
    lib, other, third = Code(LIB, "lib"), Code(OTHER, "lib"), Code(THIRD, "third")
    mine, theirs, thirds = lib.function("lib.f"), other.function("lib.f"), third.function("third.g")
    lib.alias("python://lib.f", "python://third.g")
    assert_leads_to(go("python://lib.f", lib, other, third), mine, theirs, thirds)


def test_outcome_does_not_depend_on_the_order_of_the_graphs() -> None:
    graphs = [Graph(one.repo, one.records) for one in (payments(), shop(), tools())]
    paths = [
        "python://tools.pay",
        "python://payments.make_client().submit",
        "python://payments.nothing",
        "python://x.y",
    ]
    for path in paths:
        assert walk(path, graphs) == walk(path, graphs[::-1])


# Calls and instances


def test_calling_a_type_gives_an_instance() -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.T", methods=["m"])
    method = NodeId(LIB, "lib", "T.m", "method")
    assert_leads_to(go("python://lib.T().m", lib), method)
    assert_leads_to(go("python://lib.T.m", lib), method)


def test_calling_an_interface_gives_an_instance() -> None:
    lib = Code(LIB, "lib")
    lib.alias("python://lib.I", interface := lib.node("lib", "I", "interface"))
    method = lib.method(interface, "m")
    assert_leads_to(go("python://lib.I().m", lib), method)


def test_factory_gives_what_it_returns() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER, "other")
    client = lib.type("lib._Client", methods=["send"])
    lib.function("lib.make", local(client))
    other.function("other.make", "python://lib._Client")
    send = NodeId(LIB, "lib", "_Client.send", "method")
    assert_leads_to(go("python://lib.make().send", lib), send)
    assert_leads_to(go("python://other.make().send", lib, other), send)


def test_factory_that_returns_an_unexported_type_needs_no_name_for_it() -> None:
    lib = Code(LIB, "lib")
    hidden = lib.node("lib", "make.<locals>.Hidden", "type")
    method = lib.method(hidden, "m")
    lib.function("lib.make", local(hidden))
    assert_leads_to(go("python://lib.make().m", lib), method)


def test_all_return_types_are_kept() -> None:
    lib = Code(LIB, "lib")
    one, two = lib.type("lib.One", methods=["m"]), lib.type("lib.Two", methods=["m"])
    lib.function("lib.make", local(one), "python://lib.Two", "python://elsewhere.Three")
    outcome = go("python://lib.make().m", lib)
    assert outcome.definitions == {NodeId(LIB, "lib", f"{kind.name}.m", "method") for kind in (one, two)}
    assert outcome.open == {UNPUBLISHED}


def test_result_without_a_known_type_is_open() -> None:
    lib = Code(LIB, "lib")
    lib.function("lib.make")
    assert_open(go("python://lib.make().m", lib), UNKNOWN_RESULT)


def test_results_and_values_that_are_not_all_known_are_open() -> None:
    lib = Code(LIB, "lib")
    client = lib.type("lib.Client", methods=["send"])
    lib.facts(lib.function("lib.make"), Facts(returns=(local(client),), partial=("returns",)))
    lib.facts(lib.value("lib.default"), Facts(types=(local(client),), partial=("types",)))
    for path, reason in (("python://lib.make().send", UNKNOWN_RESULT), ("python://lib.default.send", UNKNOWN_TYPE)):
        outcome = go(path, lib)
        assert outcome.definitions == {NodeId(LIB, "lib", "Client.send", "method")}
        assert outcome.open == {reason}


def test_method_results_are_followed_along_a_chain() -> None:
    lib = Code(LIB, "lib")
    builder = lib.type("lib.Builder")
    add = lib.method(builder, "add", local(builder))
    assert_leads_to(go("python://lib.Builder().add().add().add", lib), add)


def test_path_that_ends_in_a_call_uses_the_result() -> None:
    lib = Code(LIB, "lib")
    handler = lib.type("lib.Handler")
    call = lib.method(handler, "__call__", local(handler))
    lib.function("lib.make", local(handler))
    assert_leads_to(go("python://lib.make()", lib), call)
    assert_leads_to(go("python://lib.Handler()", lib), call)
    assert_leads_to(go("python://lib.make()()", lib), call)
    assert_leads_to(go("python://lib.make()()().__call__", lib), call)
    lib.function("lib.plain", local(lib.type("lib.Plain")))
    assert_open(go("python://lib.plain()", lib), NO_MEMBER)


def test_member_that_a_type_does_not_have_is_open() -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.T", methods=["m"])
    assert_open(go("python://lib.T().other", lib), NO_MEMBER)
    assert_open(go("python://lib.T().m.more", lib), NO_MEMBER)
    assert_open(go("python://lib.missing", lib), NO_MEMBER)


def test_members_of_several_targets_are_all_kept() -> None:
    lib = Code(LIB, "lib")
    kind = lib.type("lib.T")
    first, second = lib.node("lib", "a"), lib.node("lib", "b")
    lib.member(kind, "m", first)
    lib.member(kind, "m", second)
    assert_leads_to(go("python://lib.T().m", lib), first, second)


def test_member_that_is_somebody_elses_name_is_followed() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER, "other")
    f = lib.function("lib.f")
    kind = other.type("other.T")
    other.member(kind, "call", other.outside("python://lib.f"))
    assert_leads_to(go("python://other.T().call", lib, other), f)


# Values


def test_value_leads_on_through_its_type() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER, "other")
    client = lib.type("lib.Client", methods=["send"])
    lib.value("lib.default", local(client))
    other.value("other.client", "python://lib.Client")
    send = NodeId(LIB, "lib", "Client.send", "method")
    assert_leads_to(go("python://lib.default.send", lib), send)
    assert_leads_to(go("python://other.client.send", lib, other), send)


def test_field_and_property_lead_on_through_their_types() -> None:
    lib = Code(LIB, "lib")
    client = lib.type("lib.Client", methods=["send"])
    app = lib.type("lib.App")
    lib.method(app, "client", types=(local(client),))
    prop = lib.node("lib", "App.lazy", "method")
    lib.member(app, "lazy", prop)
    lib.facts(prop, Facts(types=(local(client),)))
    send = NodeId(LIB, "lib", "Client.send", "method")
    assert_leads_to(go("python://lib.App().client.send", lib), send)
    assert_leads_to(go("python://lib.App().lazy.send", lib), send)
    assert_leads_to(go("python://lib.App().lazy", lib), prop)


def test_calling_a_value_uses_its_type() -> None:
    lib = Code(LIB, "lib")
    handler = lib.type("lib.Handler")
    result = lib.type("lib.Result", methods=["m"])
    lib.method(handler, "__call__", local(result))
    lib.value("lib.handle", local(handler))
    assert_leads_to(go("python://lib.handle().m", lib), NodeId(LIB, "lib", "Result.m", "method"))


def test_value_itself_is_a_definition() -> None:
    lib = Code(LIB, "lib")
    x = lib.value("lib.x", "python://elsewhere.T")
    assert_leads_to(go("python://lib.x", lib), x)


def test_value_without_a_known_type_is_open() -> None:
    lib = Code(LIB, "lib")
    lib.value("lib.x")
    assert_open(go("python://lib.x.m", lib), UNKNOWN_TYPE)
    assert_open(go("python://lib.x().m", lib), UNKNOWN_TYPE)


# Bases


def test_member_is_inherited_through_local_and_foreign_bases() -> None:
    lib, other, third = Code(LIB, "lib"), Code(OTHER, "other"), Code(THIRD, "third")
    lib.type("lib.Base", methods=["close"])
    middle = other.type("other._Middle", "python://lib.Base")
    other.type("other.Middle", local(middle))
    third.type("third.Leaf", "python://other.Middle", methods=["open"])
    close = NodeId(LIB, "lib", "Base.close", "method")
    assert_leads_to(go("python://third.Leaf().close", lib, other, third), close)
    assert_leads_to(go("python://third.Leaf.close", lib, other, third), close)


def test_own_member_goes_before_an_inherited_one() -> None:
    lib = Code(LIB, "lib")
    base = lib.type("lib.Base", methods=["m"])
    lib.type("lib.Leaf", local(base), "python://elsewhere.Mixin", methods=["m"])
    assert_leads_to(go("python://lib.Leaf().m", lib), NodeId(LIB, "lib", "Leaf.m", "method"))


def test_diamond_is_resolved_in_c3_order() -> None:
    lib = Code(LIB, "lib")
    top = lib.type("lib.Top", methods=["m"])
    left = lib.type("lib.Left", local(top))
    right = lib.type("lib.Right", local(top), methods=["m"])
    lib.type("lib.Bottom", local(left), local(right))
    assert_leads_to(go("python://lib.Bottom().m", lib), NodeId(LIB, "lib", "Right.m", "method"))


def test_base_that_is_a_re_export_or_a_member_is_looked_into() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER, "other")
    outer = lib.type("lib.Outer")
    inner = lib.node("lib", "Outer.Inner", "type")
    lib.member(outer, "Inner", inner)
    method = lib.method(inner, "m")
    other.alias("python://other.Again", "python://lib.Outer.Inner")
    other.type("other.Leaf", "python://other.Again")
    assert_leads_to(go("python://other.Leaf().m", lib, other), method)


def test_object_is_no_unknown_base() -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.T", "python://builtins.object", methods=["m"])
    assert_leads_to(go("python://lib.T().m", lib), NodeId(LIB, "lib", "T.m", "method"))
    assert_open(go("python://lib.T().other", lib), NO_MEMBER)


@pytest.mark.parametrize(
    "base", ["python://elsewhere.Base", "python://abc.ABC", "unresolved://python/Base", "python://lib.f"]
)
def test_base_that_cannot_be_looked_into_is_open(base: str) -> None:
    lib = Code(LIB, "lib")
    lib.value("lib.f")
    lib.type("lib.T", base, methods=["own"])
    assert go("python://lib.T().own", lib).open == set()
    outcome = go("python://lib.T().other", lib)
    assert outcome.definitions == set()
    assert outcome.open <= {UNKNOWN_BASE, NO_MEMBER}
    assert outcome.open


def test_ambiguous_base_is_looked_into_and_open() -> None:
    lib, other, third = Code(LIB, "lib"), Code(OTHER, "lib"), Code(THIRD, "third")
    lib.type("lib.Base", methods=["m"])
    other.type("lib.Base", methods=["m"])
    third.type("third.Leaf", "python://lib.Base", methods=["own"])
    outcome = go("python://third.Leaf().m", lib, other, third)
    assert outcome.open == {UNKNOWN_BASE}
    assert outcome.definitions
    assert_leads_to(go("python://third.Leaf().own", lib, other, third), NodeId(THIRD, "third", "Leaf.own", "method"))


@pytest.mark.parametrize("unknown_first", [True, False])
def test_nothing_inherited_is_certain_beside_an_unknown_base(*, unknown_first: bool) -> None:
    lib = Code(LIB, "lib")
    known = lib.type("lib.Known", methods=["m"])
    bases: list[TypeRef] = [local(known), "python://elsewhere.Base"]
    lib.type("lib.Leaf", *(reversed(bases) if unknown_first else bases), methods=["own"])
    outcome = go("python://lib.Leaf().m", lib)
    assert outcome.definitions == {NodeId(LIB, "lib", "Known.m", "method")}
    assert outcome.open == {UNKNOWN_BASE}
    assert_leads_to(go("python://lib.Leaf().own", lib), NodeId(LIB, "lib", "Leaf.own", "method"))


def test_bases_that_are_not_all_known_are_as_an_unknown_one() -> None:
    lib = Code(LIB, "lib")
    known = lib.type("lib.Known", methods=["m"])
    lib.facts(lib.type("lib.Leaf", methods=["own"]), Facts(bases=(local(known),), partial=("bases",)))
    outcome = go("python://lib.Leaf().m", lib)
    assert outcome.definitions == {NodeId(LIB, "lib", "Known.m", "method")}
    assert outcome.open == {UNKNOWN_BASE}
    assert_open(go("python://lib.Leaf().other", lib), UNKNOWN_BASE)
    assert_leads_to(go("python://lib.Leaf().own", lib), NodeId(LIB, "lib", "Leaf.own", "method"))


def test_two_unknown_bases_are_not_taken_for_one() -> None:
    # class C(A, B): the unknown base of A comes before B in the order of C, unless it is the unknown base of B too
    lib = Code(LIB, "lib")
    a = lib.type("lib.A", "python://x.X")
    b = lib.type("lib.B", "python://y.Y", methods=["m"])
    lib.type("lib.C", local(a), local(b))
    assert go("python://lib.C().m", lib).open == {UNKNOWN_BASE}


def test_unknown_base_may_stand_before_what_an_earlier_base_inherits() -> None:
    # class C(B, X): if X extends A too, the order of C is C, B, X, A, and m is that of X
    lib = Code(LIB, "lib")
    a = lib.type("lib.A", methods=["m"])
    b = lib.type("lib.B", local(a))
    lib.type("lib.C", local(b), "python://x.X")
    assert go("python://lib.C().m", lib).open == {UNKNOWN_BASE}


@pytest.mark.parametrize("base", ["python://{lib.One|lib.Two}", "python://{elsewhere.Zero|lib.One}"])
def test_base_with_candidates_is_looked_into_and_open(base: str) -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.One", methods=["m"])
    lib.type("lib.Two")
    lib.type("lib.Leaf", base)
    outcome = go("python://lib.Leaf().m", lib)
    assert outcome.definitions == {NodeId(LIB, "lib", "One.m", "method")}
    assert outcome.open == {UNKNOWN_BASE}


def random_class(rng: random.Random, name: str, earlier: list[type], body: dict[str, object]) -> type:
    """A class with some of the earlier ones as bases, in an order that Python accepts."""
    while True:
        bases = rng.sample(earlier, min(len(earlier), rng.choice((0, 1, 2, 2, 3))))
        try:
            return type(name, tuple(bases), dict(body))
        except TypeError:
            continue


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 8), st.integers(0, 2**32))
def test_inherited_member_is_the_one_that_python_finds(size: int, seed: int) -> None:
    rng = random.Random(seed)
    repos = {"lib": Code(LIB, "lib"), "other": Code(OTHER, "other")}
    classes: list[type] = []
    owners: dict[str, NodeId] = {}
    for index in range(size):
        home = rng.choice(("lib", "other"))
        name = f"{home}.T{index}"
        members = [member for member in "mnopq" if rng.random() < 0.35]
        made = random_class(rng, name, classes, dict.fromkeys(members, name))
        bases: list[TypeRef] = [
            local(owners[base.__name__])
            if base.__name__.startswith(home) and rng.random() < 0.5
            else f"python://{base.__name__}"
            for base in made.__bases__
            if base is not object
        ]
        owners[name] = repos[home].type(name, *bases, methods=members)
        classes.append(made)
    graphs = [Graph(one.repo, one.records) for one in repos.values()]
    for made in classes:
        for member in "mnopq":
            outcome = walk(f"python://{made.__name__}().{member}", graphs)
            found = getattr(made, member, None)
            if found is None:
                assert_open(outcome, NO_MEMBER)
            else:
                owner = owners[found]
                assert_leads_to(outcome, NodeId(owner.repo, owner.package, f"{owner.name}.{member}", "method"))


# Star imports


def with_stars(made: Code, module: str, *stars: str) -> None:
    made.facts(made.module(module), Facts(stars=stars))


def test_star_import_may_bring_a_name_that_the_module_has_too() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER)
    f, g = lib.function("lib.f"), lib.function("lib.g")
    with_stars(other, "other", "python://lib")
    own = other.node("other", "g")
    other.member(NodeId(OTHER, "other", "", "file"), "g", own)
    assert_leads_to(go("python://other.f", lib, other), f)
    assert_leads_to(go("python://other.g", lib, other), own, g)


def test_star_imports_are_followed_through_each_other_and_into_types() -> None:
    lib, other, third = Code(LIB, "lib"), Code(OTHER), Code(THIRD)
    lib.type("lib.T", methods=["m"])
    with_stars(other, "other", "python://lib")
    with_stars(third, "third", "python://other")
    assert_leads_to(go("python://third.T().m", lib, other, third), NodeId(LIB, "lib", "T.m", "method"))


def test_name_that_no_star_import_has_is_open() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER)
    with_stars(other, "other", "python://lib")
    assert_open(go("python://other.f", lib, other), NO_MEMBER)
    with_stars(other, "other", "python://lib", "python://elsewhere")
    assert_open(go("python://other.f", lib, other), UNPUBLISHED)


def test_star_imports_in_a_circle_end() -> None:
    lib, other = Code(LIB), Code(OTHER)
    with_stars(lib, "lib", "python://other", "python://lib")
    with_stars(other, "other", "python://lib")
    outcome = go("python://lib.f", lib, other)
    assert outcome.definitions == set()
    assert outcome.open


def test_name_of_two_star_imports_may_be_either() -> None:
    # from a import *; from b import *: Python takes the name of b, other languages refuse it
    lib = Code(LIB, "a", "b")
    first, second = lib.function("a.f"), lib.function("b.f")
    with_stars(lib, "m", "python://a", "python://b")
    assert_leads_to(go("python://m.f", lib), first, second)


@pytest.mark.parametrize("stars", [("python://a", "python://elsewhere"), ("python://elsewhere", "python://a")])
def test_star_import_that_is_not_known_may_have_the_name_too(stars: tuple[str, ...]) -> None:
    lib = Code(LIB, "a")
    f = lib.function("a.f")
    with_stars(lib, "m", *stars)
    outcome = go("python://m.f", lib)
    assert outcome.definitions == {f}
    assert outcome.open == {UNPUBLISHED}


def test_star_import_of_the_standard_library_is_followed() -> None:
    lib = Code(LIB)
    with_stars(lib, "m", "python://hashlib")
    outcome = go("python://m.md5", lib)
    assert outcome.standard
    assert outcome.names == {"python://m.md5", "python://hashlib.md5"}
    assert outcome.open == set()


# Candidates


def test_every_candidate_is_walked() -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.One", methods=["m"])
    lib.type("lib.Two", methods=["m"])
    outcome = go("python://{lib.One|lib.Two}().m", lib)
    assert_leads_to(outcome, *(NodeId(LIB, "lib", f"{name}.m", "method") for name in ("One", "Two")))
    assert outcome.names == {"python://lib.One().m", "python://lib.Two().m"}


def test_candidate_that_is_not_published_leaves_the_others_open() -> None:
    lib = Code(LIB, "lib")
    f = lib.function("lib.f")
    for path in ("python://{lib.f|elsewhere.f}", "python://{elsewhere.f|lib.f}"):
        outcome = go(path, lib)
        assert outcome.definitions == {f}
        assert outcome.open == {UNPUBLISHED}


def test_candidates_that_meet_are_no_circle() -> None:
    # try: from fast import f; except ImportError: from lib import f, where fast.f is lib.f
    lib = Code(LIB, "lib", "fast")
    f = lib.function("lib.f")
    lib.alias("python://fast.f", "python://lib.f")
    assert_leads_to(go("python://{fast.f|lib.f}", lib), f)


def test_re_exports_that_meet_are_no_circle() -> None:
    lib, other, third = Code(LIB, "lib"), Code(OTHER, "both"), Code(THIRD, "both")
    f = lib.function("lib.f")
    other.alias("python://both.f", "python://lib.f")
    third.alias("python://both.f", "python://lib.f")
    assert_leads_to(go("python://both.f", lib, other, third), f)


def test_eight_candidates_of_a_few_steps_each_are_all_walked() -> None:
    lib = Code(LIB)
    ends = set()
    for index in range(8):
        owner = lib.module(f"m{index}")
        for name in "abcd":
            inner = lib.node(owner.package, f"{owner.name}.{name}".lstrip("."), "type")
            lib.member(owner, name, inner)
            owner = inner
        ends.add(owner)
    heads = "|".join(f"m{index}" for index in range(8))
    assert_leads_to(go(f"python://{{{heads}}}.a.b.c.d", lib), *ends)


# The standard library


@pytest.mark.parametrize(
    "path",
    [
        "python://os.environ.get",
        "python://hashlib",
        "python://builtins.str().join",
        "python://builtins.dict().get",
        "go://fmt.Println",
        "rust://std::fs::read",
        "npm://node:fs#readFile",
        "java://java.util.List.of",
    ],
)
def test_standard_library_is_closed(path: str) -> None:
    outcome = go(path, Code(LIB, "lib"))
    assert outcome.standard
    assert outcome.definitions == set()
    assert outcome.open == set()


@pytest.mark.parametrize(
    "path",
    [
        "python://hashlib.md5().update",
        "python://builtins.open().read",
        "python://builtins.str().join().upper",
        "python://builtins.str().append",
        "python://builtins.type().mro",
        "python://builtins.str()",
        "python://builtins.list().append.x",
        "python://contextlib.closing().__enter__().close",
        "go://os.Open().Close",
    ],
)
def test_result_of_the_standard_library_is_open(path: str) -> None:
    outcome = go(path, Code(LIB, "lib"))
    assert not outcome.standard
    assert outcome.definitions == set()
    assert outcome.open


def test_unclaimed_name_of_the_standard_library_is_not_looked_at() -> None:
    script = Code(LIB, "lib")
    script.alias("python://json", script.node("json", "", "file"), claimed=False)
    script.alias("python://json.loads", script.node("json", "loads"), claimed=False)
    outcome = go("python://json.loads", script)
    assert outcome.standard
    assert outcome.definitions == set()
    assert outcome.open == set()


def test_type_of_the_standard_library_is_closed_only_for_builtins() -> None:
    lib = Code(LIB, "lib")
    lib.function("lib.text", "python://builtins.str")
    lib.function("lib.file", "python://io.TextIOWrapper")
    assert go("python://lib.text().join", lib).standard
    assert go("python://lib.text().join", lib).open == set()
    assert go("python://lib.file().read", lib).open == {UNKNOWN_RESULT}


# Graphs made to mislead


def quickly(path: str, *made: Builder) -> Outcome:
    graphs = [Graph(one.repo, one.records) for one in made]
    start = perf_counter()
    outcome = walk(path, graphs)
    assert perf_counter() - start < 1
    return outcome


def chain(made: Code, length: int, end: NodeId | str, name: str = "c") -> None:
    """`name0` is re-exported as `name1`, and so on to the end."""
    for index in range(length):
        target = end if index == length - 1 else f"python://{name}{index + 1}"
        made.alias(f"python://{name}{index}", target)


def test_alias_of_itself_ends() -> None:
    lib = Code(LIB, "lib")
    lib.alias("python://lib.f", "python://lib.f")
    assert_open(quickly("python://lib.f", lib), TOO_FAR)


def test_re_exports_in_a_circle_end() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER, "other")
    lib.alias("python://lib.f", "python://other.f")
    other.alias("python://other.f", "python://lib.f")
    assert_open(quickly("python://lib.f", lib, other), TOO_FAR)
    assert_open(quickly("python://other.f.g().h", lib, other), TOO_FAR)


def test_re_export_that_grows_ends() -> None:
    lib = Code(LIB, "lib")
    lib.alias("python://lib.f", "python://lib.f.f")
    assert_open(quickly("python://lib.f", lib), TOO_FAR)
    lib.alias("python://lib.g", "python://lib.g()()()()()()()()")
    assert_open(quickly("python://lib.g", lib), TOO_FAR)


def test_way_of_32_steps_is_walked_and_one_of_33_is_open() -> None:
    for length, found in ((31, True), (32, True), (33, False), (34, False)):
        lib = Code(LIB, "lib")
        f = lib.function("lib.f")
        chain(lib, length, f)
        if found:
            assert_leads_to(quickly("python://c0", lib), f)
        else:
            assert_open(quickly("python://c0", lib), TOO_FAR)


def test_very_long_re_exports_end() -> None:
    lib = Code(LIB, "lib")
    chain(lib, 1000, lib.function("lib.f"))
    assert_open(quickly("python://c0.m", lib), TOO_FAR)


def test_path_of_64_steps_ends() -> None:
    lib = Code(LIB, "lib")
    builder = lib.type("lib.B")
    add = lib.method(builder, "add", local(builder))
    lib.member(builder, "B", builder)
    assert_leads_to(quickly("python://lib.B()" + ".add()" * 9 + ".add", lib), add)
    for path in ("python://lib.B()" + ".add()" * 31, "python://lib.B" + ".B" * 63, "python://lib.B" + "()" * 63):
        outcome = quickly(path, lib)
        assert outcome.definitions == set()
        assert outcome.open <= {TOO_FAR, NO_MEMBER}
        assert outcome.open


def test_exponential_re_exports_end() -> None:
    lib = Code(LIB)
    for level in range(12):
        for one in range(8):
            for two in range(8):
                lib.alias(f"python://n{level}_{one}", f"python://n{level + 1}_{two}")
    outcome = quickly("python://n0_0.m", lib)
    assert outcome.definitions == set()
    assert TOO_FAR in outcome.open


def test_exponential_return_types_end() -> None:
    lib = Code(LIB, "lib")
    names = [f"lib.f{index}" for index in range(10)]
    for name in names:
        lib.function(name, *(f"python://{other}" for other in names))
    outcome = quickly("python://lib.f0().a().b().c().d().e().f", lib)
    assert outcome.definitions == set()
    assert outcome.open


def test_exponential_members_end() -> None:
    lib = Code(LIB, "lib")
    types = [lib.type(f"lib.T{index}") for index in range(12)]
    for owner in types:
        for target in types:
            lib.member(owner, "x", target)
    outcome = quickly("python://lib.T0" + ".x" * 30, lib)
    assert TOO_FAR in outcome.open
    assert outcome.definitions <= set(types)


def test_exponential_value_types_end() -> None:
    lib = Code(LIB, "lib")
    owner = lib.type("lib.T")
    for index in range(10):
        lib.value(f"lib.v{index}", *(f"python://lib.v{other}" for other in range(10)))
    lib.method(owner, "v", types=tuple(f"python://lib.v{index}" for index in range(10)))
    outcome = quickly("python://lib.T().v.a.b.c.d.e.f", lib)
    assert outcome.definitions == set()
    assert outcome.open


def test_exponential_star_imports_end() -> None:
    lib = Code(LIB)
    for index in range(12):
        with_stars(lib, f"m{index}", *(f"python://m{other}" for other in range(12)))
    outcome = quickly("python://m0.f", lib)
    assert outcome.definitions == set()
    assert outcome.open


def test_name_with_thousands_of_targets_ends() -> None:
    lib = Code(LIB, "lib")
    for index in range(1000):
        lib.alias("python://lib.f", f"python://lib.g{index}.m")
        lib.alias(f"python://lib.g{index}", "python://lib.f")
    outcome = quickly("python://lib.f", lib)
    assert outcome.definitions == set()
    assert TOO_FAR in outcome.open


@pytest.mark.parametrize("by_name", [True, False])
def test_type_that_is_its_own_base_ends(*, by_name: bool) -> None:
    lib = Code(LIB, "lib")
    kind = NodeId(LIB, "lib", "T", "type")
    lib.type("lib.T", "python://lib.T" if by_name else local(kind), methods=["own"])
    assert_leads_to(quickly("python://lib.T().own", lib), NodeId(LIB, "lib", "T.own", "method"))
    outcome = quickly("python://lib.T().m", lib)
    assert outcome.definitions == set()
    assert outcome.open


def test_types_that_are_each_others_bases_end() -> None:
    lib, other = Code(LIB, "lib"), Code(OTHER, "other")
    lib.type("lib.T", "python://other.T")
    other.type("other.T", "python://lib.T", methods=["m"])
    assert quickly("python://lib.T().m", lib, other).definitions == {NodeId(OTHER, "other", "T.m", "method")}
    outcome = quickly("python://lib.T().other", lib, other)
    assert outcome.definitions == set()
    assert outcome.open


def test_base_that_is_a_member_of_its_own_type_ends() -> None:
    lib = Code(LIB, "lib")
    lib.type("lib.T", "python://lib.T.Inner", "python://lib.T().Inner")
    outcome = quickly("python://lib.T().m", lib)
    assert outcome.definitions == set()
    assert outcome.open


def test_very_long_line_of_bases_ends() -> None:
    lib = Code(LIB, "lib")
    below: tuple[TypeRef, ...] = ()
    for index in reversed(range(400)):
        below = (local(lib.type(f"lib.T{index}", *below, methods=["m"] if index == 399 else [])),)
    outcome = quickly("python://lib.T0().m", lib)
    assert outcome.definitions == set()
    assert outcome.open == {UNKNOWN_BASE}


@pytest.mark.parametrize(("width", "count"), [(2, 40), (8, 200), (64, 64), (64, 600)])
@pytest.mark.parametrize("by_name", [True, False])
def test_tangled_bases_end(width: int, count: int, *, by_name: bool) -> None:
    rng = random.Random(1)
    lib = Code(LIB, "lib")
    for index in range(count):
        chosen = rng.sample(range(count), width)
        bases = [f"python://lib.T{one}" if by_name else LocalType("lib", f"T{one}", "type") for one in chosen]
        lib.type(f"lib.T{index}", *bases)
    outcome = quickly("python://lib.T0().m", lib)
    assert outcome.definitions == set()
    assert outcome.open


def test_walks_inside_walks_do_not_exhaust_the_stack() -> None:
    lib = Code(LIB, "lib")
    for level in range(9):
        kind = lib.type(f"lib.T{level}", f"python://l{level + 1}_0.x")
        chain(lib, 30, kind, f"l{level}_")
    outcome = quickly("python://l0_0.m", lib)
    assert outcome.definitions == set()
    assert outcome.open


# The world of the vectors


def test_world_resolves_as_it_was_written() -> None:
    made = (payments(), shop(), tools())
    charge = NodeId(PAYMENTS, "payments/api", "charge", "function")
    send = NodeId(PAYMENTS, "payments/client", "Client.send", "method")
    close = NodeId(PAYMENTS, "payments/client", "Base.close", "method")
    assert_leads_to(go("python://payments.charge", *made), charge)
    assert_leads_to(go("python://tools.pay", *made), charge)
    assert_leads_to(go("python://payments.make_client().send", *made), send)
    assert_leads_to(go("python://payments.make_client().submit", *made), send)
    assert_leads_to(go("python://payments.make_client().close", *made), close)
    assert_leads_to(go("python://shop.cart.checkout", *made), NodeId(SHOP, "shop/cart", "checkout", "function"))
    assert_leads_to(go("python://tools.run.main", *made), NodeId(TOOLS, "tools/run", "main", "function"))
