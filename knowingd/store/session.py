"""Rows of a repository's database as plain values with hashes: what the maps, diffs and checks are made from.

A session is bound to one connection and one transaction. It knows SQL and no Merkle tree. Where a method takes ids,
`None` means all of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from knowing_protocol.hashing import NodeId, node_hash
from knowing_protocol.records import Facts, facts_to_json
from knowing_protocol.vocabulary import NodeKind

from knowingd.store.codes import EDGE_TYPES, KIND_CODES, KINDS, OVERLAY, PROVENANCES, PROVENANCES_OF_LAYER
from knowingd.store.packing import unpack_ids
from knowingd.store.rows import (
    AliasRow,
    DeclarationRow,
    EdgeRow,
    FileRow,
    MemberRow,
    NodeRow,
    SnapshotRow,
    edge_number,
    edge_of,
    signed_slot,
)

BATCH = 500  # values of one IN list
_SEPARATORS = ".#:/"
to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode  # made once, not for each text


def tail_of(name: str) -> str:
    """What follows the last dot of a name."""
    return name.rpartition(".")[2]


def split_alias(name: str, target: str) -> tuple[str, str | None]:
    """An alias as it is kept: a prefix, and None where the rest is the last segment of its target's name."""
    tail = tail_of(target)
    if tail and name.endswith(tail):
        return name[: -len(tail)], None
    at = max(map(name.rfind, _SEPARATORS)) + 1
    return name[:at], name[at:]


def facts_text(facts: Mapping[str, Any]) -> str:
    """Facts as they are kept: without what is empty."""
    return to_json({key: value for key, value in facts.items() if value})


