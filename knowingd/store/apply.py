"""Writes what a snapshot changes: added and removed records become rows, and the maps learn what was touched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.graph import file_attributes, member_key, path_key
from knowing_protocol.hashing import NodeId, edge_hash, external_hash, node_hash
from knowing_protocol.records import (
    MAX_ARITY,
    Alias,
    Edge,
    Facts,
    File,
    Member,
    Records,
    canonical_facts,
    facts_from_json,
    facts_to_json,
)
from knowing_protocol.vocabulary import Coverage

from knowingd.store.codes import EDGE_TYPE_CODES, KIND_CODES, PROVENANCE_CODES
from knowingd.store.compact import EDGE_CODES, check_layer
from knowingd.store.packing import PlainSite, pack_ids, pack_sites, unpack_ids
from knowingd.store.rows import MAX_NODES, Changes, NodeRow, Touched, edge_of, signed_slot, slot_of
from knowingd.store.session import Session, facts_text, insert, split_alias, tail_of, to_json


class Applier:
    """Applies changes to one database, in a transaction that somebody else began."""

    def __init__(
        self, session: Session, now: int, sequence: int, touched: tuple[Touched, Touched], *, with_events: bool
    ) -> None:
        self.session = session
        self.now = now
        self.sequence = sequence
        self.with_events = with_events
        self.touched = touched
        self._packages = {name: key for key, name in session.packages().items()}
        self._prefixes: dict[str, int] = dict(session.execute("SELECT text, id FROM alias_prefixes").fetchall())
        self._ids: dict[bytes, int] = {}
        self._names: dict[int, str] = {}
        self._events: list[tuple[int, int, str, int, str]] = []
        self._next_texts: dict[str, int] = {}

    def apply(self, changes: Changes) -> None:
        """Removals first, so that a record which moved is there afterwards."""
        self._remove(changes)
        self._add(changes)
        insert(self.session, "INSERT INTO events", self._events)
        self._events = []

    def _stale(self, *nodes: int) -> None:
        """The search rows of nodes are to be made again."""
        for touched in self.touched:
            if touched.searchable is not None:
                touched.searchable.update(nodes)

    # Ids

    def _id(self, key: bytes) -> int:
        found = self._ids.get(key)
        if found is None:
            found = self.session.node_id(key)
            if found is None:
                raise InvalidNameError(f"the node {key.hex()[:16]} is referred to and not in the graph")
            self._ids[key] = found
        return found

    def _next_id(self, table: str) -> int:
        (found,) = self.session.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()
        number: int = found
        return number

    def _text_id(self, table: str, known: dict[str, int], text: str) -> int:
        found = known.get(text)
        if found is None:
            found = known[text] = self._next_texts.get(table) or self._next_id(table)
            self._next_texts[table] = found + 1
            self.session.execute(f"INSERT INTO {table} VALUES (?, ?)", (found, text))
        return found

    def _name(self, node: int) -> str:
        return self._names.get(node) or self.session.node(node).node.name

    # Adding

    def _add(self, changes: Changes) -> None:
        layer, added = changes.layer, changes.added
        self._add_nodes(layer, added.nodes)
        self._add_edges(layer, added)
        self._add_aliases(layer, added.aliases)
        self._add_members(layer, added.members)
        self._add_facts(layer, added.facts)
        self._add_files(layer, added, changes)
        self._add_coverage(layer, added.coverage)

    def _add_nodes(self, layer: int, nodes: Sequence[NodeId]) -> None:
        """Insert nodes, or bring back those that were there before."""
        next_id = self._next_id("nodes")
        rows: list[tuple[Any, ...]] = []
        again: list[tuple[int, int]] = []
        touched, ids, names = self.touched[layer], self._ids, self._names
        for node in sorted(set(nodes)):
            key = node_hash(*node)
            known = self.session.node_id(key, deleted=True)
            if known is not None:
                ids[key] = known
                again.append((1 << layer, known))
            else:
                package = self._text_id("packages", self._packages, node.package)
                rows.append((next_id, signed_slot(key), package, node.name, KIND_CODES[node.kind], 1 << layer, None))
                ids[key] = known = next_id
                names[known] = node.name
                self.session.remember({known: NodeRow(known, key, node)})
                next_id += 1
            self._stale(known)
            touched.note("nodes", slot_of(key), known)
            self._event(1, "node", layer, [known])
        if next_id > MAX_NODES:
            raise InvalidNameError(f"a repository of more than {MAX_NODES:,} symbols cannot be kept")
        insert(self.session, "INSERT INTO nodes", rows)
        self.session.executemany("UPDATE nodes SET layers = layers | ?, deleted_at = NULL WHERE id = ?", again)

    def _add_edges(self, layer: int, added: Records) -> None:
        numbers = self._edge_numbers(added, layer)
        insert(self.session, "INSERT OR IGNORE INTO edges (id)", zip(numbers, strict=True))
        self._touch_edges(layer, numbers, added=1)

    def _edge_numbers(self, records: Records, layer: int) -> list[int]:
        """Edges as they are kept, in order, once each."""
        check_layer(records.edges, layer)
        return sorted(
            {
                self._id(source) << 34 | self._id(target) << 4 | EDGE_CODES[edge_type, how]
                for source, target, edge_type, how in records.edges
            }
        )

    def _touch_edges(self, layer: int, numbers: Sequence[int], *, added: int) -> None:
        self.touched[layer].relations.update(edge_of(number)[:3] for number in numbers)
        if self.with_events:
            rows = ((self.sequence, added, *edge_of(number)) for number in numbers)
            insert(self.session, "INSERT INTO edge_events", rows)

    def _add_aliases(self, layer: int, aliases: Iterable[Alias]) -> None:
        touched = self.touched[layer]
        next_id = self._next_id("aliases")
        rows = []
        for name, key, claimed in aliases:
            target = self._id(key)
            self._drop_alias(layer, name, target)
            touched.note("aliases", slot_of(external_hash(name)), next_id)
            touched.note("alias_of", slot_of(key), target)
            touched.named.add(target)
            self._event(1, "alias", layer, [name, target, int(claimed)])
            prefix, tail = split_alias(name, self._name(target))
            prefix_id = self._text_id("alias_prefixes", self._prefixes, prefix)
            rows.append((next_id, layer, prefix_id, tail, target, int(claimed)))
            next_id += 1
        insert(self.session, "INSERT INTO aliases", rows)

    def _drop_alias(self, layer: int, name: str, target: int) -> None:
        for row in list(self.session.aliases_of(layer, [target])):
            if row.name == name:
                self.session.execute("DELETE FROM aliases WHERE id = ?", (row.id,))
                self._event(0, "alias", layer, [name, target, int(row.claimed)])
                self.touched[layer].note("aliases", slot_of(external_hash(name)), row.id)

    def _add_members(self, layer: int, members: Iterable[Member]) -> None:
        touched = self.touched[layer]
        next_id = self._next_id("members")
        rows = []
        for owner_key, name, key in members:
            owner, target = self._id(owner_key), self._id(key)
            self._drop_member(layer, owner, name, target)
            touched.note("members", slot_of(member_key(owner_key, name)), next_id)
            touched.note("alias_of", slot_of(key), target)
            touched.named.add(target)
            self._event(1, "member", layer, [owner, name, target])
            rows.append((next_id, layer, owner, None if tail_of(self._name(target)) == name else name, target))
            next_id += 1
        insert(self.session, "INSERT INTO members", rows)

    def _drop_member(self, layer: int, owner: int, name: str, target: int) -> None:
        for row in list(self.session.members_of(layer, [owner])):
            if (row.name, row.target) == (name, target):
                self.session.execute("DELETE FROM members WHERE id = ?", (row.id,))
                self._event(0, "member", layer, [owner, name, target])
                slot = slot_of(member_key(self.session.node(owner).hash, name))
                self.touched[layer].note("members", slot, row.id)

    def _add_facts(self, layer: int, facts: dict[bytes, Facts]) -> None:
        rows = []
        for key, found in facts.items():
            node = self._id(key)
            for _, old in list(self.session.facts(layer, [node])):
                self._event(0, "facts", layer, [node, _facts_text(facts_from_json(old, "facts"))])
            rows.append((layer, node, _facts_text(found)))
            self.touched[layer].note("facts", slot_of(key), node)
            self._event(1, "facts", layer, [node, rows[-1][2]])
        insert(self.session, "INSERT OR REPLACE INTO facts", sorted(rows))

    def _add_files(self, layer: int, added: Records, changes: Changes) -> None:
        with_sites = any(file.sites for file in added.files)
        named = (added.edges, changes.known) if with_sites else ()
        edges = {edge_hash(*edge): edge for part in named for edge in part}
        next_id = self._next_id("files")
        declarations: list[tuple[Any, ...]] = []
        sites: list[tuple[int, int, bytes]] = []
        for file in added.files:
            old = self.session.file_named(layer, file.path)
            if old is not None:
                self._drop_file_rows(old.id)
                self._event(0, "file", layer, [old.path, old.content.hex(), old.attributes.hex()])
            file_id = old.id if old is not None else next_id
            next_id += old is None
            ordinals: dict[int, int] = defaultdict(int)
            for key, *rest in sorted(set(file.declarations)):
                node = self._id(key)
                declarations.append((node, file_id, ordinals[node], *rest))
                ordinals[node] += 1
            self._stale(*ordinals)
            packed = self._sites(file, edges)
            sites += ((source, file_id, pack_sites(found)) for source, found in packed.items())
            root = changes.attributes.get(file.path) or file_attributes(file).root
            self.session.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)",
                (file_id, layer, file.path, file.content, root, pack_ids(ordinals.keys()), pack_ids(packed.keys())),
            )
            self.touched[layer].note("files", slot_of(path_key(file.path)), file_id)
            self._event(1, "file", layer, [file.path, file.content.hex(), root.hex()])
        insert(self.session, "INSERT INTO declarations", sorted(declarations))
        insert(self.session, "INSERT INTO sites", sorted(sites))

    def _add_coverage(self, layer: int, coverage: dict[str, Coverage]) -> None:
        rows = []
        for row_id, (path, reason) in enumerate(coverage.items(), self._next_id("coverage")):
            self._drop_coverage(layer, path)
            self.touched[layer].note("coverage", slot_of(path_key(path)), row_id)
            self._event(1, "coverage", layer, [path, reason.value])
            rows.append((row_id, layer, path, reason.value))
        insert(self.session, "INSERT INTO coverage", rows)

    def _sites(self, file: File, edges: dict[bytes, Edge]) -> dict[int, list[PlainSite]]:
        """The call sites of a file by their source."""
        packed: dict[int, list[PlainSite]] = defaultdict(list)
        ids = self._ids
        for key, declaration, line, column, arity in file.sites:
            edge = edges.get(key)
            if edge is None or not -1 <= arity <= MAX_ARITY:
                raise InvalidNameError(f"{file.path} has a call site of an edge that is not given with it")
            source, target, edge_type, how = edge
            if source not in ids or target not in ids:
                self._id(source), self._id(target)
            packed[ids[source]].append(
                (ids[target], EDGE_TYPE_CODES[edge_type], PROVENANCE_CODES[how], declaration, line, column, arity)
            )
        return packed

    def _drop_file_rows(self, file_id: int) -> None:
        declared = {row.node for row in self.session.declarations_in(file_id)}
        self._stale(*declared)
        self.session.executemany(
            "DELETE FROM declarations WHERE node = ? AND file = ?", ((node, file_id) for node in declared)
        )
        sources = unpack_ids(self.session.sources_in(file_id))
        self.session.executemany(
            "DELETE FROM sites WHERE source = ? AND file = ?", ((source, file_id) for source in sources)
        )

    # Removing

    def _remove(self, changes: Changes) -> None:
        layer, removed = changes.layer, changes.removed
        touched, execute = self.touched[layer], self.session.execute
        numbers = self._edge_numbers(removed, layer)
        self.session.executemany("DELETE FROM edges WHERE id = ?", zip(numbers, strict=True))
        self._touch_edges(layer, numbers, added=0)
        for alias in removed.aliases:
            target = self._id(alias.target)
            self._drop_alias(layer, alias.name, target)
            touched.note("alias_of", slot_of(alias.target), target)
            touched.named.add(target)
        for member in removed.members:
            owner, target = self._id(member.owner), self._id(member.target)
            self._drop_member(layer, owner, member.name, target)
            touched.note("alias_of", slot_of(member.target), target)
            touched.named.add(target)
        for key, facts in removed.facts.items():
            execute("DELETE FROM facts WHERE layer = ? AND node = ?", (layer, self._id(key)))
            touched.note("facts", slot_of(key), self._id(key))
            self._event(0, "facts", layer, [self._id(key), _facts_text(facts)])
        for path in removed.coverage:
            self._drop_coverage(layer, path)
        for file in removed.files:
            row = self.session.file_named(layer, file.path)
            if row is not None:
                self._drop_file_rows(row.id)
                execute("DELETE FROM files WHERE id = ?", (row.id,))
                touched.note("files", slot_of(path_key(file.path)), row.id)
                self._event(0, "file", layer, [file.path, row.content.hex(), row.attributes.hex()])
        self._remove_nodes(layer, removed.nodes)

    def _drop_coverage(self, layer: int, path: str) -> None:
        row = self.session.execute(
            "DELETE FROM coverage WHERE layer = ? AND path = ? RETURNING id, reason", (layer, path)
        ).fetchone()
        if row is not None:
            self.touched[layer].note("coverage", slot_of(path_key(path)), row[0])
            self._event(0, "coverage", layer, [path, row[1]])

    def _remove_nodes(self, layer: int, nodes: Iterable[NodeId]) -> None:
        """Nodes stay as rows, marked, because events refer to them; gc takes them away later."""
        for node in set(nodes):
            key = node_hash(*node)
            node_id = self._id(key)
            self.session.execute("UPDATE nodes SET layers = layers & ~? WHERE id = ?", (1 << layer, node_id))
            self.session.execute("UPDATE nodes SET deleted_at = ? WHERE id = ? AND layers = 0", (self.now, node_id))
            self._ids.pop(key, None)
            self._stale(node_id)
            self.touched[layer].note("nodes", slot_of(key), node_id)
            self._event(0, "node", layer, [node_id])

    def _event(self, added: int, kind: str, layer: int, body: list[Any]) -> None:
        if self.with_events:
            self._events.append((self.sequence, added, kind, layer, to_json(body)))


def _facts_text(facts: Facts) -> str:
    return facts_text(facts_to_json(canonical_facts(facts)))
