"""Rows of a repository's database as plain values with hashes: what the maps, diffs and checks are made from.

A session is bound to one connection and one transaction. It knows SQL and no Merkle tree.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from knowing_protocol.graph import REPUBLISHED, RenamedMember, inbound_key, names_value, target_segments
from knowing_protocol.hashing import NodeId
from knowing_protocol.vocabulary import NodeKind

from knowingd.store.codes import EDGE_TYPES, KINDS, PROVENANCES_OF_LAYER

SLOT_BITS = 32
REPUBLISHED_CODE = -1


def slot_of(key: bytes) -> int:
    """The leading 32 bits of a key."""
    return int.from_bytes(key[:4], "big")


class NodeRow(NamedTuple):
    """A node with its id and hash."""

    id: int
    hash: bytes
    node: NodeId


class EdgeRow(NamedTuple):
    """An edge by ids."""

    source: int
    type: int
    target: int
    provenance: int


class SnapshotRow(NamedTuple):
    """A snapshot as the repository's database knows it."""

    sequence: int
    log_index: int | None
    epoch: int
    commit: str
    branch: str
    generation: int
    source_root: bytes
    overlay_root: bytes
    nodes: int
    edges: int
    coverage: str
    extractor: bytes
    submitter: str
    timestamp: int
    map_roots: str
    pruned: int


