"""The kept roots of a repository's maps, and the inbound sets: all of it made from the identity layer, none of it
from a peer, and dropped and made again at will.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from knowing_protocol.graph import MAP_LEVELS

from knowingd.store.codes import LAYER_OF_PROVENANCE
from knowingd.store.packing import pack_buckets, unpack_buckets, unpack_ids
from knowingd.store.rows import BLOCK_BITS, NO_TYPE, PROVENANCE_BITS, SEVERAL, InboundRow, TreeRow
from knowingd.store.session import Session, insert

HASH = 32


@dataclass(slots=True)
class CacheRows:
    """Rows for the cache tables that are made before they are written, perhaps by another process."""

    layer: int
    next_tree: int
    branches: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    inbound: list[tuple[int, int, bytes | None, bytes | None, int]] = field(default_factory=list)
    trees: list[tuple[Any, ...]] = field(default_factory=list)
    blocks: list[tuple[int, bytes, bytes]] = field(default_factory=list)

    def new_tree_id(self) -> int:
        """See `Caches`."""
        self.next_tree += 1
        return self.next_tree - 1

    def put_tree(self, row: TreeRow) -> None:
        """See `Caches`."""
        self.trees.append((*row,))

    def put_blocks(self, tree: int, rows: Iterable[tuple[int, list[bytes], list[list[int]]]]) -> None:
        """See `Caches`."""
        self.blocks += packed_blocks(tree, rows)


class Caches:
    """The cache tables behind one session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def drop(self) -> None:
        """Forget everything that can be made again."""
        for table in ("branches", "inbound", "trees", "tree_blocks"):
            self.session.execute(f"DELETE FROM {table}")

    def put_rows(self, rows: CacheRows) -> None:
        """Keep what was made of a whole graph."""
        insert(self.session, "INSERT OR REPLACE INTO branches", rows.branches)
        insert(self.session, "INSERT OR REPLACE INTO inbound (target, type, value, sources, layer)", rows.inbound)
        insert(self.session, "INSERT OR REPLACE INTO trees", rows.trees)
        insert(self.session, "INSERT OR REPLACE INTO tree_blocks", rows.blocks)

    # Branches

    def branches(self, layer: int, packages: Collection[int] | None = None) -> Iterator[tuple[int, int, bytes]]:
        """Package, edge type and root."""
        query = "SELECT package_id, type, root FROM branches WHERE layer = ?"
        return self.session.select(query, "package_id", packages, layer)

    def put_branches(self, rows: Iterable[tuple[int, int, int, bytes]]) -> None:
        """Keep roots of branches: layer, package, type, root."""
        insert(self.session, "INSERT OR REPLACE INTO branches", rows)

    def drop_branch(self, layer: int, package: int, edge_type: int) -> None:
        """A branch has no relations any more."""
        self.session.execute(
            "DELETE FROM branches WHERE layer = ? AND package_id = ? AND type = ?", (layer, package, edge_type)
        )

    # Inbound sets

    def inbound(self, layer: int, targets: Collection[int] | None = None) -> Iterator[InboundRow]:
        """The inbound sets of targets, of every type."""
        query = "SELECT target, type, value, sources FROM inbound WHERE layer = ?"
        return map(InboundRow._make, self.session.select(query, "target", targets, layer))

    def inbound_of(self, layer: int, edge_type: int, target: int) -> InboundRow | None:
        """One inbound set."""
        row = self.session.execute(
            "SELECT target, type, value, sources FROM inbound WHERE target = ? AND type = ? AND layer = ?",
            (target, edge_type, layer),
        ).fetchone()
        return InboundRow(*row) if row else None

    def sources(self, layer: int, edge_type: int, target: int) -> list[int]:
        """Where the relations of one type to a target come from: source * 16 + provenance."""
        row = self.inbound_of(layer, edge_type, target)
        if row is None:
            return []
        if row.sources is not None:
            return unpack_ids(row.sources)
        tree = self.tree(layer, "inbound-set", edge_type, target)
        found = []
        for one in self.members(tree.id) if tree is not None else ():
            if one & SEVERAL != SEVERAL:
                found.append(one)
                continue
            ways = self.session.provenances(one >> PROVENANCE_BITS, edge_type, target)
            found += (one & ~SEVERAL | way for way in ways if LAYER_OF_PROVENANCE[way] == layer)
        return found

    def put_inbound(self, layer: int, rows: Iterable[InboundRow]) -> None:
        """Keep inbound sets."""
        head = "INSERT OR REPLACE INTO inbound (target, type, value, sources, layer)"
        insert(self.session, head, ((*row, layer) for row in rows))

    def drop_inbound(self, layer: int, keys: Iterable[tuple[int, int]]) -> None:
        """Inbound sets (type, target) that are empty now."""
        self.session.executemany(
            "DELETE FROM inbound WHERE type = ? AND target = ? AND layer = ?", ((*key, layer) for key in keys)
        )

    # Trees

    def tree(self, layer: int, name: str, edge_type: int = NO_TYPE, subject: Any = "") -> TreeRow | None:
        """A tree by what it is of."""
        row = self.session.execute(
            "SELECT * FROM trees WHERE layer = ? AND map = ? AND type = ? AND subject = ?",
            (layer, name, edge_type, subject),
        ).fetchone()
        return TreeRow(*row) if row else None

    def trees(self, layer: int, name: str | None = None, ids: Collection[int] | None = None) -> list[TreeRow]:
        """All trees of a graph, or of one map."""
        query = "SELECT * FROM trees WHERE layer = ? AND map = coalesce(?, map)"
        return [TreeRow(*row) for row in self.session.select(query, "id", ids, layer, name)]

    def named_roots(self, layer: int) -> dict[str, bytes]:
        """The roots of the named maps of a graph, by name."""
        marks = ", ".join("?" * len(MAP_LEVELS))  # by their names, because sets can have many more trees
        query = f"SELECT map, root FROM trees WHERE layer = ? AND map IN ({marks}) AND type = ? AND subject = ''"
        return dict(self.session.execute(query, (layer, *MAP_LEVELS, NO_TYPE)))

    def new_tree_id(self) -> int:
        """An id for a tree that is about to be put."""
        (found,) = self.session.execute("SELECT coalesce(max(id), 0) + 1 FROM trees").fetchone()
        number: int = found
        return number

    def put_tree(self, row: TreeRow) -> None:
        """Keep a tree's row."""
        self.session.execute(f"INSERT OR REPLACE INTO trees VALUES ({', '.join('?' * len(row))})", row)

    def drop_tree(self, tree: int) -> None:
        """Forget a tree."""
        self.session.execute("DELETE FROM trees WHERE id = ?", (tree,))
        self.drop_blocks(tree)

    def block(self, tree: int, block: int) -> tuple[list[bytes], list[list[int]]] | None:
        """The roots of a block's buckets (empty bytes where there is none) and the members of each."""
        row = self.session.execute(
            "SELECT roots, members FROM tree_blocks WHERE id = ?", (tree << 32 | block,)
        ).fetchone()
        if row is None:
            return None
        roots = split_roots(row[0])
        return roots, unpack_buckets(row[1], len(roots))

    def members(self, tree: int) -> Iterator[int]:
        """All members of a tree."""
        rows = self.session.execute(
            "SELECT members FROM tree_blocks WHERE id >= ? AND id < ?", (tree << 32, (tree + 1) << 32)
        )
        for (packed,) in rows:
            for one in unpack_buckets(packed, 1 << BLOCK_BITS):
                yield from one

    def put_blocks(self, tree: int, rows: Iterable[tuple[int, list[bytes], list[list[int]]]]) -> None:
        """Keep blocks: number, roots and members of their buckets."""
        insert(self.session, "INSERT OR REPLACE INTO tree_blocks", packed_blocks(tree, rows))

    def drop_blocks(self, tree: int) -> None:
        """Forget all blocks of a tree."""
        self.session.execute("DELETE FROM tree_blocks WHERE id >= ? AND id < ?", (tree << 32, (tree + 1) << 32))


_NONE = bytes(HASH)


def packed_blocks(
    tree: int, rows: Iterable[tuple[int, list[bytes], list[list[int]]]]
) -> Iterator[tuple[int, bytes, bytes]]:
    """Blocks as they are kept."""
    return ((tree << 32 | block, join_roots(roots), pack_buckets(members)) for block, roots, members in rows)


def join_roots(roots: Iterable[bytes]) -> bytes:
    """Roots side by side; none is zeros."""
    return b"".join(root or _NONE for root in roots)


def split_roots(data: bytes) -> list[bytes]:
    """The roots of a blob; empty bytes where there is none."""
    found = [data[start : start + HASH] for start in range(0, len(data), HASH)]
    return [b"" if root == _NONE else root for root in found]