class Session:
    """Queries over the identity layer and the snapshots."""

    def __init__(self, connection: sqlite3.Connection, repo: str, ref: str, origin: bytes) -> None:
        """`repo`, `ref` and `origin` are what the database is of; its store has made sure of that."""
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.repo, self.ref, self.origin = repo, ref, origin
        self._nodes: dict[int, NodeRow] = {}
        self._package_names: dict[int, str] = {}

    def select(self, query: str, column: str, ids: Collection[int] | None, *also: Any) -> Iterator[Any]:
        """The rows of a query; with ids, only those whose column is among them. `also` fills the query's own marks."""
        if ids is None:
            yield from self.execute(query, also)
            return
        ordered = iter(sorted(ids))
        joint = " AND " if " WHERE " in query else " WHERE "
        while batch := list(islice(ordered, BATCH)):
            yield from self.execute(f"{query}{joint}{column} IN ({', '.join('?' * len(batch))})", [*also, *batch])

    # Nodes

    def node_id(self, key: bytes, *, deleted: bool = False) -> int | None:
        """The id of a node that is in one of the graphs, or that was."""
        query = "SELECT id, package_id, name, kind, layers FROM nodes WHERE slot = ?"
        for node_id, package, name, kind, layers in self.execute(query, (signed_slot(key),)).fetchall():
            if self.identity_hash(package, name, kind) == key and (deleted or layers):
                found: int = node_id
                return found
        return None

    def hashes_with_prefix(self, prefix: bytes, *, deleted: bool = False) -> list[bytes]:
        """The hashes of nodes that begin with some bytes, of which there are at least four."""
        query = "SELECT package_id, name, kind, layers FROM nodes WHERE slot = ?"
        rows = self.execute(query, (signed_slot(prefix),)).fetchall()
        hashes = (self.identity_hash(package, name, kind) for package, name, kind, layers in rows if deleted or layers)
        return [key for key in hashes if key.startswith(prefix)]

    def identity_hash(self, package: int, name: str, kind: int) -> bytes:
        """The hash of a node as its columns tell it."""
        text = self._package_names.get(package)
        if text is None:
            text = self.package_name(package)
        return node_hash("" if kind == _EXTERNAL else self.repo, text, name, KINDS[kind])

    def package_name(self, package: int) -> str:
        """The name of a package; all are read at once, and again if there is a new one."""
        found = self._package_names.get(package)
        if found is None:
            found = self.packages()[package]
        return found

    def identities(self, ids: Collection[int] | None) -> dict[int, NodeId]:
        """What nodes are, without the work of hashing them."""
        query = "SELECT id, package_id, name, kind FROM nodes"
        return {
            node: NodeId("" if kind == _EXTERNAL else self.repo, self.package_name(package), name, KINDS[kind])
            for node, package, name, kind in self.select(query, "id", ids)
        }

    def node(self, node_id: int) -> NodeRow:
        """A node by its id, deleted or not."""
        found = self._nodes.get(node_id)
        if found is None:
            self.load_nodes([node_id])
            found = self._nodes[node_id]
        return found

    def load_nodes(self, ids: Collection[int] | None) -> dict[int, NodeRow]:
        """Nodes by their ids, remembered for as long as the session lives."""
        known = self._nodes
        missing = None if ids is None else {one for one in ids if one not in known}
        if missing is not None and not missing:
            return known
        for row in self.select(_NODE, "n.id", missing):
            if row[0] not in known:
                self._node_row(row)
        return known

    def remember(self, nodes: Mapping[int, NodeRow]) -> None:
        """Spare nodes that were just written the way through the database."""
        self._nodes.update(nodes)

    def _node_row(self, row: Sequence[Any]) -> NodeRow:
        node_id, package, name, kind, _ = row
        text = KINDS[kind]
        node = NodeId("" if text == NodeKind.EXTERNAL else self.repo, package, name, text)
        found = self._nodes[node_id] = NodeRow(node_id, node_hash(*node), node)
        return found

    def node_ids(self, layer: int, ids: Collection[int] | None = None) -> list[int]:
        """The ids of the nodes of a graph; of those given, the ones that are in it."""
        return [row[0] for row in self.select("SELECT id FROM nodes WHERE layers & ?", "id", ids, 1 << layer)]

    def kept_slots(self) -> Iterator[tuple[int, int]]:
        """Ids and slots as they are kept, for checks."""
        return iter(self.execute("SELECT id, slot FROM nodes"))

    def count(self, layer: int) -> tuple[int, int]:
        """How many nodes and edges a graph has."""
        (nodes,) = self.execute("SELECT count(*) FROM nodes WHERE layers & ?", (1 << layer,)).fetchone()
        (edges,) = self.execute("SELECT count(*) FROM edges").fetchone()
        overlay = 0
        if self.execute("SELECT 1 FROM branches WHERE layer = ?", (OVERLAY,)).fetchone():  # it takes a look at each
            marks = ", ".join("?" * len(PROVENANCES_OF_LAYER[OVERLAY]))
            query = f"SELECT count(*) FROM edges WHERE provenance IN ({marks})"
            (overlay,) = self.execute(query, PROVENANCES_OF_LAYER[OVERLAY]).fetchone()
        return nodes, overlay if layer == OVERLAY else edges - overlay

    def packages(self) -> dict[int, str]:
        """Id to name of all packages."""
        self._package_names = dict(self.execute("SELECT id, name FROM packages"))
        return self._package_names

    def package_number(self, name: str) -> int | None:
        """The id of a package by its name."""
        row = self.execute("SELECT id FROM packages WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def package_ids(self, ids: Collection[int] | None = None) -> dict[int, int]:
        """Node id to package id."""
        return dict(self.select("SELECT id, package_id FROM nodes", "id", ids))

    # Edges

    def edges(self) -> Iterator[EdgeRow]:
        """All edges, by source, type and target."""
        return map(EdgeRow._make, self.execute("SELECT source, type, target, provenance FROM edges"))

    def edge_numbers(self, layer: int) -> Iterator[int]:
        """The edges of a graph as the numbers that they are kept as, in order."""
        codes = PROVENANCES_OF_LAYER[layer]
        query = f"SELECT id FROM edges WHERE id & 15 IN ({', '.join('?' * len(codes))}) ORDER BY id"
        return (number for (number,) in self.execute(query, codes))

    def edges_of_package(self, package_id: int) -> Iterator[EdgeRow]:
        """The edges whose source is in a package."""
        rows = self.execute(
            "SELECT e.source, e.type, e.target, e.provenance FROM nodes n "
            "JOIN edges e ON e.id >= n.id << 34 AND e.id < (n.id + 1) << 34 WHERE n.package_id = ? ORDER BY e.id",
            (package_id,),
        )
        return map(EdgeRow._make, rows)

    def edges_from(self, source: int) -> list[EdgeRow]:
        """The edges of a source."""
        rows = self.execute("SELECT id FROM edges WHERE id >= ? AND id < ?", (source << 34, (source + 1) << 34))
        return [edge_of(number) for (number,) in rows]

    def provenances(self, source: int, edge_type: int, target: int) -> list[int]:
        """In which ways a relation was observed."""
        first = edge_number(source, edge_type, target, 0)
        rows = self.execute("SELECT id FROM edges WHERE id >= ? AND id <= ?", (first, first | 15))
        return [number & 15 for (number,) in rows]

    def targets(self) -> Iterator[tuple[int, int]]:
        """Edge type and target of every edge, once each."""
        return iter(self.execute("SELECT DISTINCT type, target FROM inbound"))

    # What is published

    def aliases(self, layer: int, ids: Collection[int] | None = None) -> Iterator[AliasRow]:
        """Aliases by their ids."""
        return self._aliases("a.id", layer, ids)

    def aliases_of(self, layer: int, targets: Collection[int] | None = None) -> Iterator[AliasRow]:
        """Aliases by their targets."""
        return self._aliases("a.target", layer, targets)

    def _aliases(self, column: str, layer: int, ids: Collection[int] | None) -> Iterator[AliasRow]:
        query = (
            "SELECT a.id, p.text, a.tail, n.name, a.target, a.claimed FROM aliases a "
            "JOIN alias_prefixes p ON p.id = a.prefix JOIN nodes n ON n.id = a.target WHERE a.layer = ?"
        )
        for row_id, prefix, tail, name, target, claimed in self.select(query, column, ids, layer):
            yield AliasRow(row_id, prefix + (tail_of(name) if tail is None else tail), target, bool(claimed))

    def members(self, layer: int, ids: Collection[int] | None = None) -> Iterator[MemberRow]:
        """Members by their ids."""
        return self._members("m.id", layer, ids)

    def members_to(self, layer: int, targets: Collection[int] | None = None) -> Iterator[MemberRow]:
        """Members by their targets."""
        return self._members("m.target", layer, targets)

    def members_of(self, layer: int, owners: Collection[int] | None = None) -> Iterator[MemberRow]:
        """Members by their owners."""
        return self._members("m.owner", layer, owners)

    def _members(self, column: str, layer: int, ids: Collection[int] | None) -> Iterator[MemberRow]:
        query = (
            "SELECT m.id, m.owner, m.name, n.name, m.target FROM members m JOIN nodes n ON n.id = m.target "
            "WHERE m.layer = ?"
        )
        for row_id, owner, name, target_name, target in self.select(query, column, ids, layer):
            yield MemberRow(row_id, owner, tail_of(target_name) if name is None else name, target)

    def facts(self, layer: int, nodes: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Node id and facts, as they are hashed."""
        for node, text in self.select("SELECT node, facts FROM facts WHERE layer = ?", "node", nodes, layer):
            yield node, _NO_FACTS | json.loads(text)

    def files(self, layer: int, ids: Collection[int] | None = None) -> Iterator[FileRow]:
        """Files by their ids."""
        query = "SELECT id, path, content_hash, attributes_root FROM files WHERE layer = ?"
        return map(FileRow._make, self.select(query, "id", ids, layer))

    def file_named(self, layer: int, path: str) -> FileRow | None:
        """A file by its path."""
        row = self.execute(
            "SELECT id, path, content_hash, attributes_root FROM files WHERE layer = ? AND path = ?", (layer, path)
        ).fetchone()
        return FileRow(*row) if row else None

    def set_attributes(self, file: int, root: bytes) -> None:
        """Say that what is kept of a file leads to this root."""
        self.execute("UPDATE files SET attributes_root = ? WHERE id = ?", (root, file))

    def declarations_in(self, file: int) -> list[DeclarationRow]:
        """What a file declares."""
        row = self.execute("SELECT declared FROM files WHERE id = ?", (file,)).fetchone()
        query = "SELECT node, line, end_line, signature, doc FROM declarations WHERE file = ?"
        return [DeclarationRow(*one) for one in self.select(query, "node", unpack_ids(row[0]), file)]

    def declarations_of(self, node: int) -> list[tuple[str, DeclarationRow]]:
        """Where a node is declared: path and place."""
        rows = self.execute(
            "SELECT f.path, d.node, d.line, d.end_line, d.signature, d.doc FROM declarations d "
            "JOIN files f ON f.id = d.file WHERE d.node = ? ORDER BY f.path, d.line",
            (node,),
        )
        return [(path, DeclarationRow(*rest)) for path, *rest in rows]

    def sources_in(self, file: int) -> bytes:
        """The packed ids of the nodes that have call sites in a file."""
        row = self.execute("SELECT sources FROM files WHERE id = ?", (file,)).fetchone()
        found: bytes = row[0]
        return found

    def sites(self, source: int, file: int | None = None) -> list[tuple[int, bytes]]:
        """File id and packed call sites of a source, in one file or in all."""
        return self.execute(
            "SELECT file, packed FROM sites WHERE source = ?1 AND (?2 IS NULL OR file = ?2)", (source, file)
        ).fetchall()

    def coverage(self, layer: int, ids: Collection[int] | None = None) -> Iterator[tuple[int, str, str]]:
        """Id, path and reason of files that a graph does not fully speak for."""
        return self.select("SELECT id, path, reason FROM coverage WHERE layer = ?", "id", ids, layer)

    def coverage_counts(self) -> dict[str, int]:
        """How many files the graphs do not fully speak for, by reason."""
        return dict(self.execute("SELECT reason, count(*) FROM coverage GROUP BY reason ORDER BY reason"))

    # Notes: metadata that changes no root

    def note(self, key: str) -> str | None:
        """What was noted of this repository under a key."""
        row = self.execute("SELECT value FROM graph_notes WHERE object_hash = x'' AND key = ?", (key,)).fetchone()
        return row[0] if row else None

    def put_note(self, key: str, value: str, now: int) -> None:
        """Note something of this repository."""
        self.execute("INSERT OR REPLACE INTO graph_notes VALUES (x'', ?, ?, ?)", (key, value, now))

    def drop_notes(self, keep: Callable[[str], bool], prefix: str) -> None:
        """Drop the notes under keys that begin with a prefix, but for those to keep."""
        rows = self.execute(
            "SELECT key FROM graph_notes WHERE object_hash = x'' AND substr(key, 1, length(?1)) = ?1", (prefix,)
        ).fetchall()
        gone = [(key,) for (key,) in rows if not keep(key)]
        self.executemany("DELETE FROM graph_notes WHERE object_hash = x'' AND key = ?", gone)

    # Snapshots

    def snapshots(self) -> list[SnapshotRow]:
        """All snapshots, oldest first."""
        return [SnapshotRow(*row) for row in self.execute("SELECT * FROM snapshots ORDER BY sequence")]

    def last_snapshot(self, *, finished: bool = False) -> SnapshotRow | None:
        """The newest snapshot; only one that has its index, if asked for."""
        row = self.execute(
            "SELECT * FROM snapshots WHERE log_index IS NOT NULL OR NOT ? ORDER BY sequence DESC LIMIT 1", (finished,)
        ).fetchone()
        return SnapshotRow(*row) if row else None

    def snapshot(self, sequence: int) -> SnapshotRow | None:
        """A snapshot by its sequence."""
        row = self.execute("SELECT * FROM snapshots WHERE sequence = ?", (sequence,)).fetchone()
        return SnapshotRow(*row) if row else None

    def pending_snapshot(self) -> SnapshotRow | None:
        """The snapshot that is not in the node's log yet."""
        row = self.execute("SELECT * FROM snapshots WHERE log_index IS NULL").fetchone()
        return SnapshotRow(*row) if row else None

    def add_snapshot(self, row: SnapshotRow) -> None:
        """Add a snapshot."""
        self.execute(f"INSERT INTO snapshots VALUES ({', '.join('?' * len(row))})", row)

    def finish_snapshot(self, sequence: int, epoch: int, log_index: int) -> None:
        """Give a snapshot the index that the node's log gave it."""
        self.execute("UPDATE snapshots SET epoch = ?, log_index = ? WHERE sequence = ?", (epoch, log_index, sequence))

    def statistics(self) -> dict[str, Any]:
        """Counts of what is in the graphs, for people."""
        kinds = dict(self.execute("SELECT kind, count(*) FROM nodes WHERE layers > 0 GROUP BY kind"))
        types = dict(self.execute("SELECT type, count(*) FROM edges GROUP BY type"))
        how = dict(self.execute("SELECT provenance, count(*) FROM edges GROUP BY provenance"))
        counted = {
            name: self.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for name, table in (
                ("packages", "packages"),
                ("files", "files"),
                ("aliases", "aliases"),
                ("members", "members"),
            )
        }
        return {
            **counted,
            "symbols": {KINDS[kind]: count for kind, count in sorted(kinds.items())},
            "edges": {EDGE_TYPES[code]: count for code, count in sorted(types.items())},
            "provenance": {PROVENANCES[code]: count for code, count in sorted(how.items())},
            "coverage": self.coverage_counts(),
            "snapshots": self.execute("SELECT count(*) FROM snapshots").fetchone()[0],
            "events": self.execute(
                "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM edge_events)"
            ).fetchone()[0],
        }

    def integrity_errors(self) -> list[str]:
        """What SQLite itself finds wrong."""
        found = [text for (text,) in self.execute("PRAGMA integrity_check") if text != "ok"]
        rows = self.execute("PRAGMA foreign_key_check").fetchall()
        return found + [f"{table} row {row} refers to nothing in {parent}" for table, row, parent, _ in rows]


_EXTERNAL = KIND_CODES[NodeKind.EXTERNAL]
_NODE = "SELECT n.id, p.name, n.name, n.kind, n.layers FROM nodes n JOIN packages p ON p.id = n.package_id"
_NO_FACTS = facts_to_json(Facts())


def insert(session: Session, head: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert many rows with few statements: the parameters of 100 rows at a time."""
    iterator = iter(rows)
    batch = list(islice(iterator, 100))
    if not batch:
        return
    marks = f"({', '.join('?' * len(batch[0]))})"
    many = f"{head} VALUES " + ", ".join([marks] * 100)
    while len(batch) == 100:
        session.execute(many, [*chain.from_iterable(batch)])
        batch = list(islice(iterator, 100))
    session.executemany(f"{head} VALUES {marks}", batch)
