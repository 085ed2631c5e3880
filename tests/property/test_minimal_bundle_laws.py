"""Laws of honest bundles: whatever the graphs and the question are, what `make_bundle` makes verifies.

A bundle is refused if it shows more than its statement needs, or less. Prover and verifier therefore have to agree on
every question that the decision asks, over graphs of any shape: with overlays, re-exports, star imports, bases in
circles, names of many candidates, several logs and epochs, withdrawn repositories, and scopes that the question hardly
touches.
"""

from __future__ import annotations

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol.claims import CALLERS, NO_NODE, NO_RELATION, NODE, RELATION, Question
from knowing_protocol.errors import RejectedError
from knowing_protocol.hashing import NodeId, external
from knowing_protocol.paths import is_plain, parse_path
from knowing_protocol.prover import LogView, Subject, make_bundle
from knowing_protocol.records import Facts, LocalType, TypeRef
from knowing_protocol.statement import AT_COMMITS, AT_HEAD, AllOf
from knowing_protocol.trust import Pin, TrustedNode, parse_trust, trust_to_json
from knowing_protocol.verify import verify_bundle
from knowing_protocol.vocabulary import USES
from world import Builder, Node

from knowingd import keys

REPOSITORIES = ("github.com/a/one", "github.com/a/two", "github.com/b/three")
ROOTS = ("one", "two", "three", "shared")
NAMES = ("run", "make", "Type", "Base", "value", "__call__", "close")
KINDS = ("function", "type", "method", "var", "file", "package", "interface", "field")
PACKAGES = ("", "one/x", "two/x", "one/y")
TYPES = ("calls", "references", "imports", "extends", "contains")
SOURCE_WAYS = ("ast_resolved", "ast_inferred")
OVERLAY_WAYS = ("runtime_observed", "otel_trace_10", "scip_resolved")


def a_path(random: Random) -> str:
    """A path into one of the repositories, the standard library, or nowhere."""
    draw = random.random()
    if draw < 0.08:
        return f"unresolved://python/{random.choice(NAMES)}"
    if draw < 0.14:
        return random.choice(("python://os.environ.get", "python://builtins.dict().get", "python://tomllib.loads"))
    if draw < 0.2:
        return f"npm://{random.choice(ROOTS)}#{random.choice(NAMES)}"
    if draw < 0.26:
        return f"python://{{{random.choice(ROOTS[:2])}.run|{random.choice(ROOTS[2:])}.make()}}.{random.choice(NAMES)}"
    steps = [random.choice((*NAMES, "()")) for _ in range(random.randrange(4))]
    text = "python://" + random.choice(ROOTS)
    for step in steps:
        text += step if step == "()" else f".{step}"
    return text + random.choice(("", "", "", "", "", ".*"))


def a_name(random: Random) -> str:
    """A plain name that a repository may publish."""
    while not is_plain(parse_path(found := a_path(random))):
        pass
    return found


