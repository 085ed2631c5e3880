"""Who uses a symbol, in any repository: decided by the same rule that proofs are made and checked with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowing_protocol.claims import CALLERS, Answer, Caller, Question, Undecided, decide
from knowing_protocol.errors import RejectedError
from knowing_protocol.graph import target_segments
from knowing_protocol.hashing import NodeId, external
from knowing_protocol.paths import ANY_NAME
from knowing_protocol.vocabulary import CONFIDENCE, USES, EdgeType, Provenance

from knowingd.errors import NotFoundError
from knowingd.query.asking import Asking
from knowingd.query.scope import Repository, Scope
from knowingd.store.codes import EDGE_TYPE_CODES
from knowingd.store.packing import unpack_sites
from knowingd.store.rows import DeclarationRow

_CONSTRUCTORS = ("__init__", "__new__", "constructor", "<init>")


class Place(NamedTuple):
    """Where an edge is seen."""

    file: str
    line: int
    col: int


class Use(NamedTuple):
    """A symbol that uses another one, and everywhere it does."""

    repo: str
    commit: str
    symbol: NodeId
    type: str
    provenance: str
    confidence: float
    depth: int
    via: str | None
    ambiguous: bool
    places: tuple[Place, ...]


class Callers(NamedTuple):
    """The answer: who uses a symbol, and what could not be told."""

    symbol: NodeId
    uses: tuple[Use, ...]
    unresolved: tuple[Use, ...]
    ambiguous: int
    repositories: int


def callers(symbol: NodeId, scope: Scope, types: Sequence[str], depth: int = 1) -> Callers:
    """Everything that uses a symbol; with depth, also what uses those."""
    subject = _subject(symbol, scope)
    asking = Asking(scope.graphs)
    answer = _decide(subject, scope, asking, types)
    found, undecided = _seen(answer, subject, scope, 1)
    seen = {subject, *(use.symbol for use in found)}
    level = found
    for step in range(2, depth + 1):
        following: list[Use] = []
        for one in {use.symbol for use in level}:
            try:
                further = _decide(_subject(one, scope), scope, asking, types)
            except (RejectedError, NotFoundError):
                continue
            further = further._replace(undecided=())
            following += (use for use in _seen(further, one, scope, step)[0] if use.symbol not in seen)
        seen.update(use.symbol for use in following)
        found += following
        level = following
    wanted = [use for use in found if scope.wanted(use.repo)]
    unresolved = [use for use in undecided if scope.wanted(use.repo)]
    return Callers(
        subject,
        tuple(sorted(wanted, key=lambda use: (use.depth, use.repo, use.places[:1], use.symbol, use.type))),
        tuple(unresolved),
        sum(use.ambiguous for use in wanted),
        sum(scope.wanted(one.url) for one in scope.repositories),
    )


def _subject(symbol: NodeId, scope: Scope) -> NodeId:
    """A constructor is used through its type."""
    owner, _, last = symbol.name.rpartition(".")
    if last in _CONSTRUCTORS and owner and symbol.repo:
        for kind in ("type", "interface"):
            found = NodeId(symbol.repo, symbol.package, owner, kind)
            if scope.repository(symbol.repo).graph.has_node(found):
                return found
    return symbol


def _decide(symbol: NodeId, scope: Scope, asking: Asking, types: Sequence[str]) -> Answer:
    try:
        return decide(Question(CALLERS, symbol, tuple(types)), asking.about(symbol))
    except RejectedError as error:
        if error.code == "subject-implicit":
            return _named_only(symbol, scope, types)
        raise NotFoundError(error.message, code=error.code) from error


def _named_only(symbol: NodeId, scope: Scope, types: Sequence[str]) -> Answer:
    """Of a method that operators and statements call without naming it, the edges that the graphs have."""
    graph = scope.repository(symbol.repo).graph
    found = [
        Caller(symbol.repo, *relation.source[1:], edge_type, None, relation.provenances, ambiguous=False)
        for edge_type in types
        for relation in graph.inbound(edge_type, symbol)
    ]
    return Answer(callers=tuple(found))


def _seen(answer: Answer, symbol: NodeId, scope: Scope, depth: int) -> tuple[list[Use], list[Use]]:
    """The uses that an answer tells of, and the undecided ones: repository by repository, so that each is read once."""
    callers: dict[str, list[Caller]] = defaultdict(list)
    undecided: dict[str, list[Undecided]] = defaultdict(list)
    for caller in answer.callers:
        callers[caller.repository].append(caller)
    for one in answer.undecided:
        undecided[one.repository].append(one)
    uses: list[Use] = []
    open_uses: list[Use] = []
    for url in sorted(callers.keys() | undecided.keys()):
        repository = scope.repository(url)
        uses += _uses(callers[url], symbol, repository, depth)
        open_uses += _undecided(undecided[url], repository)
    return _together(uses), open_uses


def _uses(callers: Sequence[Caller], symbol: NodeId, repository: Repository, depth: int) -> Iterator[Use]:
    for one in callers:
        source = NodeId(one.repository, one.package, one.name, one.kind)
        target = symbol if one.via is None else external(one.via)
        yield _use(repository, source, target, one.type, one.provenances, depth, one.via, one.ambiguous)


def _undecided(undecided: Sequence[Undecided], repository: Repository) -> Iterator[Use]:
    """References by the symbol's own name that could not be decided.

    A proof also lists what may have any name (the result of a call that is called); for people that is noise.
    """
    for one in undecided:
        target = external(one.target)
        if ANY_NAME in target_segments(target):
            continue
        for package, name, kind, provenances in one.sources:
            source = NodeId(one.repository, package, name, kind)
            yield _use(repository, source, target, one.type, provenances, 1, one.target, ambiguous=True)


def _use(
    repository: Repository,
    source: NodeId,
    target: NodeId,
    edge_type: str,
    provenances: Sequence[str],
    depth: int,
    via: str | None,
    ambiguous: bool,
) -> Use:
    best = max(provenances, key=lambda one: CONFIDENCE[Provenance(one)])
    confidence = CONFIDENCE[Provenance(best)]
    places = places_of(repository, source, target, edge_type)
    commit = repository.snapshot.commit
    return Use(source.repo, commit, source, edge_type, best, confidence, depth, via, ambiguous, places)


def _together(uses: Sequence[Use]) -> list[Use]:
    """One row a calling symbol and edge type, whatever names it uses."""
    groups: dict[tuple[NodeId, str], list[Use]] = defaultdict(list)
    for use in uses:
        groups[use.symbol, use.type].append(use)
    found = []
    for same in groups.values():
        best = max(same, key=lambda use: (use.confidence, use.via is None))
        places = tuple(sorted({place for use in same for place in use.places}))
        ambiguous = all(use.ambiguous for use in same)
        found.append(best._replace(places=places, ambiguous=ambiguous))
    return found


def places_of(repository: Repository, source: NodeId, target: NodeId, edge_type: str) -> tuple[Place, ...]:
    """Every place where an edge is seen, or where its source is declared if it has none of its own."""
    graph = repository.graph
    first, second = graph.id_of(source), graph.id_of(target)
    if first is None or second is None:
        return ()
    with graph.reading() as session:
        declarations = session.declarations_of(first)
        sites = session.sites(first)
        paths = {row.id: row.path for row in session.files(graph.layer, {file for file, _ in sites})}
    starts = _starts(declarations)
    found = []
    for file, packed in sites:
        path = paths.get(file)
        if path is None:
            continue
        for site in unpack_sites(packed):
            if site.target == second and site.type == EDGE_TYPE_CODES[edge_type]:
                lines = starts.get(path, [])
                base = lines[site.declaration] if site.declaration < len(lines) else 0
                found.append(Place(path, base + site.line, site.column))
    if not found:
        found = [Place(path, row.line, 0) for path, row in declarations[:1]]
    return tuple(sorted(set(found)))


def _starts(declarations: Sequence[tuple[str, DeclarationRow]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for path, row in declarations:
        found[path].append(row.line)
    return {path: sorted(lines) for path, lines in found.items()}


def edge_types(text: str) -> tuple[str, ...]:
    """What `--type` means: one edge type, or `uses` for several together."""
    return tuple(one.value for one in USES) if text == "uses" else (EdgeType(text).value,)
