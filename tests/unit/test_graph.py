"""The maps of a graph: every formula computed a second time with nothing but hashlib, and what may change them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pytest
from knowing_protocol import graph as formulas
from knowing_protocol import hashing
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.graph import AliasTarget, Graph, Level, Relation, RenamedMember, coverage_counts
from knowing_protocol.hashing import NodeId, external, node_hash
from knowing_protocol.history import roster_key
from knowing_protocol.records import (
    Alias,
    Declaration,
    Edge,
    Facts,
    File,
    LocalType,
    Member,
    Records,
    Site,
    facts_from_json,
    facts_to_json,
)
from knowing_protocol.vocabulary import Coverage
from world import PAYMENTS, SHOP, TOOLS, Builder, payments, shop, tools

REPO = "github.com/acme/sample"
Content = dict[bytes, bytes]
Sets = dict[bytes, Content]


# The formulas of the design


def sha(*parts: bytes | str) -> bytes:
    return sha256(b"".join(part.encode() if isinstance(part, str) else part for part in parts)).digest()


def tagged(tag: str, *parts: bytes | str) -> bytes:
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    return sha(tag, b"\0", *(len(part).to_bytes(4, "big") + part for part in raw))


def root(level: int, content: Content) -> bytes:
    if not content:
        return sha(bytes([2, level]))
    if len(content) == 1:
        ((key, value),) = content.items()
        return sha(bytes([0, level]), key, value)
    bits = {key: f"{int.from_bytes(key, 'big'):0256b}" for key in content}
    depth = next(depth for depth in range(256) if len({text[depth] for text in bits.values()}) == 2)
    sides = [
        root(level, {key: value for key, value in content.items() if bits[key][depth] == side}) for side in ("0", "1")
    ]
    return sha(bytes([1, level, depth]), *sides)


def node_by_formula(repo: str, package: str, name: str, kind: str) -> bytes:
    return sha(f"node\0{repo}\0{package}\0{name}\0{kind}")


def external_by_formula(path: str) -> bytes:
    return sha(f"node\0\0\0{path}\0external")


def json_bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def set_of(level: int, members: Content) -> bytes:
    return tagged("set", root(level, members), len(members).to_bytes(8, "big"))


def segments_by_hand(node: NodeId) -> list[str]:
    """The last segment of a name, for the simple names of these tests."""
    if node.kind != "external":
        return [node.name.rpartition(".")[2]]
    body = node.name.partition("://")[2]
    if body.startswith("{"):
        inside, _, tail = body[1:].partition("}")
        return [tail.rpartition(".")[2]] if tail else [one.rpartition(".")[2] for one in inside.split("|")]
    return ["*"] if body.endswith(("()", "*")) else [body.replace("/", ".").rpartition(".")[2]]


def facts_as_json(facts: Facts) -> dict[str, list[object]]:
    def written(refs: tuple[str | LocalType, ...]) -> list[object]:
        return [one if isinstance(one, str) else list(one) for one in refs]

    def in_order(refs: tuple[str | LocalType, ...]) -> list[object]:
        paths = sorted({one for one in refs if isinstance(one, str)})
        return [*paths, *sorted(list(one) for one in {one for one in refs if not isinstance(one, str)})]

    return {
        "bases": written(facts.bases),
        "partial": [*sorted(facts.partial)],
        "returns": in_order(facts.returns),
        "stars": list(facts.stars),
        "types": in_order(facts.types),
    }


def file_by_formula(file: File) -> bytes:
    content: Content = {}
    for node in {one.node for one in file.declarations}:
        rows = sorted([one.line, one.end_line, one.signature, one.doc] for one in file.declarations if one.node == node)
        content[tagged("declarations", node)] = tagged("declarations", json_bytes(rows))
    for edge in {one.edge for one in file.sites}:
        places = sorted([one.declaration, one.line, one.column, one.arity] for one in file.sites if one.edge == edge)
        content[tagged("sites", edge)] = tagged("sites", json_bytes(places))
    return tagged("file", file.content, root(18, content))


def maps_by_formula(records: Records) -> dict[str, bytes]:
    """The roots of all maps, straight from the table of the design."""
    nodes = {node_by_formula(*node): node for node in records.nodes}
    relations: dict[tuple[bytes, bytes, str], list[bytes]] = {}
    for source, target, kind, provenance in set(records.edges):
        edge = sha(f"edge\0{source.hex()}\0{target.hex()}\0{kind}\0{provenance}")
        relations.setdefault((source, target, kind), []).append(edge)
    branches: dict[str, Sets] = {}
    inbound: Sets = {}
    names: Sets = {}
    for (source, target, kind), edges in relations.items():
        key = sha(b"relation\0", source, target, kind)
        value = tagged("edges", *sorted(edges))
        branches.setdefault(nodes[source].package, {}).setdefault(tagged("type", kind), {})[key] = value
        inbound.setdefault(tagged("inbound", kind, target), {})[key] = value
    for _, target, kind in relations:
        for segment in segments_by_hand(nodes[target]):
            value = set_of(6, inbound[tagged("inbound", kind, target)])
            names.setdefault(tagged("name", kind, segment), {})[target] = value
    packages = {
        tagged("package", package): root(3, {key: root(4, content) for key, content in types.items()})
        for package, types in branches.items()
    }
    aliases: Sets = {}
    alias_of: Sets = {}
    for name, target, claimed in sorted(records.aliases, key=lambda one: one.claimed):
        key = external_by_formula(name)
        aliases.setdefault(key, {})[target] = tagged("alias", target, b"\1" if claimed else b"\0")
        alias_of.setdefault(target, {})[key] = key
    members: Sets = {}
    for owner, name, target in records.members:
        key = tagged("member", owner, name)
        members.setdefault(key, {})[target] = target
        if segments_by_hand(nodes[target]) != [name]:
            alias_of.setdefault(target, {})[key] = key
    for target, found in alias_of.items():
        if nodes[target].kind == "external":  # a name from outside that is published anew
            for segment in segments_by_hand(nodes[target]):
                names.setdefault(tagged("name", "alias", segment), {})[target] = set_of(13, found)
    facts = {key: tagged("facts", json_bytes(facts_as_json(one))) for key, one in records.facts.items()}

    def of_sets(level: int, inner: int, sets: Sets) -> bytes:
        return root(level, {key: set_of(inner, content) for key, content in sets.items()})

    return {
        "edges": root(2, packages),
        "inbound": of_sets(5, 6, inbound),
        "names": of_sets(7, 8, names),
        "nodes": root(9, {key: tagged("identity", *node) for key, node in nodes.items()}),
        "aliases": of_sets(10, 11, aliases),
        "alias_of": of_sets(12, 13, alias_of),
        "members": of_sets(14, 15, members),
        "facts": root(16, facts),
        "files": root(17, {tagged("path", file.path): file_by_formula(file) for file in records.files}),
        "coverage": root(
            19, {tagged("path", path): tagged("coverage", reason) for path, reason in records.coverage.items()}
        ),
    }


def sample() -> Builder:
    """A repository in which every map has something unusual."""
    made = Builder(REPO)
    module = made.node("a/b", "", "file")
    f = made.node("a/b", "f")
    g = made.node("a:b", "g")
    top = made.node("", "run")
    owner = made.node("a/b", "Owner", "type")
    method = made.node("a/b", "Owner.method", "method")
    made.edge(f, g)
    first = made.edge(f, g, how="ast_inferred")
    made.edge(f, g, "references")
    made.edge(g, g)
    made.edge(top, "python://lib.make().send")
    made.edge(top, "python://lib.make()")
    made.edge(top, "python://{one.Kind|two.Other}", "extends")
    made.edge(top, "python://{one.Kind|two.Other}.both")
    made.edge(module, "python://lib.*", "imports")
    made.edge(method, "unresolved://python/send", how="ast_inferred")
    made.edge(owner, method, "contains")
    made.alias("python://b.f", f)
    made.alias("python://b.f", g, claimed=False)
    made.alias("python://b.again", f)
    made.alias("python://b", module)
    made.alias("python://b.theirs", "python://lib.make")
    made.alias("python://both", f, claimed=False)
    made.alias("python://both", f)
    made.member(owner, "method", method)
    made.member(owner, "renamed", method)
    made.member(owner, "either", f)
    made.member(owner, "either", g)
    made.member(owner, "make", made.outside("python://lib.make"))
    made.member(owner, "built", made.outside("python://lib.make"))
    made.member(module, "f", f)
    made.facts(
        owner,
        Facts(
            bases=("python://z.Z", LocalType("a/b", "Owner", "type"), "python://a.A"),
            returns=("python://lib.make", LocalType("a/b", "Owner", "type")),
            types=(LocalType("", "run", "function"), LocalType("a/b", "Owner", "type")),
        ),
    )
    made.facts(module, Facts(stars=("python://z", "python://a")))
    made.records.files = [
        File(
            "src/é.py",
            sha(b"content"),
            (
                Declaration(node_hash(*f), 9, 12, "def f(x)", "Says “é”.\n"),
                Declaration(node_hash(*f), 2, 3, "def f()", ""),
                Declaration(node_hash(*owner), 20, 30, "class Owner", ""),
            ),
            (Site(first.hash, 1, 2, 4, -1), Site(first.hash, 0, 1, 0, 3), Site(first.hash, 0, 1, 0, 2)),
        ),
        File("empty.py", sha(b"")),
    ]
    made.records.coverage = {"logo.png": Coverage.BINARY, "vendor/x.py": Coverage.VENDORED}
    return made


WORLD: dict[str, tuple[str, Callable[[], Builder]]] = {
    "sample": (REPO, sample),
    "payments": (PAYMENTS, payments),
    "tools": (TOOLS, tools),
    "shop": (SHOP, shop),
    "nothing": (REPO, lambda: Builder(REPO)),
}


def roots(repo: str, records: Records) -> dict[str, bytes]:
    return {name: tree.root for name, tree in Graph(repo, records).maps.items()}


def changed_maps(before: Records, after: Records, repo: str = REPO) -> set[str]:
    old, new = roots(repo, before), roots(repo, after)
    return {name for name in old if old[name] != new[name]}


# Formulas


def test_identities_are_the_formulas_of_the_design() -> None:
    one, two = sha(b"one"), sha(b"two")
    node = NodeId("github.com/acme/shop", "shop/cart", "Cart.add", "method")
    assert node_hash(*node) == sha256(b"node\0github.com/acme/shop\0shop/cart\0Cart.add\0method").digest()
    assert hashing.external_hash("python://a.B") == sha256(b"node\0\0\0python://a.B\0external").digest()
    assert node_hash(*external("python://a.B")) == hashing.external_hash("python://a.B")
    edge = sha256(f"edge\0{one.hex()}\0{two.hex()}\0calls\0ast_resolved".encode()).digest()
    assert hashing.edge_hash(one, two, "calls", "ast_resolved") == edge
    assert Edge(one, two, "calls", "ast_resolved").hash == edge
    assert hashing.relation_hash(one, two, "calls") == sha256(b"relation\0" + one + two + b"calls").digest()
    assert hashing.repo_hash("github.com/acme/shop") == sha256(b"github.com/acme/shop").digest()
    assert hashing.content_hash(b"bytes") == sha256(b"bytes").digest()
    assert hashing.file_hash(one, "src/é.py", two) == sha256(one + "src/é.py".encode() + two).digest()
    assert hashing.snapshot_hash(one) == sha256(b"snapshot\0" + one).digest()


def test_tagged_parts_carry_their_lengths() -> None:
    expected = sha256(b"tag\0" + b"\0\0\0\2ab" + b"\0\0\0\0" + b"\0\0\0\2\xc3\xa9").digest()
    assert hashing.tagged("tag", "ab", b"", "é") == expected
    assert hashing.tagged("tag") == sha256(b"tag\0").digest()


def test_digests_of_sets_are_the_formulas_of_the_design() -> None:
    one, two = sha(b"one"), sha(b"two")
    low, high = sorted((one, two))
    joined = sha256(b"edges\0" + b"\0\0\0\x20" + low + b"\0\0\0\x20" + high).digest()
    assert hashing.relation_digest([one, two]) == hashing.relation_digest([two, one]) == joined
    size = b"\0\0\0\x08" + b"\0\0\0\0\0\0\1\2"
    assert hashing.set_digest(one, 258) == sha256(b"set\0" + b"\0\0\0\x20" + one + size).digest()


def test_keys_and_values_are_the_formulas_of_the_design() -> None:
    one, two = sha(b"one"), sha(b"two")
    assert formulas.map_key("edges") == tagged("map", "edges")
    assert formulas.package_key("a/b") == tagged("package", "a/b")
    assert formulas.edge_type_key("calls") == tagged("type", "calls")
    assert formulas.inbound_key("calls", one) == tagged("inbound", "calls", one)
    assert formulas.names_key("calls", "send") == tagged("name", "calls", "send")
    assert formulas.member_key(one, "send") == tagged("member", one, "send")
    assert formulas.path_key("a.py") == tagged("path", "a.py")
    assert formulas.node_value(NodeId("r", "p", "n", "type")) == tagged("identity", "r", "p", "n", "type")
    assert formulas.alias_value(one, claimed=True) == tagged("alias", one, b"\1")
    assert formulas.alias_value(one, claimed=False) == tagged("alias", one, b"\0")
    assert formulas.coverage_value("binary") == tagged("coverage", "binary")
    assert formulas.file_value(one, two) == tagged("file", one, two)
    assert formulas.facts_value(Facts(stars=("python://a",))) == tagged(
        "facts", b'{"bases":[],"partial":[],"returns":[],"stars":["python://a"],"types":[]}'
    )


def test_levels_are_the_numbers_of_the_protocol() -> None:
    names = (
        "GRAPH PACKAGES EDGE_TYPES RELATIONS INBOUND INBOUND_SET NAMES NAMES_SET NODES ALIASES ALIAS_SET ALIAS_OF "
        "ALIAS_OF_SET MEMBERS MEMBER_SET FACTS FILES ATTRIBUTES COVERAGE ROSTER"
    )
    assert {level.name: level.value for level in Level} == {name: at for at, name in enumerate(names.split(), 1)}


@pytest.mark.parametrize(("repo", "make"), WORLD.values(), ids=WORLD.keys())
def test_every_map_is_the_formula_of_the_design(repo: str, make: Callable[[], Builder]) -> None:
    records = make().records
    assert {name: one.hex() for name, one in roots(repo, records).items()} == {
        name: one.hex() for name, one in maps_by_formula(records).items()
    }


@pytest.mark.parametrize(("repo", "make"), WORLD.values(), ids=WORLD.keys())
def test_graph_root_is_the_map_of_the_maps(repo: str, make: Callable[[], Builder]) -> None:
    records = make().records
    expected = root(1, {tagged("map", name): one for name, one in maps_by_formula(records).items()})
    assert Graph(repo, records).root == expected


def test_graph_has_exactly_its_maps() -> None:
    whole = roots(REPO, Records())
    for wrong in (whole | {"more": bytes(32)}, {name: one for name, one in whole.items() if name != "facts"}):
        with pytest.raises(InvalidNameError):
            formulas.graph_map(wrong)


def test_renamed_members_stand_in_alias_of_and_others_do_not() -> None:
    graph = Graph(REPO, sample().records)
    owner, method = NodeId(REPO, "a/b", "Owner", "type"), NodeId(REPO, "a/b", "Owner.method", "method")
    key = tagged("member", node_hash(*owner), "renamed")
    assert graph.maps["alias_of"].get(node_hash(*method)) == set_of(13, {key: key})
    assert graph.aliases_of(method) == (RenamedMember(owner, "renamed"),)
    assert graph.aliases_of(external("python://lib.make")) == ("python://b.theirs", RenamedMember(owner, "built"))


def test_alias_claimed_once_is_claimed() -> None:
    graph = Graph(REPO, sample().records)
    f = NodeId(REPO, "a/b", "f", "function")
    assert graph.alias("python://both") == (AliasTarget(f, True),)
    assert graph.alias("python://b.f") == (
        AliasTarget(f, True),
        AliasTarget(NodeId(REPO, "a:b", "g", "function"), False),
    )


def test_target_with_candidates_stands_under_each_of_their_last_segments() -> None:
    graph = Graph(REPO, sample().records)
    target = external("python://{one.Kind|two.Other}")
    assert graph.named("extends", "Kind") == graph.named("extends", "Other") == (target,)
    assert graph.named("extends", "both") == ()
    assert graph.named("calls", "both") == (external("python://{one.Kind|two.Other}.both"),)


def test_target_that_ends_in_a_call_or_a_wildcard_stands_under_any_name() -> None:
    graph = Graph(REPO, sample().records)
    assert graph.named("calls", "*") == (external("python://lib.make()"),)
    assert graph.named("imports", "*") == (external("python://lib.*"),)
    assert graph.named("calls", "make") == graph.named("calls", "()") == ()


def test_name_from_outside_that_is_published_anew_stands_under_its_last_segment() -> None:
    made = sample()
    made.alias("python://b.result", "python://lib.make()")
    graph = Graph(REPO, made.records)
    assert graph.named("alias", "make") == (external("python://lib.make"),)
    assert graph.named("alias", "*") == (external("python://lib.make()"),)
    assert graph.named("alias", "f") == graph.named("alias", "theirs") == ()


def test_relation_is_one_however_often_it_was_observed() -> None:
    graph = Graph(REPO, sample().records)
    f, g = NodeId(REPO, "a/b", "f", "function"), NodeId(REPO, "a:b", "g", "function")
    assert graph.relation(f, g, "calls") == ("ast_inferred", "ast_resolved")
    assert graph.inbound("calls", g) == (
        Relation(f, ("ast_inferred", "ast_resolved")),
        Relation(g, ("ast_resolved",)),
    )
    assert graph.relation(g, f, "calls") == ()
    assert graph.inbound("extends", g) == ()


def test_coverage_is_counted_by_reason() -> None:
    counted = coverage_counts({"a": Coverage.VENDORED, "b": Coverage.BINARY, "c": Coverage.VENDORED})
    assert list(counted.items()) == [("binary", 1), ("vendored", 2)]


# What does not change a root, and what changes which


@pytest.mark.parametrize("seed", range(6))
def test_root_does_not_depend_on_order_or_repetition_of_records(seed: int) -> None:
    rng = random.Random(seed)
    records = sample().records
    expected = roots(REPO, records)
    for rows in (records.nodes, records.edges, records.aliases, records.members, records.files):
        doubled: list[object] = [*rows, *rng.sample(rows, len(rows) // 2)]
        rng.shuffle(doubled)
        rows[:] = doubled  # type: ignore[assignment]
    for name in ("facts", "coverage"):
        pairs = list(getattr(records, name).items())
        rng.shuffle(pairs)
        setattr(records, name, dict(pairs))
    records.files = [
        replace(
            file,
            declarations=tuple(rng.sample(file.declarations, len(file.declarations))),
            sites=tuple(rng.sample(file.sites, len(file.sites))),
        )
        for file in records.files
    ]
    assert roots(REPO, records) == expected


def test_returns_and_types_are_sets_and_bases_and_stars_are_not() -> None:
    paths = ("python://b", LocalType("p", "a", "type"), "python://a", LocalType("a", "p", "type"))
    stars = ("python://b", "python://a")
    for one in (Facts(returns=paths), Facts(types=paths)):
        again = Facts(returns=one.returns[::-1] + one.returns[:1], types=one.types[::-1] + one.types[:1])
        assert formulas.facts_value(one) == formulas.facts_value(again)
    assert formulas.facts_value(Facts(bases=paths)) != formulas.facts_value(Facts(bases=paths[::-1]))
    assert formulas.facts_value(Facts(stars=stars)) != formulas.facts_value(Facts(stars=stars[::-1]))
    assert len({formulas.facts_value(Facts(**{name: stars})) for name in Facts._fields}) == 5


def test_facts_are_answered_in_the_order_in_which_they_are_hashed() -> None:
    made = Builder(REPO)
    f = made.node("p", "f")
    written = Facts(returns=("python://b", "python://a", "python://b"), types=("python://d", "python://c"))
    made.facts(f, written)
    assert Graph(REPO, made.records).facts(f) == facts_from_json(facts_to_json(written), "facts")


def test_node_without_facts_is_as_one_that_is_not_mentioned() -> None:
    made = sample()
    before = roots(REPO, made.records)
    made.facts(NodeId(REPO, "a/b", "f", "function"), Facts())
    assert roots(REPO, made.records) == before


def test_comment_changes_only_files() -> None:
    before, after = sample().records, sample().records
    file = after.files[0]
    moved = tuple(one._replace(line=one.line + 1, end_line=one.end_line + 1) for one in file.declarations)
    after.files[0] = replace(file, content=sha(b"# more\ncontent"), declarations=moved)
    assert changed_maps(before, after) == {"files"}


def test_line_doc_signature_and_call_site_change_only_files() -> None:
    file = sample().records.files[0]
    first, *others = file.declarations
    site, *sites = file.sites
    declarations = (
        first._replace(line=7),
        first._replace(end_line=99),
        first._replace(signature="def f(y)"),
        first._replace(doc="Other."),
        first._replace(node=node_hash(REPO, "a:b", "g", "function")),
    )
    places = (
        site._replace(declaration=5),
        site._replace(line=7),
        site._replace(column=7),
        site._replace(arity=7),
        site._replace(edge=sha(b"other")),
    )
    variants = [
        replace(file, path="moved.py"),
        replace(file, content=sha(b"x")),
        *(replace(file, declarations=(one, *others)) for one in declarations),
        *(replace(file, sites=(one, *sites)) for one in places),
        replace(file, declarations=tuple(others)),
        replace(file, sites=tuple(sites)),
    ]
    seen = {roots(REPO, sample().records)["files"]}
    for variant in variants:
        after = sample().records
        after.files[0] = variant
        assert changed_maps(sample().records, after) == {"files"}
        seen.add(roots(REPO, after)["files"])
    assert len(seen) == len(variants) + 1


def test_other_provenance_changes_edges_inbound_and_what_names_say_of_it() -> None:
    before, after = sample().records, sample().records
    after.edges[0] = after.edges[0]._replace(provenance="lsp_resolved")
    assert changed_maps(before, after) == {"edges", "inbound", "names"}


def test_other_source_target_or_type_changes_edges_inbound_and_names() -> None:
    run, f = node_hash(REPO, "", "run", "function"), node_hash(REPO, "a/b", "f", "function")
    edge = sample().records.edges[2]
    for changed in (edge._replace(source=run), edge._replace(target=f), edge._replace(type="throws")):
        before, after = sample().records, sample().records
        after.edges[2] = changed
        assert changed_maps(before, after) == {"edges", "inbound", "names"}


def test_alias_claim_member_fact_node_and_coverage_change_their_own_maps() -> None:
    f = node_hash(REPO, "a/b", "f", "function")

    def with_alias(records: Records) -> None:
        records.aliases.append(Alias("python://new", f, claimed=True))

    def with_re_export(records: Records) -> None:
        records.aliases.append(Alias("python://b.new", external_by_formula("python://lib.make().send"), claimed=True))

    def with_claim(records: Records) -> None:
        records.aliases[1] = records.aliases[1]._replace(claimed=True)

    def with_member(records: Records) -> None:
        records.members.append(Member(f, "f", f))

    def with_renamed_member(records: Records) -> None:
        records.members.append(Member(f, "h", f))

    def with_facts(records: Records) -> None:
        records.facts[f] = Facts(returns=("python://a",))

    def with_node(records: Records) -> None:
        records.nodes.append(NodeId(REPO, "new", "new", "type"))

    def with_coverage(records: Records) -> None:
        records.coverage["logo.png"] = Coverage.IGNORED

    for change, expected in (
        (with_alias, {"aliases", "alias_of"}),
        (with_re_export, {"aliases", "alias_of", "names"}),
        (with_claim, {"aliases"}),
        (with_member, {"members"}),
        (with_renamed_member, {"members", "alias_of"}),
        (with_facts, {"facts"}),
        (with_node, {"nodes"}),
        (with_coverage, {"coverage"}),
    ):
        after = sample().records
        change(after)
        assert changed_maps(sample().records, after) == expected, change.__name__


# Parts never run together


def test_parts_of_a_key_never_run_together() -> None:
    def raw(text: str) -> bytes:
        return text.encode()

    two_parts: list[Callable[[str, str], bytes]] = [
        lambda a, b: hashing.tagged("tag", a, b),
        lambda a, b: formulas.inbound_key(a, raw(b)),
        formulas.names_key,
        lambda a, b: formulas.member_key(raw(a), b),
        lambda a, b: formulas.file_value(raw(a), raw(b)),
        lambda a, b: formulas.node_value(NodeId(a, b, "n", "k")),
        lambda a, b: formulas.node_value(NodeId("r", a, b, "k")),
        lambda a, b: formulas.node_value(NodeId("r", "p", a, b)),
        lambda a, b: node_hash(a, b, "n", "k"),
        lambda a, b: node_hash("r", a, b, "k"),
        lambda a, b: node_hash("r", "p", a, b),
        lambda a, b: hashing.edge_hash(bytes(32), bytes(32), a, b),
        roster_key,
    ]
    for formula in two_parts:
        for first, second in ((("a:b", "c"), ("a", "b:c")), (("ab", "c"), ("a", "bc")), (("", "ab"), ("ab", ""))):
            assert formula(*first) != formula(*second)


def test_tags_and_parts_never_run_together() -> None:
    assert hashing.tagged("a", "b") != hashing.tagged("ab")
    assert hashing.tagged("a", "b", "") != hashing.tagged("a", "b")
    assert hashing.tagged("a", "b", "c") != hashing.tagged("a", "bc")


def test_keys_of_different_maps_are_different() -> None:
    one = sha(b"one")
    found = [
        formulas.map_key("x"),
        formulas.package_key("x"),
        formulas.edge_type_key("x"),
        formulas.path_key("x"),
        formulas.coverage_value("x"),
        formulas.inbound_key("x", one),
        formulas.member_key(b"x", "x"),
        formulas.names_key("x", "x"),
        roster_key("x", "x"),
    ]
    assert len(set(found)) == len(found)


def test_package_and_name_are_bound_in_the_graph_root() -> None:
    found = set()
    for package, name in (("a:b", "c"), ("a", "b:c"), ("a.b", "c"), ("a", "b.c"), ("a/b", "c"), ("", "a/b.c")):
        made = Builder(REPO)
        f = made.node(package, name)
        made.edge(f, f)
        found.add(Graph(REPO, made.records).root)
    assert len(found) == 6


# Refusals


@pytest.mark.parametrize("at", range(4))
def test_nul_in_a_part_of_an_identity_is_refused(at: int) -> None:
    parts = ["r", "p", "n", "k"]
    parts[at] = "a\0b"
    with pytest.raises(InvalidNameError):
        node_hash(*parts)


def test_part_of_an_identity_that_cannot_be_one_is_refused() -> None:
    assert hashing.check_part("é" * 2048, "a name") == "é" * 2048
    for part in ("é" * 2049, "a\0", "\ud800"):
        with pytest.raises(InvalidNameError, match="a name"):
            hashing.check_part(part, "a name")


def refuse(records: Records) -> None:
    with pytest.raises(InvalidNameError):
        Graph(REPO, records)


KNOWN = NodeId(REPO, "p", "f", "function")
DANGLING = sha(b"not among the records")


def test_node_of_another_repository_is_refused() -> None:
    refuse(Records(nodes=[NodeId("github.com/acme/other", "p", "f", "function")]))
    refuse(Records(nodes=[NodeId("", "p", "f", "function")]))


def test_phantom_of_a_repository_or_package_is_refused() -> None:
    refuse(Records(nodes=[NodeId("github.com/acme/other", "", "python://a", "external")]))
    refuse(Records(nodes=[NodeId("", "p", "python://a", "external")]))


def test_edge_from_an_unknown_node_is_refused() -> None:
    refuse(Records(nodes=[KNOWN], edges=[Edge(DANGLING, node_hash(*KNOWN), "calls", "ast_resolved")]))


def test_edge_from_a_phantom_is_refused() -> None:
    phantom = external("python://a.f")
    refuse(
        Records(nodes=[KNOWN, phantom], edges=[Edge(node_hash(*phantom), node_hash(*KNOWN), "calls", "ast_resolved")])
    )


def test_edge_to_an_unknown_node_is_refused() -> None:
    refuse(Records(nodes=[KNOWN], edges=[Edge(node_hash(*KNOWN), DANGLING, "calls", "ast_resolved")]))


def test_edge_to_a_phantom_that_is_no_path_is_refused() -> None:
    phantom = external("not a path")
    edge = Edge(node_hash(*KNOWN), node_hash(*phantom), "calls", "ast_resolved")
    refuse(Records(nodes=[KNOWN, phantom], edges=[edge]))


def alias_of_known(name: str, *, claimed: bool = True) -> Records:
    return Records(nodes=[KNOWN], aliases=[Alias(name, node_hash(*KNOWN), claimed)])


@pytest.mark.parametrize(
    "name", ["python://lib.f()", "python://lib.*", "python://{lib|b}.f", "unresolved://python/f", "lib.f", ""]
)
@pytest.mark.parametrize("claimed", [True, False])
def test_path_through_types_cannot_be_published(name: str, *, claimed: bool) -> None:
    refuse(alias_of_known(name, claimed=claimed))


@pytest.mark.parametrize("name", ["python://json", "python://json.loads", "npm://node:fs", "rust://std", "go://fmt"])
def test_name_of_the_standard_library_cannot_be_claimed(name: str) -> None:
    refuse(alias_of_known(name))


def test_name_of_the_standard_library_may_be_published_unclaimed() -> None:
    graph = Graph(REPO, alias_of_known("python://json", claimed=False))
    assert graph.alias("python://json") == (AliasTarget(KNOWN, False),)


@pytest.mark.parametrize(
    "name", ["python://lib.f", "python://lib.sub.f", "npm://lib#f", "go://acme.dev/lib.F", "rust://l::f"]
)
@pytest.mark.parametrize("claimed", [True, False])
def test_name_without_its_root_cannot_be_published(name: str, *, claimed: bool) -> None:
    refuse(alias_of_known(name, claimed=claimed))


def test_name_of_a_language_whose_roots_are_no_modules_needs_none() -> None:
    for name in ("java://dev.acme.Lib.f", "csharp://Acme.Lib.F"):
        assert Graph(REPO, alias_of_known(name)).alias(name) == (AliasTarget(KNOWN, True),)


def test_unknown_kind_edge_type_or_provenance_is_refused() -> None:
    known = node_hash(*KNOWN)
    refuse(Records(nodes=[KNOWN._replace(kind="class")]))
    refuse(Records(nodes=[KNOWN], edges=[Edge(known, known, "call", "ast_resolved")]))
    refuse(Records(nodes=[KNOWN], edges=[Edge(known, known, "alias", "ast_resolved")]))
    refuse(Records(nodes=[KNOWN], edges=[Edge(known, known, "calls", "guessed")]))


def test_over_long_part_of_a_node_is_refused() -> None:
    refuse(Records(nodes=[KNOWN._replace(name="x" * 4097)]))
    Graph(REPO, Records(nodes=[KNOWN._replace(name="x" * 4096)]))


def test_alias_of_an_unknown_node_is_refused() -> None:
    refuse(Records(nodes=[KNOWN], aliases=[Alias("python://a", DANGLING, claimed=True)]))


def test_member_that_is_an_unknown_node_is_refused() -> None:
    refuse(Records(nodes=[KNOWN], members=[Member(node_hash(*KNOWN), "f", DANGLING)]))


def test_member_of_an_unknown_node_is_refused() -> None:
    refuse(Records(nodes=[KNOWN], members=[Member(DANGLING, "f", node_hash(*KNOWN))]))
    refuse(Records(nodes=[KNOWN], members=[Member(DANGLING, "renamed", node_hash(*KNOWN))]))


def test_facts_of_an_unknown_node_are_refused() -> None:
    refuse(Records(nodes=[KNOWN], facts={DANGLING: Facts(stars=("python://a",))}))
