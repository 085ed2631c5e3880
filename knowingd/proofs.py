"""Makes bundles from what this node has: its own repositories and replicas, under the logs of their origins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from knowing_protocol.bundle import MAX_CONSISTENCY
from knowing_protocol.claims import CALLERS, NO_RELATION, RELATION, Answer, Question, decide
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.errors import RejectedError
from knowing_protocol.graph import Level
from knowing_protocol.hashing import NodeId
from knowing_protocol.history import DEFAULT_REF, Header, header_from_json, roster_key
from knowing_protocol.note import parse_checkpoint, parse_note
from knowing_protocol.paths import parse_path, plain_prefixes
from knowing_protocol.prover import LogView, Subject, make_bundle
from knowing_protocol.section import EMPTY_GRAPH_ROOT
from knowing_protocol.statement import AT_COMMITS, AT_HEAD, AllOf
from knowing_protocol.trust import Pin, Trust, TrustedNode
from knowing_protocol.urls import matches
from knowing_protocol.vocabulary import NodeKind
from knowing_protocol.walk import walk

from knowingd.errors import KnowingError, NotFoundError, UsageError
from knowingd.node import Node, one_origin
from knowingd.prove.graphs import LayerGraph, ProvableGraph
from knowingd.query.answers import one_symbol
from knowingd.query.scope import Repository, Scope
from knowingd.query.symbols import refuse_bytes
from knowingd.resolve.graph import StoredGraph
from knowingd.resolve.sessions import MovedError
from knowingd.snapshot.past import go_back
from knowingd.snapshot.snapshots import paused_collection
from knowingd.store.codes import EDGE_TYPE_CODES, OVERLAY
from knowingd.store.nodestore import RosterRow
from knowingd.store.originlog import OriginLog
from knowingd.store.originstore import OriginStore
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import SnapshotRow

MIN_COMMIT = 4
EXPORTED: Final = "exported_pins"
"""The setting that remembers which states of the log stand in trust files: epoch and size."""
MAX_EXPORTED: Final = 16


class HasCallersError(KnowingError):
    """What should be absent is there."""

    code = "callers-found"

    def __init__(self, symbol: NodeId, answer: Answer) -> None:
        number = len({caller[:4] for caller in answer.callers})
        super().__init__(
            f"{symbol.name} has {number} caller{'s' * (number != 1)} in scope",
            hint="`knowing callers` shows them with their places",
        )
        self.answer = answer


class HasRelationError(KnowingError):
    """What should be absent is there."""

    code = "relation-found"

    def __init__(self, source: NodeId, target: NodeId, edge_type: str) -> None:
        super().__init__(
            f"not so: there is a relation {edge_type!r} from {source.name} to {target.name}",
            hint="`knowing prove` proves it",
        )


class Made(NamedTuple):
    """A bundle, and what it is about."""

    bundle: dict[str, Any]
    repositories: int
    own: bool
    """Whether this node alone signed what it is about."""


class _State(NamedTuple):
    log: LogView
    has_head: bool


class Proofs:
    """What this node can prove."""

    def __init__(self, node: Node, trust: Trust | None = None) -> None:
        """`trust` is that of whoever will check the bundles: they show that the logs have grown from its pins."""
        self.node = node
        self.trust = trust
        self.origins = OriginStore(node.store.database)
        self._log: LogView | None = None

    # Claims

    def relation(
        self, source: str, target: str, edge_type: str, pattern: str | None = None, at: str | None = None
    ) -> Made:
        """That a symbol uses another one."""

        def ask(scope: Scope) -> Made:
            first, second = one_symbol(source, scope), one_symbol(target, scope)
            _refuse_outside(first)
            question = _relation_question(scope, first, second, edge_type)
            ends = [one for one in scope.repositories if one.url in (first.repo, second.repo)]
            for needed in (ends, _on_the_way(scope, question)):
                with suppress(RejectedError):  # a further repository has a say in it
                    return self._make(question, needed)
            return self._make(question, self._chosen(scope, pattern))

        return self._ask(ask, at)

    def no_relation(
        self, source: str, target: str, edge_type: str, pattern: str | None = None, at: str | None = None
    ) -> Made:
        """That a symbol does not use another one."""

        def ask(scope: Scope) -> Made:
            first, second = one_symbol(source, scope), one_symbol(target, scope)
            _refuse_outside(first)
            chosen = self._chosen(scope, pattern, second.repo)
            if first.repo not in {one.url for one in chosen}:
                raise UsageError(f"{first.repo} is not in the scope", hint="choose a --repo that matches it")
            question = Question(NO_RELATION, second, (edge_type,), first)
            try:
                return self._make(question, chosen)
            except RejectedError as error:
                if error.code == "relation-present":
                    raise HasRelationError(first, second, edge_type) from error
                raise

        return self._ask(ask, at)

    def callers(
        self,
        symbol: str,
        types: Sequence[str],
        pattern: str | None = None,
        *,
        absent: bool = False,
        complete: bool = False,
        at: str | None = None,
    ) -> Made:
        """Everybody who uses a symbol, provably all of them; with `absent`, that nobody does.

        With a pattern, the uses in those repositories are meant; that of the symbol is there for its names alone.
        With `complete` the statement also says that these are all repositories of this node.
        """

        def ask(scope: Scope) -> Made:
            found = one_symbol(symbol, scope)
            chosen = self._chosen(scope, pattern, found.repo)
            all_of = None
            if complete:
                chosen, all_of = self._all_of(chosen, pattern, found.repo)
            users = [one.url for one in chosen if pattern is None or _is_meant(pattern, one.url)]
            by = () if len(users) == len(chosen) else tuple(sorted(users))
            question = Question(CALLERS, found, tuple(types), by=by)
            if absent:
                answer = decide(question, [one.graph for one in chosen])
                if answer.callers:
                    raise HasCallersError(found, answer)
            return self._make(question, chosen, all_of)

        return self._ask(ask, at)

    def _ask(self, question: Callable[[Scope], Made], at: str | None) -> Made:
        """Ask over the heads, or over earlier states that are made again for the time of the question."""

        def asked(scope: Scope) -> Made:
            with ExitStack() as stack:
                return question(scope if at is None else self._at(scope, at, stack))

        with paused_collection():
            return self.node.ask(asked)

    def _at(self, scope: Scope, at: str, stack: ExitStack) -> Scope:
        """The scope with every repository that has such a commit at that commit, and the others at their heads."""
        found: list[Repository] = []
        named = 0
        for one in scope.repositories:
            row = self._rows[one.url]
            with one.graph.reading() as session:
                rows = [snapshot for snapshot in session.snapshots() if snapshot.log_index is not None]
            commit = self._commit(row, at)
            matching = [snapshot for snapshot in rows if commit and snapshot.commit.startswith(commit)]
            if not matching:
                found.append(one)
                continue
            named += 1
            newest = matching[-1]
            found.append(one if newest.sequence == rows[-1].sequence else self._earlier(row, newest, stack))
        if not named:
            raise NotFoundError(f"no repository has a snapshot of {at!r}", hint="`knowing log REPO` shows them")
        return Scope(tuple(found), scope.pattern)

    def _commit(self, row: RosterRow, at: str) -> str:
        """The commit that a text means in a repository: a ref or tag of its source, or the beginning of a commit."""
        refuse_bytes(at)
        from knowingd.source import open_source  # noqa: PLC0415 - only for whoever goes back

        if row.local and row.path is not None:
            try:
                with open_source(Path(row.path), at) as source:
                    return source.commit
            except KnowingError:
                pass
        return at if len(at) >= MIN_COMMIT else ""

    def _earlier(self, row: RosterRow, snapshot: SnapshotRow, stack: ExitStack) -> Repository:
        from tempfile import TemporaryDirectory  # noqa: PLC0415 - only for whoever goes back

        directory = Path(stack.enter_context(TemporaryDirectory(prefix="knowing-")))
        target = directory / "past.db"
        with self.node.lend(row) as store:
            store.copy_to(target)
        copy = RepositoryStore(target, row.url, row.ref, row.origin, create=False)
        stack.callback(copy.close)
        go_back(copy, snapshot)
        session = stack.enter_context(copy.read())
        return Repository(StoredGraph(session), snapshot)

    def _chosen(self, scope: Scope, pattern: str | None, home: str = "") -> list[Repository]:
        """The repositories of a statement; that of the symbol is one of them: it says what the symbol is called."""
        found = [one for one in scope.repositories if pattern is None or _is_meant(pattern, one.url)]
        if not found:
            raise NotFoundError(
                "no repository is in scope" if pattern is None else f"no repository matches {pattern!r}",
                hint="`knowing list` shows what there is",
            )
        urls = {home, *(one.url for one in found)}
        return [one for one in scope.repositories if one.url in urls]

    def _all_of(self, chosen: list[Repository], pattern: str | None, home: str) -> tuple[list[Repository], AllOf]:
        """Those of the repositories that this node signs, with the pattern that the roster is held against."""
        rows = self._rows
        own = [one for one in chosen if rows[one.url].origin == self.node.keys.origin]
        if not own:
            raise UsageError(
                "this node has no repositories of its own, so that it cannot say what all of them are",
                hint="ask the node that indexed them, or leave --all out",
            )
        if home not in ("", *(one.url for one in own)):
            raise UsageError(f"{home}, which defines the symbol, is of another node", hint="leave --all out")
        whole = "*"
        if pattern is not None:
            whole = pattern if all(matches(pattern, one.url) for one in own) else f"*/{pattern}"
            if not all(matches(whole, one.url) for one in own):
                raise UsageError(
                    f"no one pattern like {pattern!r} matches the repositories and {home}, which defines the symbol",
                    hint="choose a --repo that matches it too",
                )
        return own, AllOf(self.node.keys.origin, self.node.store.epoch, DEFAULT_REF, whole)

    # From a question to a bundle

    @property
    def _rows(self) -> dict[str, RosterRow]:
        rows = one_origin([row for row in self.node.store.roster() if row.ref == DEFAULT_REF])
        return {row.url: row for row in rows}

    def _make(self, question: Question, repositories: Sequence[Repository], all_of: AllOf | None = None) -> Made:
        rows, epoch = self._rows, self.node.store.epoch
        states: dict[tuple[bytes, int], _State] = {}
        subjects = []
        for one in repositories:
            row = rows[one.url]
            place = (row.origin, one.snapshot.epoch)
            if place not in states:
                states[place] = self._state(*place)
            subjects.append(_subject(states[place].log, self._header(row, one, epoch), one))
        heads = self.node.store.heads()
        at_head = all(state.has_head for state in states.values()) and all(
            heads.get((subject.header.repository, subject.header.ref), (None,))[0] == subject.header.index
            for subject in subjects
        )
        if all_of is not None and not at_head:
            raise UsageError("only the repositories of this node itself, at their heads, are provably all of them")
        bundle = make_bundle(question, subjects, at=AT_HEAD if at_head else AT_COMMITS, all_of=all_of)
        own = {origin for origin, _ in states} == {self.node.keys.origin}
        return Made(bundle, len(subjects), own)

    def _header(self, row: RosterRow, one: Repository, epoch: int) -> Header:
        index = one.snapshot.log_index
        assert index is not None  # a scope has finished snapshots only
        if row.origin == self.node.keys.origin:
            if one.snapshot.epoch != epoch:
                raise UsageError(
                    f"this state of {row.url} is of an epoch of the log that has ended, and no head is known of it",
                    hint="`knowing index` takes a snapshot in the new one",
                )
            return self.node.store.header(index)
        entry = self.origins.entry(row.origin, one.snapshot.epoch, index)
        if entry is None:
            raise NotFoundError(f"the header of {row.url} is not here", hint="`knowing sync` fetches it")
        return header_from_json(json.loads(entry.header), "the header")

    def _state(self, origin: bytes, epoch: int) -> _State:
        if origin == self.node.keys.origin:
            return _State(self._own_log(), has_head=True)
        pin = self.origins.pin(origin, epoch)
        first = self.origins.first_key(origin)
        if pin is None or first is None:
            raise NotFoundError(f"the log of {origin.hex()[:16]} is not here", hint="`knowing sync` fetches it")
        log = OriginLog(self.node.store.database, origin, epoch)
        notes = self.origins.key_notes(origin)
        earlier = self._known_sizes(origin, epoch, pin.size)
        view = LogView(
            origin,
            epoch,
            pin.size,
            pin.note,
            first,
            log,
            _NO_HEADER,
            MerkleMap(Level.ROSTER),
            key_notes=notes,
            consistent_with=earlier,
        )
        return _State(view, has_head=False)

    def _known_sizes(self, origin: bytes, epoch: int, size: int) -> list[int]:
        """Earlier states of a log that whoever checks a bundle may know of: of trust files, given or once exported."""
        pins: list[tuple[int, int]] = []
        if self.trust is not None and origin in self.trust.nodes:
            pins = [(pin.epoch, pin.size) for pin in self.trust.nodes[origin].pins]
        if origin == self.node.keys.origin:
            pins += json.loads(self.node.store.setting(EXPORTED, "[]"))
        return sorted({known for at, known in pins if at == epoch and 0 < known < size})[-MAX_CONSISTENCY:]

    def _own_log(self) -> LogView:
        """The newest state of this node's own log, with its roster."""
        nodes = self.node.store
        note = nodes.checkpoint()
        if not note:
            raise NotFoundError("this node has signed nothing yet", hint="`knowing index` takes a snapshot")
        notes = nodes.key_notes()
        if self._log is not None and (self._log.note, self._log.key_notes) == (note, notes):
            return self._log  # nothing was signed since the last question
        size = parse_checkpoint(parse_note(note).text).size
        rows = [(url, ref, digest) for (url, ref), (_, digest) in nodes.heads().items()]
        roster = MerkleMap.of(Level.ROSTER, {roster_key(url, ref): digest for url, ref, digest in rows})
        head = nodes.header(size - 1)
        if roster.root != head.roster:
            raise MovedError(next(iter(self.node.store.roster())))  # somebody appended between two looks
        self._log = LogView(
            self.node.keys.origin,
            nodes.epoch,
            size,
            note,
            self.node.keys.first_key,
            nodes.log_reader(),
            head,
            roster,
            rows,
            notes,
            self._known_sizes(self.node.keys.origin, nodes.epoch, size),
        )
        return self._log

    def trusted(self, name: str, patterns: Sequence[str], *, pinned: bool = True) -> TrustedNode:
        """The node as a trust file names it, with the state of its log unless told otherwise.

        That state is remembered: bundles that are made later show that the log has grown from it.
        """
        nodes = self.node.store
        size, root = nodes.log_state()
        pins = (Pin(nodes.epoch, size, root),) if size and pinned else ()
        if pins:
            known = json.loads(nodes.setting(EXPORTED, "[]"))
            if [nodes.epoch, size] not in known:
                nodes.set_setting(EXPORTED, json.dumps([*known, [nodes.epoch, size]][-MAX_EXPORTED:]))
        urls = tuple(patterns) or tuple(
            sorted({row.url for row in nodes.roster() if row.origin == self.node.keys.origin})
        )
        return TrustedNode(name, self.node.keys.first_key, ("index", "roster"), urls, tuple(nodes.key_notes()), pins)


