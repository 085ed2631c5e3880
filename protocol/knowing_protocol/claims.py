"""What can be claimed of graphs, and the one function that decides it.

`decide` takes a question and the graphs in scope and gives the answer, or refuses with the reason why the claim does
not hold. A prover runs it over graphs that record what was asked of them; a verifier runs it over graphs that know
only what a bundle proves. They cannot disagree about the rule, because there is one.

"Nobody uses X" is sound only if every reference that could be X is looked at: X's own inbound key; its names, closed
over all repositories in scope; and the complete set of targets that end like one of those names. Each of them is X,
provably another symbol, or not excluded, and then it is listed with the symbols that refer to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from knowing_protocol.errors import InvalidNameError, RejectedError
from knowing_protocol.graph import REPUBLISHED, ROOTED, GraphReader, Relation, RenamedMember, target_segments
from knowing_protocol.hashing import NodeId, external
from knowing_protocol.paths import ANY_NAME, WILDCARD, Path, alternatives, is_plain, parse_path, plain_prefixes
from knowing_protocol.standard_library import in_standard_library
from knowing_protocol.vocabulary import NodeKind
from knowing_protocol.walk import TOO_FAR, UNPUBLISHED, WILDCARD_IMPORT, Outcome, walk

NODE, NO_NODE, RELATION, NO_RELATION, CALLERS = "node", "no-node", "relation", "no-relation", "callers"
CLAIMS: Final = (NODE, NO_NODE, RELATION, NO_RELATION, CALLERS)

MAX_SEGMENTS: Final = 32
"""With more last segments than this, a wildcard import is not expanded but listed."""
_CONSTRUCTORS: Final = frozenset(("__init__", "__new__", "constructor", "<init>"))
_IMPLICIT: Final = re.compile(r"__\w+__", re.ASCII)  # methods that operators and statements call without naming them


class Question(NamedTuple):
    """What is asked, apart from where: the symbol; for relations also the source, and the path that leads to it.

    `by` are the repositories whose uses are meant, where not those of the whole scope are: the others then only say
    what names the symbol has.
    """

    claim: str
    symbol: NodeId
    types: tuple[str, ...] = ()
    source: NodeId | None = None
    via: str | None = None
    by: tuple[str, ...] = ()


class Caller(NamedTuple):
    """A symbol that uses the one asked about; `via` is the name it uses where that leaves its repository."""

    repository: str
    package: str
    name: str
    kind: str
    type: str
    via: str | None
    provenances: tuple[str, ...]
    ambiguous: bool


class Source(NamedTuple):
    """A symbol that refers to an undecided target, and how that was observed."""

    package: str
    name: str
    kind: str
    provenances: tuple[str, ...]


class Undecided(NamedTuple):
    """A target that may be the symbol asked about, why that is not known, and who refers to it."""

    repository: str
    type: str
    target: str
    reason: str
    sources: tuple[Source, ...]


class Answer(NamedTuple):
    """What `decide` found."""

    names: tuple[str, ...] = ()
    provenances: tuple[str, ...] = ()
    ambiguous: bool = False
    callers: tuple[Caller, ...] = ()
    undecided: tuple[Undecided, ...] = ()


def decide(question: Question, graphs: Sequence[GraphReader]) -> Answer:
    """The answer to a question over the graphs in scope, one for each repository; refuses what does not hold."""
    _check_shape(question)
    if question.claim in (NODE, NO_NODE):
        return _decide_node(question, graphs)
    if question.claim == RELATION:
        return _decide_relation(question, graphs)
    if question.claim == NO_RELATION:
        return _decide_no_relation(question, graphs)
    return _decide_callers(question, graphs)


def _check_shape(question: Question) -> None:
    """That a question has the parts that its claim needs, and no others."""
    about_relation = question.claim in (RELATION, NO_RELATION)
    if (
        (question.source is not None) != about_relation
        or (question.via is not None and question.claim != RELATION)
        or (about_relation and len(question.types) != 1)
        or (question.claim in (NODE, NO_NODE) and question.types)
        or (question.claim == CALLERS and not question.types)
        or (question.by and question.claim != CALLERS)
    ):
        raise RejectedError("malformed-question", "the statement has parts that its claim does not, or lacks some")


def _graph_of(node: NodeId, graphs: Sequence[GraphReader], what: str) -> GraphReader:
    for graph in graphs:
        if graph.repo == node.repo:
            return graph
    raise RejectedError("not-in-scope", f"the repository of the {what} is not in the scope of the statement")


def _decide_node(question: Question, graphs: Sequence[GraphReader]) -> Answer:
    if question.symbol.kind == NodeKind.EXTERNAL and len(graphs) == 1:
        graph = graphs[0]
    else:
        graph = _graph_of(question.symbol, graphs, "node")
    present = graph.has_node(question.symbol)
    if present and question.claim == NO_NODE:
        raise RejectedError("node-present", "the node is in the graph")
    if not present and question.claim == NODE:
        raise RejectedError("node-absent", "the node is not in the graph")
    return Answer()


def _decide_relation(question: Question, graphs: Sequence[GraphReader]) -> Answer:
    source, symbol, edge_type = _source_symbol_type(question)
    graph = _graph_of(source, graphs, "source")
    target = symbol if question.via is None else external(question.via)
    provenances = graph.relation(source, target, edge_type)
    if not provenances:
        raise RejectedError("relation-absent", "the relation is not in the graph")
    if question.via is None:
        return Answer(provenances=provenances)
    outcome = walk(question.via, graphs)
    if symbol not in outcome.definitions and symbol.name not in _names_if_external(symbol, outcome):
        raise RejectedError("via-elsewhere", "the name that the source uses does not lead to the target")
    ambiguous = bool(outcome.open or outcome.definitions - {symbol})
    return Answer(provenances=provenances, ambiguous=ambiguous)


def _names_if_external(symbol: NodeId, outcome: Outcome) -> set[str]:
    return outcome.names if symbol.kind == NodeKind.EXTERNAL else set()


def _decide_no_relation(question: Question, graphs: Sequence[GraphReader]) -> Answer:
    source, symbol, edge_type = _source_symbol_type(question)
    graph = _graph_of(source, graphs, "source")
    if not graph.has_node(source):
        raise RejectedError("source-absent", "the source is not in the graph, so that its absence says nothing")
    subject = _Subject(symbol, graphs)
    same, open_targets = subject.targets_in(graph, edge_type)
    for target in sorted({*same, *subject.own_targets(graph)}):
        forward = graph.relation(source, target, edge_type)
        if forward != graph.inbound_relation(source, target, edge_type):
            raise RejectedError("forward-inbound-disagree", "the forward and the inbound map disagree on a relation")
        if forward:
            raise RejectedError("relation-present", "the relation is in the graph")
    undecided = [
        Undecided(graph.repo, edge_type, target.name, reason, (Source(*source[1:], provenances),))
        for target, reason in open_targets.items()
        if (provenances := graph.relation(source, target, edge_type))
    ]
    return Answer(names=tuple(sorted(subject.names)), undecided=tuple(sorted(undecided)))


def _source_symbol_type(question: Question) -> tuple[NodeId, NodeId, str]:
    assert question.source is not None
    return question.source, question.symbol, question.types[0]


def _decide_callers(question: Question, graphs: Sequence[GraphReader]) -> Answer:
    subject = _Subject(question.symbol, graphs)
    callers: list[Caller] = []
    undecided: list[Undecided] = []
    for graph in graphs:
        if question.by and graph.repo not in question.by:
            continue
        for edge_type in question.types:
            same, open_targets = subject.targets_in(graph, edge_type)
            for target in subject.own_targets(graph):
                if target not in same and graph.inbound(edge_type, target):
                    raise RejectedError("inbound-names-disagree", "a target with callers is missing in its names set")
            for target, ambiguous in same.items():
                via = target.name if target.kind == NodeKind.EXTERNAL else None
                callers += (
                    Caller(graph.repo, *source[1:], edge_type, via, provenances, ambiguous)
                    for source, provenances in graph.inbound(edge_type, target)
                )
            undecided += (
                Undecided(graph.repo, edge_type, target.name, reason, _sources(graph.inbound(edge_type, target)))
                for target, reason in open_targets.items()
            )
    return Answer(
        names=tuple(sorted(subject.names)),
        callers=tuple(sorted(callers, key=_caller_order)),
        undecided=tuple(sorted(undecided)),
    )


def _caller_order(caller: Caller) -> tuple[str, ...]:
    return (*caller[:5], caller.via or "")


def _sources(relations: Iterable[Relation]) -> tuple[Source, ...]:
    return tuple(Source(*source[1:], provenances) for source, provenances in relations)


Relations: TypeAlias = dict[tuple[str, NodeId], tuple[Relation, ...]]


def stated_relations(question: Question, answer: Answer) -> dict[str, Relations]:
    """What an answer says of who refers to what, by repository: the records that its completeness is checked with."""
    found: dict[str, dict[tuple[str, NodeId], list[Relation]]] = {}
    for caller in answer.callers:
        target = question.symbol if caller.via is None else external(caller.via)
        rows = found.setdefault(caller.repository, {}).setdefault((caller.type, target), [])
        rows.append(Relation(NodeId(*caller[:4]), caller.provenances))
    for one in answer.undecided:
        rows = found.setdefault(one.repository, {}).setdefault((one.type, external(one.target)), [])
        rows += (Relation(NodeId(one.repository, *source[:3]), source.provenances) for source in one.sources)
    return {repository: {key: tuple(rows) for key, rows in targets.items()} for repository, targets in found.items()}


class _Subject:
    """The symbol asked about, with every name that leads to it over the graphs in scope."""

    def __init__(self, symbol: NodeId, graphs: Sequence[GraphReader]) -> None:
        self.symbol = symbol
        self.graphs = graphs
        self.names: set[str] = set()
        self.segments = set(target_segments(symbol))
        if symbol.kind == NodeKind.EXTERNAL:
            self._check_outside(symbol.name)
            self.names.add(symbol.name)
        elif not _graph_of(symbol, graphs, "symbol").has_node(symbol):
            raise RejectedError("subject-absent", "its repository does not define the symbol asked about")
        self.standard = symbol.kind == NodeKind.EXTERNAL and in_standard_library(parse_path(symbol.name))
        self._close()
        if self.segments & _CONSTRUCTORS:
            raise RejectedError("subject-implicit", "a constructor is called through its type: ask about the type")
        if symbol.kind == NodeKind.METHOD and any(map(_IMPLICIT.fullmatch, self.segments)):
            raise RejectedError(
                "subject-implicit", "the method is called without being named, so callers are not known"
            )

    def _check_outside(self, name: str) -> None:
        """That a name from outside is a plain name which no repository in scope defines, or should define."""
        path = parse_path(name)
        if not is_plain(path):
            raise RejectedError("subject-not-a-name", "the symbol asked about is a path through types, not a name")
        outcome = walk(path, self.graphs)
        if outcome.definitions or outcome.names != {name}:
            raise RejectedError("subject-is-alias", "the name leads to a symbol in scope: ask about that symbol")
        if outcome.open - {UNPUBLISHED}:
            raise RejectedError("subject-undefined", "a repository in scope should define the name and does not")
        # Walks do not look up what the standard library has; that nobody else defines it is said, and so looked at.
        if outcome.standard and any(graph.alias(name) for graph in self.graphs):
            raise RejectedError("subject-published", "a repository in scope publishes a name of the standard library")

    def _close(self) -> None:
        """Every name of the symbol, of its names, and so on, in all graphs.

        A name may be published anew by a path that leads to the symbol without being one of its names (through a star
        import, a type, a module's other name). Such paths end like the symbol or one of its names, and each is
        classified: what leads here lends its names, what may lead here lends their last segments.
        """
        waiting = [self.symbol]
        looked_at: set[str] = set()
        while waiting:
            while waiting:
                target = waiting.pop()
                for name in self._names_of(target):
                    if isinstance(name, RenamedMember):
                        self.segments.add(name.name)
                    elif name not in self.names:
                        self.segments |= target_segments(external(name))
                        if not in_standard_library(parse_path(name)):  # that name is not its own, but may be meant
                            self.names.add(name)
                            waiting.append(external(name))
            for segment in sorted({*self.segments, ANY_NAME} - looked_at):
                looked_at.add(segment)
                for graph in self.graphs:
                    for target in graph.named(REPUBLISHED, segment):
                        self._republish(target, waiting)
            if not waiting and self.segments - looked_at:
                waiting = [self.symbol]

    def _names_of(self, target: NodeId) -> list[str | RenamedMember]:
        """All names that lead to a target; one from outside has some only where it is published anew."""
        outside = target.kind == NodeKind.EXTERNAL
        segments = sorted(target_segments(target))
        return [
            name
            for graph in self.graphs
            if not outside or any(target in graph.named(REPUBLISHED, segment) for segment in segments)
            for name in graph.aliases_of(target)
        ]

    def _republish(self, target: NodeId, waiting: list[NodeId]) -> None:
        if target.name in self.names:
            return
        same: dict[NodeId, bool] = {}
        undecided: dict[NodeId, str] = {}
        self._classify(target, same, undecided)
        if target in same:
            self.names.add(target.name)
            waiting.append(target)
        elif target in undecided:
            for name in self._names_of(target):
                last = {name.name} if isinstance(name, RenamedMember) else target_segments(external(name))
                self.segments |= last

    def own_targets(self, graph: GraphReader) -> list[NodeId]:
        """The targets that are the symbol by identity: its node at home, its names everywhere."""
        own = [external(name) for name in sorted(self.names)]
        return [self.symbol, *own] if self.symbol.repo == graph.repo else own

    def targets_in(self, graph: GraphReader, edge_type: str) -> tuple[dict[NodeId, bool], dict[NodeId, str]]:
        """All targets of a graph that are the symbol (ambiguous or not), and all that may be (with the reason)."""
        same: dict[NodeId, bool] = {}
        undecided: dict[NodeId, str] = {}
        for segment in sorted({*self.segments, ANY_NAME}):
            for target in graph.named(edge_type, segment):
                self._classify(target, same, undecided)
        return same, undecided

    def _classify(self, target: NodeId, same: dict[NodeId, bool], undecided: dict[NodeId, str]) -> None:
        if target.kind != NodeKind.EXTERNAL:
            if target == self.symbol:
                same[target] = False
            return
        path = parse_path(target.name)
        outcome = self._outcome(path)
        others = outcome.definitions - {self.symbol}
        if self.symbol in outcome.definitions or outcome.names & self.names:
            doubts = outcome.open - {UNPUBLISHED} if target.name in self.names else outcome.open
            same[target] = bool(others or doubts or len(path.heads) > 1)
        elif outcome.open:
            undecided[target] = TOO_FAR if TOO_FAR in outcome.open else min(outcome.open)
        elif outcome.standard and (self.standard or self._home_publishes(outcome.names)):
            undecided[target] = "the standard library may know it under both names"

    def _home_publishes(self, names: set[str]) -> bool:
        """Whether the symbol's own repository publishes a part of a standard library name, as backports do."""
        parts: set[str] = set()
        for path in (one for name in names for one in alternatives(parse_path(name)) if in_standard_library(one)):
            prefixes = [prefix for prefix, _ in plain_prefixes(path)]
            parts.update(prefixes[-1:] if path.scheme in ROOTED else prefixes)
        home = [graph for graph in self.graphs if graph.repo == self.symbol.repo]
        return any(graph.alias(part) for graph in home for part in sorted(parts))

    def _outcome(self, path: Path) -> Outcome:
        """Where a path leads; a wildcard leads wherever one of the symbol's last segments does."""
        if not path.steps or path.steps[-1] is not WILDCARD:
            return walk(path, self.graphs)
        together = Outcome()
        if len(self.segments) > MAX_SEGMENTS:  # more names than it pays to try one by one
            together.open.add(WILDCARD_IMPORT)
            return together
        for segment in sorted(self.segments):
            try:
                together.take(walk(Path(path.scheme, path.heads, (*path.steps[:-1], segment)), self.graphs))
            except InvalidNameError:  # no name of the symbol can follow this path
                together.open.add(WILDCARD_IMPORT)
        return together
