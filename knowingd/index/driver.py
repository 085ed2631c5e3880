"""Indexes one tree into one store: reads what changed, links what looked at it, and says what that changes.

Summaries depend on one file each and are kept. Linking makes the records of a unit from summaries alone and is
deterministic, so what a unit contributed before an edit is made again from the kept summaries instead of being kept
itself. The result is the same as that of indexing the whole tree: a law that tests hold it to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

import msgpack
from knowing_protocol.hashing import node_hash
from knowing_protocol.records import Declaration, File, Records, Site
from knowing_protocol.vocabulary import Coverage, NodeKind

from knowingd.extract.interface import Language, Linked, Summary, View, changed_keys, united
from knowingd.index import Report, silent
from knowingd.index.languages import extractor_id, language_of, languages
from knowingd.index.linking import link_all
from knowingd.index.workers import summarized
from knowingd.source import Entry, Source
from knowingd.store.codes import EDGE_TYPES, SOURCE
from knowingd.store.compact import compact
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.packing import unpack_ids
from knowingd.store.records import read_records
from knowingd.store.rows import Changes, IndexedFile

T = TypeVar("T")
_EXTRACTOR: Final = "extractor"
_TREE_KEYS: Final = "tree_keys"
_RELINK_ALL: Final = 0.5  # from this share of units on, linking everything is simpler and not slower


@dataclass(slots=True)
class Counts:
    """What indexing did, for people."""

    files: int = 0
    parsed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(slots=True)
class Indexed:
    """What a tree changes in a store, and what to keep for the next time."""

    changes: list[Changes]
    counts: Counts
    keep: Callable[[GraphSession], None]


@dataclass(slots=True)
class _Tree:
    """The tree as it is now, beside what is kept of it."""

    entries: list[Entry]
    kept: dict[str, IndexedFile]
    read: dict[str, tuple[str, str | None, bytes | None]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)

    @property
    def handled(self) -> dict[str, Entry]:
        """What a language reads."""
        return {one.path: one for one in self.entries if one.reason is None and language_of(one.path) is not None}


class StoredView:
    """The summaries of one language's files: fresh ones, and kept ones when they are asked for."""

    def __init__(self, paths: Iterable[str], fresh: dict[str, bytes], kept: Callable[[str], bytes | None]) -> None:
        self._paths = sorted(paths)
        self._fresh = fresh
        self._kept = kept
        self._unpacked: dict[str, Summary] = {}

    def paths(self) -> Iterable[str]:
        """See `View`."""
        return self._paths

    def summary(self, path: str) -> Summary:
        """See `View`."""
        found = self._unpacked.get(path)
        if found is None:
            packed = self._fresh.get(path) or self._kept(path)
            assert packed is not None
            found = self._unpacked[path] = msgpack.unpackb(packed, strict_map_key=False)
        return found


def index(store: GraphStore, source: Source, *, jobs: int = 1, full: bool = False, report: Report = silent) -> Indexed:
    """Read a tree and say what it changes in the store; nothing is written."""
    report("listing", 0, 0)
    entries = source.entries()
    with store.read() as session:
        whole = full or session.index.state(_EXTRACTOR) != extractor_id()
        tree = _Tree(entries, {} if whole else session.index.files())
        _read(tree, source, jobs, report)
        if whole:
            return _everything(session, tree, jobs, report)
        return _what_changed(session, tree, jobs, report)


def _read(tree: _Tree, source: Source, jobs: int, report: Report) -> None:
    """Read and summarize the files that are new or changed."""
    handled = tree.handled
    todo = [
        entry
        for path, entry in handled.items()
        if path not in tree.kept or tree.kept[path].content_id != entry.content_id
    ]
    total = sum(entry.size for entry in todo)
    done = 0

    def contents() -> Iterator[tuple[str, bytes]]:
        nonlocal done
        for entry, content in source.read(todo):
            if entry.reason is not None:
                tree.read[entry.path] = (entry.content_id, entry.reason.value, None)
            else:
                yield entry.path, content
            done += entry.size
            report("reading", done, total)

    for path, summary in summarized(contents(), jobs, len(todo)):
        tree.read[path] = (handled[path].content_id, None, summary)
    tree.counts.files = len(tree.entries)
    tree.counts.parsed = sum(summary is not None for _, _, summary in tree.read.values())


def _present(tree: _Tree) -> list[str]:
    """Paths that have a summary now."""
    return [
        path
        for path in tree.handled
        if (tree.read[path][2] is not None if path in tree.read else tree.kept[path].summarized)
    ]


def _of(language: Language, paths: Iterable[str]) -> list[str]:
    return [path for path in paths if language_of(path) is language]


def _fresh(tree: _Tree) -> dict[str, bytes]:
    return {path: summary for path, (_, _, summary) in tree.read.items() if summary is not None}


def _unit(language: Language, unit: str) -> str:
    return f"{language.name}\0{unit}"


