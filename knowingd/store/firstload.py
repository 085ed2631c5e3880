"""The first load of a database: everything is numbered in memory before anything is written.

Nothing is there yet, so nothing is looked up, no events are recorded, and the maps are made whole. They are made from
the numbered rows, so that other processes can make them while this one writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.hashing import NodeId, node_hash

from knowingd.store.codes import KIND_CODES
from knowingd.store.compact import Compact
from knowingd.store.packing import pack_ids, pack_sites
from knowingd.store.rows import MAX_NODES, AliasRow, FileRow, GraphRows, MemberRow, NodeRow, edge_number, signed_slot
from knowingd.store.session import Session, facts_text, insert, split_alias, tail_of

_CODES = edge_number(0, 63, 0, 15)  # the bits of an edge that are no ids


class _Numbers(dict[str, int]):
    """Texts and their ids, given in the order in which texts are asked for."""

    def __missing__(self, text: str) -> int:
        found = self[text] = len(self) + 1
        return found


class FirstLoad:
    """The records of one graph, for a database in which there is nothing."""

    def __init__(self, session: Session, layer: int, units: Sequence[Compact]) -> None:
        """Number everything; `rows` is what the maps need of it."""
        self._session = session
        self._units = units
        nodes, ids = _numbered(units)
        packages = _Numbers()
        package_ids = {number: packages[row.node.package] for number, row in nodes.items()}
        self._ids_of_units = [_ids_of(unit, ids) for unit in units]
        edges: set[int] = set()
        aliases: list[AliasRow] = []
        members: list[MemberRow] = []
        facts: list[tuple[int, dict[str, Any]]] = []
        files: list[FileRow] = []
        coverage: list[tuple[int, str, str]] = []
        for unit, at in zip(units, self._ids_of_units, strict=True):
            edges.update([at[one >> 34] << 34 | at[one >> 4 & 0xFFFFFF] << 4 | one & _CODES for one in unit.edges])
            for name, target, claimed in unit.aliases:
                aliases.append(AliasRow(len(aliases) + 1, name, at[target], claimed))
            for owner, name, target in unit.members:
                members.append(MemberRow(len(members) + 1, at[owner], name, at[target]))
            facts += ((at[node], found) for node, found in unit.facts)
            for file in unit.files:
                files.append(FileRow(len(files) + 1, file.path, file.content, file.attributes))
            for path, reason in unit.coverage.items():
                coverage.append((len(coverage) + 1, path, reason))
        self.rows = GraphRows(
            layer,
            range(1, len(nodes) + 1),
            nodes,
            package_ids,
            {number: name for name, number in packages.items()},
            sorted(edges),
            aliases,
            members,
            facts,
            files,
            coverage,
        )

    def write(self) -> None:
        """Write all rows."""
        session, rows, layer = self._session, self.rows, self.rows.layer
        insert(session, "INSERT INTO packages", rows.packages.items())
        insert(
            session,
            "INSERT INTO nodes",
            (
                (number, signed_slot(key), rows.package_ids[number], node.name, KIND_CODES[node.kind], 1 << layer, None)
                for number, key, node in rows.nodes.values()
            ),
        )
        insert(session, "INSERT INTO edges (id)", zip(rows.edges, strict=True))
        self._write_aliases()
        insert(
            session,
            "INSERT INTO members",
            (
                (number, layer, owner, None if tail_of(rows.nodes[target].node.name) == name else name, target)
                for number, owner, name, target in rows.members
            ),
        )
        insert(session, "INSERT INTO facts", sorted((layer, node, facts_text(found)) for node, found in rows.facts))
        self._write_files()
        insert(session, "INSERT INTO coverage", ((number, layer, *rest) for number, *rest in rows.coverage))
        session.remember(rows.nodes)

    def _write_aliases(self) -> None:
        prefixes = _Numbers()
        found = []
        for number, name, target, claimed in self.rows.aliases:
            prefix, tail = split_alias(name, self.rows.nodes[target].node.name)
            found.append((number, self.rows.layer, prefixes[prefix], tail, target, int(claimed)))
        insert(self._session, "INSERT INTO alias_prefixes", ((number, text) for text, number in prefixes.items()))
        insert(self._session, "INSERT INTO aliases", found)

    def _write_files(self) -> None:
        layer, rows = self.rows.layer, iter(self.rows.files)
        files: list[tuple[Any, ...]] = []
        declarations: list[tuple[Any, ...]] = []
        sites: list[tuple[int, int, bytes]] = []
        for unit, at in zip(self._units, self._ids_of_units, strict=True):
            for file in unit.files:
                row = next(rows)
                declarations += ((at[node], row.id, *rest) for node, *rest in file.declarations)
                sites += (
                    (at[source], row.id, pack_sites([(at[one[0]], *one[1:]) for one in found]))
                    for source, found in file.sites.items()
                )
                declared = {at[one[0]] for one in file.declarations}
                files.append((row.id, layer, *row[1:], pack_ids(declared), pack_ids([at[one] for one in file.sites])))
        insert(self._session, "INSERT INTO files", files)
        insert(self._session, "INSERT INTO declarations", sorted(declarations))
        insert(self._session, "INSERT INTO sites", sorted(sites))


def _numbered(units: Sequence[Compact]) -> tuple[dict[int, NodeRow], dict[bytes, int]]:
    """All nodes, and their ids by hash: given as records come, so that neighbours in the code are neighbours here."""
    nodes: dict[int, NodeRow] = {}
    ids: dict[bytes, int] = {}
    for number, parts in enumerate(dict.fromkeys(node for unit in units for node in unit.nodes), 1):
        key = node_hash(*parts)
        nodes[number] = NodeRow(number, key, NodeId(*parts))
        ids[key] = number
    if len(nodes) >= MAX_NODES:
        raise InvalidNameError(f"a repository of more than {MAX_NODES:,} symbols cannot be kept")
    return nodes, ids


def _ids_of(unit: Compact, ids: dict[bytes, int]) -> list[int]:
    """The ids of a unit's nodes by their places."""
    try:
        return [ids[key] for key in unit.keys]
    except KeyError as error:
        raise InvalidNameError(f"the node {error.args[0].hex()[:16]} is referred to and not in the graph") from None