def _refuse_outside(source: NodeId) -> None:
    if source.kind == NodeKind.EXTERNAL:
        raise UsageError(
            f"{source.name} is of no repository here, so that nobody knows what it uses",
            hint="give a symbol of a registered repository as SOURCE",
        )


def _subject(log: LogView, header: Header, one: Repository) -> Subject:
    assert header.source is not None
    assert header.overlay is not None
    overlay = None
    if header.overlay != EMPTY_GRAPH_ROOT:
        overlay = ProvableGraph(LayerGraph(one.url, one.graph.reading, OVERLAY), header.overlay)
    return Subject(log, header, ProvableGraph(one.graph, header.source), overlay)


def _is_meant(pattern: str, url: str) -> bool:
    """Whether a pattern matches a URL, or the end of one."""
    return matches(pattern, url) or matches(f"*/{pattern}", url)


def _on_the_way(scope: Scope, question: Question) -> list[Repository]:
    """The repositories that publish something of the names that lead from a relation's source to its target."""
    if question.via is None:
        return []
    names = walk(parse_path(question.via), scope.graphs).names
    passed = {prefix for name in names for prefix, _ in plain_prefixes(parse_path(name))}
    ends = {question.symbol.repo, question.source.repo if question.source else ""}
    return [one for one in scope.repositories if one.url in ends or any(map(one.graph.alias, passed))]


def _relation_question(scope: Scope, source: NodeId, target: NodeId, edge_type: str) -> Question:
    """The relation as it stands in the graph: to the symbol itself, or to a name that leads to it."""
    graph = scope.repository(source.repo).graph
    if graph.relation(source, target, edge_type):
        return Question(RELATION, target, (edge_type,), source)
    number = graph.id_of(source)
    with graph.reading() as session:
        edges = [edge for edge in session.edges_from(number or 0) if edge.type == EDGE_TYPE_CODES[edge_type]]
        names = [node.name for node in session.identities({edge.target for edge in edges}).values()
                 if node.kind == NodeKind.EXTERNAL and not node.name.startswith("unresolved://")]  # fmt: skip
    for name in sorted(names):
        if target in walk(parse_path(name), scope.graphs).definitions:
            return Question(RELATION, target, (edge_type,), source, name)
    raise NotFoundError(
        f"no relation {edge_type!r} from {source.name} to {target.name} was seen",
        hint="`knowing callees` shows what there is",
    )


_NO_HEADER = Header(0, "", "", "", 0, "", None, None, None, 0, 0, {}, bytes(32), 0, "", bytes(32))
