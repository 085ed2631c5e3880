"""Writes what a snapshot changes: added and removed records become rows, and the rest learns what was touched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.graph import file_attributes, member_key, path_key, target_segments
from knowing_protocol.hashing import NodeId, external_hash, node_hash
from knowing_protocol.records import Records, canonical_facts, facts_to_json

from knowingd.store.codes import EDGE_TYPE_CODES, KIND_CODES, LAYER_OF_PROVENANCE, PROVENANCE_CODES
from knowingd.store.session import EdgeRow, Session, slot_of
from knowingd.store.sites import PackedSite, pack


@dataclass(slots=True)
class Touched:
    """What one graph's maps must look at again, by id or slot."""

    branches: set[tuple[int, int]] = field(default_factory=set)  # package id, edge type
    targets: set[tuple[int, int]] = field(default_factory=set)  # edge type, target id
    named: set[int] = field(default_factory=set)  # targets of aliases and members
    slots: dict[str, set[int]] = field(default_factory=dict)  # map to slots

    def slot(self, name: str, slot: int) -> None:
        """Note a slot of a map."""
        self.slots.setdefault(name, set()).add(slot)


@dataclass(frozen=True, slots=True)
class Changes:
    """What to add to and to remove from one graph of a repository."""

    layer: int
    added: Records
    removed: Records