class Session:
    """Queries over the identity layer and its caches."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.repo: str
        self.ref: str
        self.origin: bytes
        row = self.execute("SELECT repo_url, ref, origin FROM repos").fetchone()
        self.repo, self.ref, self.origin = row or ("", "", b"")

    # Nodes

    def node_id(self, key: bytes) -> int | None:
        """The id of a node that is in one of the graphs."""
        row = self.execute(
            "SELECT id FROM nodes WHERE slot = ? AND node_hash = ? AND deleted_at IS NULL", (slot_of(key), key)
        ).fetchone()
        return row[0] if row else None

    def node(self, node_id: int) -> NodeRow:
        """A node by its id, deleted or not."""
        row = self.execute(f"{_NODE} WHERE n.id = ?", (node_id,)).fetchone()
        return self._node_row(row)

    def nodes(self, ids: Iterable[int]) -> dict[int, NodeRow]:
        """Nodes by their ids."""
        return {node_id: self.node(node_id) for node_id in set(ids)}

    def _node_row(self, row: Sequence[object]) -> NodeRow:
        node_id, key, package, name, kind = row
        text = KINDS[kind]  # type: ignore[call-overload]
        repo = "" if text == NodeKind.EXTERNAL else self.repo
        return NodeRow(node_id, key, NodeId(repo, package, name, text))  # type: ignore[arg-type]

    def nodes_between(self, layer: int, low: int, high: int) -> Iterator[NodeRow]:
        """The nodes of a graph whose hashes lie in a range of slots."""
        rows = self.execute(f"{_NODE} WHERE n.slot >= ? AND n.slot < ? AND n.layers & ?", (low, high, 1 << layer))
        return map(self._node_row, rows)

    def hashes(self) -> dict[int, bytes]:
        """Id to hash, for all nodes there are or were."""
        return dict(self.execute("SELECT id, node_hash FROM nodes"))

    def count(self, layer: int) -> tuple[int, int]:
        """How many nodes and edges a graph has."""
        (nodes,) = self.execute("SELECT count(*) FROM nodes WHERE layers & ?", (1 << layer,)).fetchone()
        counts = dict(self.execute("SELECT provenance, count(*) FROM edges GROUP BY provenance"))
        return nodes, sum(counts.get(code, 0) for code in PROVENANCES_OF_LAYER[layer])

    # Edges

    def edges_of_package(self, package_id: int) -> Iterator[EdgeRow]:
        """The edges whose source is in a package."""
        rows = self.execute(
            "SELECT e.source, e.type, e.target, e.provenance FROM nodes n JOIN edges e ON e.source = n.id "
            "WHERE n.package_id = ? AND n.deleted_at IS NULL",
            (package_id,),
        )
        return map(EdgeRow._make, rows)

    def edges(self) -> Iterator[tuple[int, EdgeRow]]:
        """All edges with the package of their source."""
        rows = self.execute(
            "SELECT n.package_id, e.source, e.type, e.target, e.provenance FROM edges e JOIN nodes n ON n.id = e.source"
        )
        return ((row[0], EdgeRow(*row[1:])) for row in rows)

    def edges_to(self, target: int, edge_type: int) -> list[EdgeRow]:
        """The edges of one type to a target."""
        rows = self.execute(
            "SELECT source, type, target, provenance FROM edges WHERE target = ? AND type = ?", (target, edge_type)
        )
        return [EdgeRow(*row) for row in rows]

    def packages(self) -> dict[int, str]:
        """Id to name of all packages."""
        return dict(self.execute("SELECT id, name FROM packages"))

    # What the maps are made of, by ranges of slots

    def aliases_between(self, layer: int, low: int, high: int) -> Iterator[tuple[str, bytes, bool]]:
        """Alias, hash of its target, and whether a manifest claims it."""
        rows = self.execute(
            "SELECT a.name, n.node_hash, a.claimed FROM aliases a JOIN nodes n ON n.id = a.target "
            "WHERE a.layer = ? AND a.slot >= ? AND a.slot < ?",
            (layer, low, high),
        )
        return ((name, key, bool(claimed)) for name, key, claimed in rows)

    def names_of_nodes_between(
        self, layer: int, low: int, high: int
    ) -> Iterator[tuple[bytes, list[str | RenamedMember]]]:
        """Target and all of its names."""
        rows = self.execute(
            _NODE + " WHERE n.slot >= ? AND n.slot < ? AND (EXISTS (SELECT 1 FROM aliases a WHERE a.target = n.id AND "
            "a.layer = ?) OR EXISTS (SELECT 1 FROM members m WHERE m.target = n.id AND m.layer = ?))",
            (low, high, layer, layer),
        ).fetchall()
        for row in map(self._node_row, rows):
            names = self.names_of(layer, row)
            if names:
                yield row.hash, names

    def members_between(self, layer: int, low: int, high: int) -> Iterator[tuple[bytes, str, bytes]]:
        """Owner, name and target."""
        return iter(
            self.execute(
                "SELECT o.node_hash, m.name, t.node_hash FROM members m JOIN nodes o ON o.id = m.owner "
                "JOIN nodes t ON t.id = m.target WHERE m.layer = ? AND m.slot >= ? AND m.slot < ?",
                (layer, low, high),
            )
        )

    def facts_between(self, layer: int, low: int, high: int) -> Iterator[tuple[bytes, str]]:
        """Node and its facts in canonical JSON."""
        return iter(
            self.execute(
                "SELECT n.node_hash, f.facts FROM nodes n JOIN facts f ON f.node = n.id AND f.layer = ? "
                "WHERE n.slot >= ? AND n.slot < ?",
                (layer, low, high),
            )
        )

    def files_between(self, layer: int, low: int, high: int) -> Iterator[tuple[str, bytes, bytes]]:
        """Path, content hash and root of the attributes."""
        return iter(
            self.execute(
                "SELECT path, content_hash, attributes_root FROM files WHERE layer = ? AND slot >= ? AND slot < ?",
                (layer, low, high),
            )
        )

    def coverage_between(self, layer: int, low: int, high: int) -> Iterator[tuple[str, str]]:
        """Path and reason."""
        return iter(
            self.execute(
                "SELECT path, reason FROM coverage WHERE layer = ? AND slot >= ? AND slot < ?", (layer, low, high)
            )
        )

    def targets_between(self, layer: int, low: int, high: int) -> Iterator[tuple[bytes, str, bytes]]:
        """Target, edge type and value of its inbound set."""
        rows = self.execute(
            "SELECT n.node_hash, t.type, t.value FROM targets t JOIN nodes n ON n.id = t.target "
            "WHERE t.layer = ? AND t.slot >= ? AND t.slot < ?",
            (layer, low, high),
        )
        return ((key, EDGE_TYPES[code], value) for key, code, value in rows)

    def names_between(self, layer: int, low: int, high: int) -> Iterator[tuple[str, str, bytes, bytes]]:
        """Edge type (or `REPUBLISHED`), last segment, target and its value: of its inbound set, or of its names."""
        rows = self.execute(
            "SELECT m.type, s.text, n.id, n.node_hash FROM names m JOIN segments s ON s.id = m.segment "
            "JOIN node_segments x ON x.segment = m.segment JOIN nodes n ON n.id = x.node "
            "WHERE m.layer = ? AND m.slot >= ? AND m.slot < ?",
            (layer, low, high),
        ).fetchall()
        for code, text, node_id, key in rows:
            if code == REPUBLISHED_CODE:
                value = self.names_value(layer, node_id)
                edge_type = REPUBLISHED
            else:
                value = self.target_value(layer, code, node_id, key)
                edge_type = EDGE_TYPES[code]
            if value is not None:
                yield edge_type, text, key, value

    def names_value(self, layer: int, node_id: int) -> bytes | None:
        """The value of the names of a name from outside."""
        row = self.node(node_id)
        if row.node.kind != NodeKind.EXTERNAL:
            return None
        names = self.names_of(layer, row)
        return names_value(names) if names else None

    def names_of(self, layer: int, row: NodeRow) -> list[str | RenamedMember]:
        """All names that lead to a node: aliases, and members whose name is not its last segment."""
        found: list[str | RenamedMember] = [
            name for (name,) in self.execute("SELECT name FROM aliases WHERE target = ? AND layer = ?", (row.id, layer))
        ]
        segments = target_segments(row.node)
        members = self.execute("SELECT owner, name FROM members WHERE target = ? AND layer = ?", (row.id, layer))
        found += (RenamedMember(self.node(owner).node, name) for owner, name in members if segments != {name})
        return found

    def target_value(self, layer: int, edge_type: int, target: int, key: bytes) -> bytes | None:
        """The value of a target's inbound set."""
        slot = slot_of(inbound_key(EDGE_TYPES[edge_type], key))
        row = self.execute(
            "SELECT value FROM targets WHERE layer = ? AND slot = ? AND target = ? AND type = ?",
            (layer, slot, target, edge_type),
        ).fetchone()
        return row[0] if row else None

    def packages_between(self, layer: int, low: int, high: int) -> Iterator[tuple[str, bytes]]:
        """Package and the root of its edge types."""
        return iter(
            self.execute(
                "SELECT p.name, r.root FROM package_roots r JOIN packages p ON p.id = r.package_id "
                "WHERE r.layer = ? AND r.slot >= ? AND r.slot < ?",
                (layer, low, high),
            )
        )

    def branches_of(self, layer: int, package_id: int) -> dict[int, bytes]:
        """Edge type to root of a package's branches."""
        return dict(
            self.execute("SELECT type, root FROM branches WHERE layer = ? AND package_id = ?", (layer, package_id))
        )

    # Snapshots

    def snapshots(self) -> list[SnapshotRow]:
        """All snapshots, oldest first."""
        return [SnapshotRow(*row) for row in self.execute("SELECT * FROM snapshots ORDER BY sequence")]

    def last_snapshot(self) -> SnapshotRow | None:
        """The newest snapshot, pending or not."""
        row = self.execute("SELECT * FROM snapshots ORDER BY sequence DESC LIMIT 1").fetchone()
        return SnapshotRow(*row) if row else None

    def last_finished_snapshot(self) -> SnapshotRow | None:
        """The newest snapshot that has its index."""
        row = self.execute(
            "SELECT * FROM snapshots WHERE log_index IS NOT NULL ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
        return SnapshotRow(*row) if row else None

    def pending_snapshot(self) -> SnapshotRow | None:
        """The snapshot that is not in the node's log yet."""
        row = self.execute("SELECT * FROM snapshots WHERE log_index IS NULL").fetchone()
        return SnapshotRow(*row) if row else None

    def add_snapshot(
        self,
        *,
        sequence: int,
        epoch: int,
        commit: str,
        branch: str,
        generation: int,
        source_root: bytes,
        overlay_root: bytes,
        nodes: int,
        edges: int,
        coverage: str,
        extractor: bytes,
        submitter: str,
        timestamp: int,
        map_roots: str,
    ) -> None:
        """Add a snapshot without an index."""
        row = SnapshotRow(
            sequence,
            None,
            epoch,
            commit,
            branch,
            generation,
            source_root,
            overlay_root,
            nodes,
            edges,
            coverage,
            extractor,
            submitter,
            timestamp,
            map_roots,
            pruned=0,
        )
        self.execute(f"INSERT INTO snapshots VALUES ({', '.join('?' * len(row))})", row)

    def finish_snapshot(self, sequence: int, log_index: int) -> None:
        """Give a snapshot the index that the node's log gave it."""
        self.execute("UPDATE snapshots SET log_index = ? WHERE sequence = ?", (log_index, sequence))

    def coverage_counts(self) -> dict[str, int]:
        """How many files the graphs do not fully speak for, by reason."""
        return dict(self.execute("SELECT reason, count(*) FROM coverage GROUP BY reason ORDER BY reason"))

    def foreign_keys(self) -> list[tuple[str, int, str, int]]:
        """Rows that refer to nothing."""
        return self.execute("PRAGMA foreign_key_check").fetchall()

    # Caches

    def drop_caches(self) -> None:
        """Forget everything that can be made again."""
        for table in ("branches", "package_roots", "targets", "names", "maps", "buckets"):
            self.execute(f"DELETE FROM {table}")

    def segment_ids(self, node: NodeId) -> list[tuple[int, str]]:
        """The last segments of a node's name, with their ids."""
        rows = (
            self.execute("SELECT id, text FROM segments WHERE text = ?", (text,)).fetchone()
            for text in sorted(target_segments(node))
        )
        return [row for row in rows if row is not None]

    def put_branch(self, layer: int, package_id: int, edge_type: int, root: bytes | None) -> None:
        """Keep the root of a branch, or that there is none."""
        key = (layer, package_id, edge_type)
        if root is None:
            self.execute("DELETE FROM branches WHERE layer = ? AND package_id = ? AND type = ?", key)
        else:
            self.execute("INSERT OR REPLACE INTO branches VALUES (?, ?, ?, ?)", (*key, root))

    def put_branch_event(
        self, sequence: int, layer: int, package_id: int, edge_type: int, before: bytes | None, after: bytes | None
    ) -> None:
        """Keep what root a branch had before a snapshot, and after it."""
        row = (sequence, layer, package_id, edge_type, before, after)
        self.execute("INSERT INTO branch_events VALUES (?, ?, ?, ?, ?, ?)", row)

    def named_from_outside(self, layer: int) -> list[int]:
        """All names from outside that aliases or members of a graph lead to."""
        rows = self.execute(
            "SELECT target FROM aliases WHERE layer = ? UNION SELECT target FROM members WHERE layer = ?",
            (layer, layer),
        )
        return [target for (target,) in rows]

    def put_package_root(self, layer: int, slot: int, package_id: int, root: bytes | None) -> None:
        """Keep the root of a package's branches, or that there is none."""
        key = (layer, slot, package_id)
        if root is None:
            self.execute("DELETE FROM package_roots WHERE layer = ? AND slot = ? AND package_id = ?", key)
        else:
            self.execute("INSERT OR REPLACE INTO package_roots VALUES (?, ?, ?, ?)", (*key, root))

    def put_target(self, layer: int, slot: int, target: int, edge_type: int, value: bytes | None) -> None:
        """Keep the value of an inbound set, or that there is none."""
        key = (layer, slot, target, edge_type)
        if value is None:
            self.execute("DELETE FROM targets WHERE layer = ? AND slot = ? AND target = ? AND type = ?", key)
        else:
            self.execute("INSERT OR REPLACE INTO targets VALUES (?, ?, ?, ?, ?)", (*key, value))

    def put_names(self, rows: Iterable[tuple[int, int, int, int]]) -> None:
        """Keep that a graph has targets of a type with a last segment: layer, slot, segment, type."""
        self.executemany("INSERT OR IGNORE INTO names VALUES (?, ?, ?, ?)", rows)

    def bucket_bits(self, layer: int, name: str) -> int | None:
        """How many bits the buckets of a map have; None before its first root."""
        row = self.execute("SELECT bits FROM maps WHERE layer = ? AND map = ?", (layer, name)).fetchone()
        return row[0] if row else None

    def bucket_roots(self, layer: int, name: str) -> dict[int, tuple[bytes, int]]:
        """Bucket to root and number of entries."""
        rows = self.execute("SELECT bucket, root, entries FROM buckets WHERE layer = ? AND map = ?", (layer, name))
        return {bucket: (root, entries) for bucket, root, entries in rows}

    def put_buckets(self, layer: int, name: str, changed: Mapping[int, tuple[bytes, int] | None]) -> None:
        """Keep the roots of buckets, or that they are empty."""
        gone = [(layer, name, bucket) for bucket, found in changed.items() if found is None]
        self.executemany("DELETE FROM buckets WHERE layer = ? AND map = ? AND bucket = ?", gone)
        kept = [(layer, name, bucket, *found) for bucket, found in changed.items() if found is not None]
        self.executemany("INSERT OR REPLACE INTO buckets VALUES (?, ?, ?, ?, ?)", kept)

    def drop_buckets(self, layer: int, name: str) -> None:
        """Forget the buckets of a map."""
        self.execute("DELETE FROM buckets WHERE layer = ? AND map = ?", (layer, name))

    def put_map(self, layer: int, name: str, bits: int, root: bytes) -> None:
        """Keep the root of a map."""
        self.execute("INSERT OR REPLACE INTO maps VALUES (?, ?, ?, ?)", (layer, name, bits, root))

    def map_roots(self, layer: int) -> dict[str, bytes]:
        """The kept roots of all named maps."""
        return dict(self.execute("SELECT map, root FROM maps WHERE layer = ?", (layer,)))


_NODE = "SELECT n.id, n.node_hash, p.name, n.name, n.kind FROM nodes n JOIN packages p ON p.id = n.package_id"