def _everything(session: GraphSession, tree: _Tree, jobs: int, report: Report) -> Indexed:
    """Link the whole tree."""
    if session.last_snapshot() is None:
        return _first(session, tree, jobs, report)
    linked = _link_tree(session.repo, tree, lambda one: one.records, jobs, report)
    new = united(linked.made)
    new.coverage = _coverage(tree, new.coverage, {})
    _count(tree, new.coverage)
    return _indexed(tree, linked, difference(read_records(session, SOURCE), new))


def _first(session: GraphSession, tree: _Tree, jobs: int, report: Report) -> Indexed:
    """Link the whole tree for a database in which there is nothing to compare it with."""
    linked = _link_tree(session.repo, tree, lambda one: compact(one.records, SOURCE, one.hashes), jobs, report)
    told = {path: Coverage(reason) for unit in linked.made for path, reason in unit.coverage.items()}
    coverage = _coverage(tree, told, {})
    _count(tree, coverage)
    units = [unit._replace(coverage={}) for unit in linked.made]
    changes = Changes(SOURCE, Records(), Records(), first=[*units, compact(Records(coverage=coverage), SOURCE)])
    return _indexed(tree, linked, changes)


def _indexed(tree: _Tree, linked: _LinkedTree[T], changes: Changes) -> Indexed:
    """A whole tree, which replaces what was kept of it."""

    def keep(writing: GraphSession) -> None:
        writing.index.clear()
        writing.index.put_state(_EXTRACTOR, extractor_id())
        writing.index.put_state(_TREE_KEYS, msgpack.packb(linked.keys))
        writing.index.put_files(tree.read)
        writing.index.put_visits(linked.visits)

    return Indexed([changes], tree.counts, keep)


class _LinkedTree(NamedTuple, Generic[T]):
    """What the units of a tree contribute, what they looked at, and the keys of the tree."""

    made: list[T]
    visits: dict[str, Collection[str]]
    keys: dict[str, dict[str, bytes]]


def _link_tree(repo: str, tree: _Tree, form: Callable[[Linked], T], jobs: int, report: Report) -> _LinkedTree[T]:
    """Link the whole tree; each unit contributes in the form that is asked for."""
    present, fresh = _present(tree), _fresh(tree)
    linked: _LinkedTree[T] = _LinkedTree([], {}, {})
    for language in languages():
        view = StoredView(_of(language, present), fresh, lambda _: None)
        linked.keys[language.name] = language.tree_keys(view)
        for path in view.paths():
            view.summary(path)  # unpacked once, before processes share them
        part = link_all(language.linker(repo, view), list(language.units(view.paths())), form, jobs, report)
        linked.made.extend(part.made)
        linked.visits.update((_unit(language, unit), keys) for unit, keys in part.visited.items())
    return linked


def _what_changed(session: GraphSession, tree: _Tree, jobs: int, report: Report) -> Indexed:
    """Link the units of changed files and those that looked at what changed in them."""
    present, fresh = _present(tree), _fresh(tree)
    before = [path for path, file in tree.kept.items() if file.summarized]
    handled = tree.handled
    gone = [path for path in tree.kept if path not in handled]
    kept_keys: dict[str, dict[str, bytes]] = msgpack.unpackb(session.index.state(_TREE_KEYS) or b"\x80")
    old_parts: list[Records] = []
    new_parts: list[Records] = []
    visits: dict[str, Collection[str]] = {}
    dropped: list[str] = []
    relinked_paths: set[str] = set()
    tree_keys: dict[str, dict[str, bytes]] = {}
    for language in languages():
        old_view = StoredView(_of(language, before), {}, session.index.summary)
        new_view = StoredView(_of(language, present), fresh, session.index.summary)
        tree_keys[language.name] = language.tree_keys(new_view)
        edited = set(_of(language, (*tree.read, *gone)))
        changed = changed_keys(kept_keys.get(language.name, {}), tree_keys[language.name])
        changed |= _keys_of_edits(language, edited, old_view, new_view)
        old_units, new_units = language.units(old_view.paths()), language.units(new_view.paths())
        todo = {unit for unit in old_units.keys() | new_units.keys() if old_units.get(unit) != new_units.get(unit)}
        todo |= {unit for unit, paths in new_units.items() if not edited.isdisjoint(paths)}
        prefix = _unit(language, "")
        todo |= {name.removeprefix(prefix) for name in session.index.visitors(changed) if name.startswith(prefix)}
        if len(todo) > max(50, len(new_units) * _RELINK_ALL):
            return _again(session, tree, jobs, report)
        old_linker, new_linker = language.linker(session.repo, old_view), language.linker(session.repo, new_view)
        for number, unit in enumerate(sorted(todo)):
            if unit in old_units:
                old_parts.append(old_linker.link(unit).records)
                relinked_paths.update(old_units[unit])
            if unit in new_units:
                linked: Linked = new_linker.link(unit)
                new_parts.append(linked.records)
                visits[_unit(language, unit)] = linked.visited
                relinked_paths.update(new_units[unit])
            else:
                dropped.append(_unit(language, unit))
            report("linking", number + 1, len(todo))
    old, new = united(old_parts), united(new_parts)
    kept_coverage = {path: Coverage(reason) for _, path, reason in session.coverage(SOURCE)}
    still = {path: reason for path, reason in kept_coverage.items() if path not in relinked_paths}
    old.coverage, new.coverage = kept_coverage, _coverage(tree, new.coverage, still)
    changes = difference(old, new)
    _keep_shared_phantoms(session, changes)
    _count(tree, new.coverage)

    def keep(writing: GraphSession) -> None:
        writing.index.put_state(_TREE_KEYS, msgpack.packb(tree_keys))
        writing.index.drop_files(gone)
        writing.index.put_files(tree.read)
        writing.index.put_visits(visits)
        writing.index.drop_units(dropped)

    return Indexed([changes], tree.counts, keep)