class Made:
    """The records of a repository by chance, with everything in them that can be asked about."""

    def __init__(self, repo: str, random: Random, nodes: list[NodeId], ways: tuple[str, ...]) -> None:
        self.made = Builder(repo)
        self.random = random
        self.nodes = nodes
        for node in nodes:
            if random.random() < 0.9:
                self.made.node(*node[1:])
        self.local = [node for node in nodes if node in self.made.records.nodes]
        if not self.local:
            return
        for _ in range(random.randrange(10)):
            target = random.choice(self.local) if random.random() < 0.4 else a_path(random)
            self.made.edge(random.choice(self.local), target, random.choice(TYPES), random.choice(ways))
        for _ in range(random.randrange(7)):
            self._publish(a_name(random))
        for _ in range(random.randrange(6)):
            owner, target = random.choice(self.local), random.choice(self.local)
            self.made.member(owner, random.choice(NAMES), target)
        for _ in range(random.randrange(5)):
            self.made.facts(random.choice(self.local), self._facts())

    def _publish(self, name: str) -> None:
        random = self.random
        standard = name.startswith(("python://os", "python://builtins", "python://tomllib", "unresolved"))
        if name.startswith("unresolved"):
            return
        target = random.choice(self.local) if random.random() < 0.6 else a_path(random)
        self.made.alias(name, target, claimed=not standard and random.random() < 0.8)
        root = name.partition("://")[2].split(".")[0].split("#")[0]
        scheme = name.partition("://")[0]
        if f"{scheme}://{root}" != name:
            self.made.alias(f"{scheme}://{root}", random.choice(self.local), claimed=not standard)

    def _facts(self) -> Facts:
        random = self.random

        def some() -> tuple[TypeRef, ...]:
            found: list[TypeRef] = [
                LocalType(*random.choice(self.local)[1:]) if random.random() < 0.5 else a_path(random)
                for _ in range(random.choice((0, 0, 1, 2)))
            ]
            return tuple(dict.fromkeys(found))

        def plain() -> tuple[TypeRef, ...]:
            return tuple(one for one in some() if not (isinstance(one, str) and one.endswith(("*", "get"))))

        stars = tuple(dict.fromkeys(a_name(random) for _ in range(random.choice((0, 0, 1, 2)))))
        partial = tuple(one for one in ("bases", "returns", "types") if random.random() < 0.1)
        return Facts(plain(), plain(), plain(), stars, partial)