class Applier:
    """Applies changes to one database, in a transaction that somebody else began."""

    def __init__(self, session: Session, now: int, sequence: int, *, with_events: bool) -> None:
        self.session = session
        self.now = now
        self.sequence = sequence
        self.with_events = with_events
        self.touched = (Touched(), Touched())
        self._packages = {name: key for key, name in session.packages().items()}
        self._segments: dict[str, int] = dict(session.execute("SELECT text, id FROM segments").fetchall())
        self._ids: dict[bytes, int] = {}
        self._package_of: dict[int, int] = {}  # node id to package id
        self._new_segments: list[tuple[int, str]] = []

    def apply(self, changes: Changes) -> None:
        """Removals first, so that a record which moved is there afterwards."""
        self._remove(changes)
        self._add(changes)

    # Ids

    def _id(self, key: bytes) -> int:
        found = self._ids.get(key)
        if found is None:
            found = self.session.node_id(key)
            if found is None:
                raise InvalidNameError(f"the node {key.hex()[:16]} is referred to and not in the graph")
            self._ids[key] = found
        return found

    def _package(self, name: str) -> int:
        found = self._packages.get(name)
        if found is None:
            found = self._packages[name] = len(self._packages) + 1
            self.session.execute("INSERT INTO packages VALUES (?, ?)", (found, name))
        return found

    def _segment(self, text: str) -> int:
        found = self._segments.get(text)
        if found is None:
            found = self._segments[text] = len(self._segments) + 1
            self._new_segments.append((found, text))
        return found

    # Adding

    def _add(self, changes: Changes) -> None:
        layer, added = changes.layer, changes.added
        self._add_nodes(layer, added.nodes)
        self._add_edges(layer, added)
        touched, execute = self.touched[layer], self.session.execute
        for alias in added.aliases:
            slot = slot_of(external_hash(alias.name))
            row = (layer, slot, alias.name, self._id(alias.target), int(alias.claimed))
            execute("INSERT OR REPLACE INTO aliases VALUES (?, ?, ?, ?, ?)", row)
            touched.slot("aliases", slot)
            touched.slot("alias_of", slot_of(alias.target))
            touched.named.add(row[3])
            self._event(1, "alias", layer, [alias.name, row[3], row[4]])
        for member in added.members:
            slot = slot_of(member_key(member.owner, member.name))
            owned = (layer, slot, self._id(member.owner), member.name, self._id(member.target))
            execute("INSERT OR IGNORE INTO members VALUES (?, ?, ?, ?, ?)", owned)
            touched.slot("members", slot)
            touched.slot("alias_of", slot_of(member.target))
            touched.named.add(owned[4])
            self._event(1, "member", layer, list(owned[2:]))
        for key, facts in added.facts.items():
            text = canonical_json(facts_to_json(canonical_facts(facts))).decode()
            execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (layer, self._id(key), text))
            touched.slot("facts", slot_of(key))
            self._event(1, "facts", layer, [self._id(key), text])
        for path, reason in added.coverage.items():
            slot = slot_of(path_key(path))
            execute("INSERT OR REPLACE INTO coverage VALUES (?, ?, ?, ?)", (layer, slot, path, reason.value))
            touched.slot("coverage", slot)
            self._event(1, "coverage", layer, [path, reason.value])
        self._add_files(layer, added)

    def _add_nodes(self, layer: int, nodes: Sequence[NodeId]) -> None:
        """Insert nodes, or bring back those that were there before; ids are given in order of slots."""
        (next_id,) = self.session.execute("SELECT coalesce(max(id), 0) + 1 FROM nodes").fetchone()
        fresh: list[tuple[Any, ...]] = []
        segments: list[tuple[int, int]] = []
        touched = self.touched[layer]
        known = next_id > 1
        for key, node in sorted((node_hash(*node), node) for node in set(nodes)):
            slot = slot_of(key)
            touched.slot("nodes", slot)
            row = (
                self.session.execute("SELECT id FROM nodes WHERE slot = ? AND node_hash = ?", (slot, key)).fetchone()
                if known
                else None
            )
            if row is not None:
                self._ids[key] = row[0]
                self.session.execute(
                    "UPDATE nodes SET layers = layers | ?, deleted_at = NULL WHERE id = ?", (1 << layer, row[0])
                )
            else:
                package = self._package_of[next_id] = self._package(node.package)
                fresh.append((next_id, slot, key, package, node.name, KIND_CODES[node.kind], 1 << layer))
                segments += ((self._segment(text), next_id) for text in target_segments(node))
                self._ids[key] = next_id
                next_id += 1
            self._event(1, "node", layer, [self._ids[key]])
        _insert(self.session, "INSERT INTO nodes VALUES", fresh, "NULL")
        _insert(self.session, "INSERT INTO segments VALUES", self._new_segments)
        self._new_segments = []
        _insert(self.session, "INSERT INTO node_segments VALUES", sorted(segments))

    def _add_edges(self, layer: int, added: Records) -> None:
        ids, session = self._ids, self.session
        for edge in added.edges:
            for key in edge[:2]:
                if key not in ids:
                    self._id(key)
        rows = sorted(
            {
                (ids[edge.source], EDGE_TYPE_CODES[edge.type], ids[edge.target], PROVENANCE_CODES[edge.provenance])
                for edge in added.edges
            }
        )
        for row in rows:
            if LAYER_OF_PROVENANCE[row[3]] != layer:
                raise InvalidNameError("an edge of the source graph comes from the tree, one of the overlay does not")
        if rows:
            _insert(session, "INSERT OR IGNORE INTO edges VALUES", rows)
        self._touch_edges(layer, [EdgeRow(*row) for row in rows], added=1)

    def _touch_edges(self, layer: int, rows: Sequence[EdgeRow], *, added: int) -> None:
        touched = self.touched[layer]
        packages = self._package_of
        for row in rows:
            package = packages.get(row.source)
            if package is None:
                (package,) = self.session.execute("SELECT package_id FROM nodes WHERE id = ?", (row.source,)).fetchone()
                packages[row.source] = package
            touched.branches.add((package, row.type))
            touched.targets.add((row.type, row.target))
        if self.with_events:
            self.session.executemany(
                "INSERT INTO edge_events VALUES (?, ?, ?, ?, ?, ?)", ((self.sequence, added, *row) for row in rows)
            )

    def _add_files(self, layer: int, added: Records) -> None:
        execute = self.session.execute
        edges = {edge.hash: edge for edge in added.edges} if any(file.sites for file in added.files) else {}
        (next_id,) = execute("SELECT coalesce(max(id), 0) + 1 FROM files").fetchone()
        for file in added.files:
            slot = slot_of(path_key(file.path))
            old = execute(
                "SELECT id FROM files WHERE layer = ? AND slot = ? AND path = ?", (layer, slot, file.path)
            ).fetchone()
            if old is not None:
                self._drop_file_rows(old[0])
            file_id = old[0] if old is not None else next_id
            next_id += old is None
            root = file_attributes(file).root
            execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                (layer, slot, file.path, file.content, root, file_id),
            )
            self.touched[layer].slot("files", slot)
            self.session.executemany(
                "INSERT OR IGNORE INTO declarations VALUES (?, ?, ?, ?, ?, ?)",
                sorted({(file_id, self._id(node), *rest) for node, *rest in file.declarations}),
            )
            packed: dict[int, list[PackedSite]] = {}
            for site in file.sites:
                edge = edges.get(site.edge)
                if edge is None:
                    raise InvalidNameError(f"{file.path} has a call site of an edge that is not given with it")
                packed.setdefault(self._id(edge.source), []).append(
                    PackedSite(
                        self._id(edge.target),
                        EDGE_TYPE_CODES[edge.type],
                        PROVENANCE_CODES[edge.provenance],
                        *site[1:],
                    )
                )
            self.session.executemany(
                "INSERT INTO sites VALUES (?, ?, ?)",
                sorted((file_id, source, pack(found)) for source, found in packed.items()),
            )
            self._event(1, "file", layer, [file.path, file.content.hex(), root.hex()])

    def _drop_file_rows(self, file_id: int) -> None:
        self.session.execute("DELETE FROM declarations WHERE file = ?", (file_id,))
        self.session.execute("DELETE FROM sites WHERE file = ?", (file_id,))

    # Removing

    def _remove(self, changes: Changes) -> None:
        layer, removed = changes.layer, changes.removed
        touched, execute = self.touched[layer], self.session.execute
        rows = [
            EdgeRow(
                self._id(edge.source),
                EDGE_TYPE_CODES[edge.type],
                self._id(edge.target),
                PROVENANCE_CODES[edge.provenance],
            )
            for edge in removed.edges
        ]
        self.session.executemany(
            "DELETE FROM edges WHERE source = ? AND type = ? AND target = ? AND provenance = ?", rows
        )
        self._touch_edges(layer, rows, added=0)
        for alias in removed.aliases:
            slot = slot_of(external_hash(alias.name))
            row = (layer, slot, alias.name, self._id(alias.target))
            execute("DELETE FROM aliases WHERE layer = ? AND slot = ? AND name = ? AND target = ?", row)
            touched.slot("aliases", slot)
            touched.slot("alias_of", slot_of(alias.target))
            touched.named.add(row[3])
            self._event(0, "alias", layer, [alias.name, row[3], int(alias.claimed)])
        for member in removed.members:
            slot = slot_of(member_key(member.owner, member.name))
            owned = (layer, slot, self._id(member.owner), member.name, self._id(member.target))
            execute("DELETE FROM members WHERE layer = ? AND slot = ? AND owner = ? AND name = ? AND target = ?", owned)
            touched.slot("members", slot)
            touched.slot("alias_of", slot_of(member.target))
            touched.named.add(owned[4])
            self._event(0, "member", layer, list(owned[2:]))
        for key, facts in removed.facts.items():
            execute("DELETE FROM facts WHERE layer = ? AND node = ?", (layer, self._id(key)))
            touched.slot("facts", slot_of(key))
            text = canonical_json(facts_to_json(canonical_facts(facts))).decode()
            self._event(0, "facts", layer, [self._id(key), text])
        for path, reason in removed.coverage.items():
            slot = slot_of(path_key(path))
            execute("DELETE FROM coverage WHERE layer = ? AND slot = ? AND path = ?", (layer, slot, path))
            touched.slot("coverage", slot)
            self._event(0, "coverage", layer, [path, reason.value])
        for file in removed.files:
            slot = slot_of(path_key(file.path))
            row = execute(
                "SELECT id, content_hash, attributes_root FROM files WHERE layer = ? AND slot = ? AND path = ?",
                (layer, slot, file.path),
            ).fetchone()
            if row is not None:
                self._drop_file_rows(row[0])
                execute("DELETE FROM files WHERE id = ?", (row[0],))
                self._event(0, "file", layer, [file.path, row[1].hex(), row[2].hex()])
            touched.slot("files", slot)
        self._remove_nodes(layer, removed.nodes)

    def _remove_nodes(self, layer: int, nodes: Iterable[NodeId]) -> None:
        """Nodes stay as rows, marked, because events refer to them; gc takes them away later."""
        for node in set(nodes):
            key = node_hash(*node)
            node_id = self._id(key)
            self.session.execute("UPDATE nodes SET layers = layers & ~? WHERE id = ?", (1 << layer, node_id))
            self.session.execute("UPDATE nodes SET deleted_at = ? WHERE id = ? AND layers = 0", (self.now, node_id))
            self._ids.pop(key, None)
            self.touched[layer].slot("nodes", slot_of(key))
            self._event(0, "node", layer, [node_id])

    def _event(self, added: int, kind: str, layer: int, body: list[Any]) -> None:
        if self.with_events:
            text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
            self.session.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (self.sequence, added, kind, layer, text))


def _insert(session: Session, head: str, rows: Sequence[Sequence[Any]], extra: str = "") -> None:
    """Insert many rows with few statements: the parameters of 100 rows at a time."""
    if not rows:
        return
    marks = ", ".join("?" * len(rows[0])) + (f", {extra}" if extra else "")
    iterator = iter(rows)
    many = f"{head} " + ", ".join([f"({marks})"] * 100)
    while len(batch := list(islice(iterator, 100))) == 100:
        session.execute(many, [value for row in batch for value in row])
    session.executemany(f"{head} ({marks})", batch)