def _again(session: GraphSession, tree: _Tree, jobs: int, report: Report) -> Indexed:
    """Nearly everything changed: link the whole tree, from kept summaries where files did not change."""
    handled = tree.handled
    for path, file in tree.kept.items():
        if path in handled and path not in tree.read:
            tree.read[path] = (file.content_id, file.reason, session.index.summary(path))
    return _everything(session, tree, jobs, report)


def _keys_of_edits(language: Language, edited: Iterable[str], old: View, new: View) -> set[str]:
    """The keys that mean something else after the edits."""
    found: set[str] = set()
    before, after = set(old.paths()), set(new.paths())
    for path in edited:
        found |= changed_keys(
            language.keys(path, old.summary(path)) if path in before else {},
            language.keys(path, new.summary(path)) if path in after else {},
        )
    return found


def _coverage(tree: _Tree, told: dict[str, Coverage], still: dict[str, Coverage]) -> dict[str, Coverage]:
    """Why the graph does not speak for files: their kind, their content, or what linking said of them."""
    found: dict[str, Coverage] = {}
    for entry in tree.entries:
        reason: Coverage | None = entry.reason
        if reason is None and language_of(entry.path) is None:
            reason = Coverage.UNSUPPORTED
        if reason is None:
            reason = told.get(entry.path) or still.get(entry.path)
        if reason is None:
            kept = tree.kept.get(entry.path)
            text = tree.read[entry.path][1] if entry.path in tree.read else kept.reason if kept else None
            reason = Coverage(text) if text else None
        if reason is not None:
            found[entry.path] = reason
    return found


def _count(tree: _Tree, coverage: dict[str, Coverage]) -> None:
    reasons = list(coverage.values())
    tree.counts.failed = reasons.count(Coverage.FAILED)
    tree.counts.skipped = sum(reason not in (Coverage.FAILED, Coverage.PARTIAL) for reason in reasons)


def _keep_shared_phantoms(session: GraphSession, changes: Changes) -> None:
    """Names from outside that others still refer to are not removed."""
    going = {node_hash(*node) for node in changes.removed.nodes if node.kind == NodeKind.EXTERNAL}
    ids = {number: key for key in going if (number := session.node_id(key)) is not None}
    leaving: dict[tuple[str, bytes], set[bytes]] = defaultdict(set)
    for edge in changes.removed.edges:
        leaving[edge.type, edge.target].add(edge.source)
    used: set[bytes] = set()
    for row in session.caches.inbound(SOURCE, ids):
        key = ids[row.target]
        if row.sources is None:
            used.add(key)
            continue
        for code in unpack_ids(row.sources):
            if session.node(code >> 4).hash not in leaving[EDGE_TYPES[row.type], key]:
                used.add(key)
                break
    named = {(alias.name, alias.target) for alias in changes.removed.aliases}
    for alias in session.aliases_of(SOURCE, ids):
        if (alias.name, ids[alias.target]) not in named:
            used.add(ids[alias.target])
    owned = {(member.owner, member.name, member.target) for member in changes.removed.members}
    for member in session.members_to(SOURCE, ids):
        if (session.node(member.owner).hash, member.name, ids[member.target]) not in owned:
            used.add(ids[member.target])
    changes.removed.nodes[:] = [
        node for node in changes.removed.nodes if node.kind != NodeKind.EXTERNAL or node_hash(*node) not in used
    ]


def _sorted(file: File) -> tuple[bytes, list[Declaration], list[Site]]:
    """A file as it compares: the order of what is in it says nothing."""
    return file.content, sorted(set(file.declarations)), sorted(file.sites)


def difference(old: Records, new: Records) -> Changes:
    """What turns one set of records into another; a file whose edges changed counts as changed."""

    def minus(a: Records, b: Records) -> Records:
        edges, nodes = set(b.edges), set(b.nodes)
        files = {file.path: _sorted(file) for file in b.files}
        return Records(
            nodes=[node for node in dict.fromkeys(a.nodes) if node not in nodes],
            edges=[edge for edge in a.edges if edge not in edges],
            aliases=sorted(set(a.aliases) - set(b.aliases)),
            members=sorted(set(a.members) - set(b.members)),
            facts={key: facts for key, facts in a.facts.items() if b.facts.get(key) != facts},
            files=[file for file in a.files if _sorted(file) != files.get(file.path)],
            coverage={path: reason for path, reason in a.coverage.items() if b.coverage.get(path) != reason},
        )

    return Changes(SOURCE, minus(new, old), minus(old, new), new.edges)