class World:
    """One to three nodes, of which one may have two epochs, with their repositories."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.symbols: list[NodeId] = []
        self.logs = [Node("hub", 0)]
        if random.random() < 0.3:
            self.logs.append(Node("hub", 1))
        if random.random() < 0.4:
            self.logs.append(Node("other", 0))
        self.home = {repo: random.choice(self.logs) for repo in REPOSITORIES}
        for number in range(random.randrange(2, 7)):
            self._commit(random.choice(REPOSITORIES), number)

    def _commit(self, repo: str, number: int) -> None:
        random = self.random
        node = self.home[repo]
        draw = random.random()
        if draw < 0.1 and any(one.repository == repo and one.ref == "HEAD" for one in node.headers):
            if next(one for one in reversed(node.headers) if one.repository == repo).source is not None:
                node.withdraw(repo)
            return
        nodes = sorted(
            {
                NodeId(repo, random.choice(PACKAGES), random.choice((*NAMES, "", "Type.run", "Base.close")), kind)
                for kind in random.choices(KINDS, k=random.randrange(9))
            }
        )
        self.symbols += nodes
        source = Made(repo, random, nodes, SOURCE_WAYS).made.records
        overlay = None
        if random.random() < 0.5:
            overlay = Made(repo, random, nodes, OVERLAY_WAYS).made.records
        self.symbols += [one for one in source.nodes if one.kind == "external"]
        ref = "HEAD" if draw < 0.9 else "next"
        node.commit(repo, source, f"{number}" * 40, ref=ref, overlay=overlay)

    def heads(self) -> list[Subject]:
        """The newest snapshots of the logs, without two epochs of one node."""
        logs = {node.name: node for node in self.logs}.values() if self.random.random() < 0.8 else self.logs[:1]
        found = [one for node in logs if node.headers for one in node.subjects(self.view(node))]
        return self._some(found)

    def past(self) -> list[Subject]:
        """Any snapshots, at most one a repository, each under any state of its log that has it."""
        views = {id(node): self.view(node) for node in self.logs if node.headers}
        found: dict[str, Subject] = {}
        for node in self.logs:
            for index in node.graphs:
                if self.random.random() < 0.7:
                    found[node.headers[index].repository] = node.subject(index, views[id(node)])
        return self._some(list(found.values()))

    def _some(self, subjects: list[Subject]) -> list[Subject]:
        return [one for one in subjects if self.random.random() < 0.85]

    def view(self, node: Node) -> LogView:
        size = len(node.headers)
        earlier = [one for one in range(1, size) if self.random.random() < 0.3]
        return node.view(consistent_with=earlier)

    def question(self, subjects: list[Subject]) -> Question:
        random = self.random
        symbol = self._symbol(subjects)
        claim = random.choice((NODE, NO_NODE, RELATION, NO_RELATION, CALLERS, CALLERS, CALLERS))
        if claim in (NODE, NO_NODE):
            return Question(claim, symbol)
        if claim == CALLERS:
            types = random.choice((USES, ("calls",), ("references", "extends"), ("contains",)))
            urls = sorted({one.header.repository for one in subjects})
            by = tuple(one for one in urls if random.random() < 0.5) if random.random() < 0.4 else ()
            return Question(claim, symbol, tuple(sorted(types)), by=by if len(by) < len(urls) else ())
        edge = self._edge(subjects)
        if claim == RELATION and edge is not None:
            source, target, edge_type = edge
            if target.kind == "external" and random.random() < 0.8:
                return Question(claim, symbol if random.random() < 0.7 else target, (edge_type,), source, target.name)
            return Question(claim, target, (edge_type,), source)
        local = [one for one in self.symbols if one.kind != "external"]
        return Question(NO_RELATION, symbol, (random.choice(TYPES),), random.choice(local or [symbol]))

    def _symbol(self, subjects: list[Subject]) -> NodeId:
        random = self.random
        if random.random() < 0.1:
            return external(a_name(random))
        urls = {one.header.repository for one in subjects}
        found = [one for one in self.symbols if one.repo in urls or (not one.repo and is_plain(parse_path(one.name)))]
        return random.choice(found or self.symbols or [external("python://one.run")])

    def _edge(self, subjects: list[Subject]) -> tuple[NodeId, NodeId, str] | None:
        found = []
        for subject in subjects:
            for graph in (subject.source, subject.overlay):
                for source, target, edge_type in getattr(graph, "_provenances", {}):
                    ids = graph._ids  # type: ignore[union-attr]
                    found.append((ids[source], ids[target], edge_type))
        return self.random.choice(found) if found else None


def _trusted(world: World, subjects: list[Subject]) -> list[TrustedNode]:
    """All nodes, with pins of the states that the bundle shows growth from; those of two epochs have none."""
    shown = {(one.log.origin, one.log.epoch): one.log.consistent_with for one in subjects}
    found = {}
    for node in world.logs:
        sizes = shown.get((node.origin, node.epoch), ())
        alone = sum(one.name == node.name for one in world.logs) == 1
        found[node.name] = node.trusted(pins=tuple(_pin(node, size) for size in sizes) if alone else ())
    return list(found.values())


def _pin(node: Node, size: int) -> Pin:
    return Pin(node.epoch, size, node.log.root(size))


def check(seed: int) -> str:
    """One case: what became of it."""
    random = Random(seed)
    world = World(random)
    at = random.choice((AT_HEAD, AT_HEAD, AT_COMMITS))
    all_of = None
    if at == AT_HEAD and random.random() < 0.3:
        node = random.choice([one for one in world.logs if one.headers] or world.logs)
        if not node.headers:
            return "nothing"
        pattern = random.choice(("*", "github.com/a/*"))
        all_of = AllOf(node.origin, node.epoch, "HEAD", pattern)
        view = world.view(node)
        subjects = [
            one
            for one in node.subjects(view)
            if pattern == "*" or one.header.repository.startswith(pattern.removesuffix("*"))
        ]
    else:
        subjects = world.heads() if at == AT_HEAD else world.past()
    if not subjects:
        return "nothing"
    question = world.question(subjects)
    if all_of is not None:
        question = question._replace(by=())
    try:
        bundle = make_bundle(question, subjects, at=at, all_of=all_of)
    except RejectedError as error:
        return error.code
    trust = parse_trust(json.dumps(trust_to_json(_trusted(world, subjects))).encode())
    report = verify_bundle(json.dumps(bundle).encode(), trust, keys.verify)
    assert report.verdict == "verified", (seed, question, at, all_of, report.code, report.reason)
    return f"verified {question.claim}"


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_every_bundle_that_is_made_verifies(seed: int) -> None:
    check(seed)


def test_the_cases_reach_every_claim() -> None:
    found = {check(seed) for seed in range(1000, 1400)}
    assert {f"verified {claim}" for claim in (NODE, NO_NODE, RELATION, NO_RELATION, CALLERS)} <= found
