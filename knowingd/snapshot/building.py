"""All maps of a graph at once, from its rows: for a first snapshot, and whenever nothing is kept.

Pure: no store is asked, and what is to be kept comes back as rows. So the two builders can run in processes of their
own, while this one writes what the rows are about. Afterwards `maps` keeps them up to date.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from knowing_protocol import graph
from knowing_protocol.critbit import root_of, roots_of
from knowing_protocol.graph import MAP_LEVELS, Level
from knowing_protocol.hashing import set_digest

from knowingd.snapshot import contents, trees
from knowingd.snapshot.contents import Segments, set_values
from knowingd.snapshot.relations import Relations, branch_members, gathered, grouped, large_members, records_of
from knowingd.snapshot.trees import Entries, Root, cut, cut_entries, keep
from knowingd.store.caches import CacheRows
from knowingd.store.codes import EDGE_TYPES
from knowingd.store.interface import GraphCaches
from knowingd.store.packing import pack_ids
from knowingd.store.rows import REPUBLISHED_CODE, TYPE_BITS, AliasRow, GraphRows, MemberRow

PUBLISHED: Final = ("nodes", "aliases", "alias_of", "members", "facts", "files", "coverage")


class Built(NamedTuple):
    """Roots of named maps, and the rows to keep."""

    roots: dict[str, bytes]
    rows: CacheRows


def builders(rows: GraphRows, first_tree: int) -> list[Callable[[], Built]]:
    """What makes the maps: those about uses, which are most of the work, and those that need no edges."""
    return [partial(_uses, rows, first_tree + len(PUBLISHED)), partial(_published, rows, first_tree)]


def keep_built(caches: GraphCaches, built: Sequence[Built]) -> dict[str, bytes]:
    """Keep what was built, and give all roots; in the order of the trees, which fills the database's pages."""
    roots: dict[str, bytes] = {}
    for one in sorted(built, key=lambda one: one.rows.next_tree):
        caches.put_rows(one.rows)
        roots |= one.roots
    return roots


def _published(rows: GraphRows, first_tree: int) -> Built:
    nodes = rows.nodes
    built = Built({}, CacheRows(rows.layer, first_tree))
    names = contents.names_of(rows.aliases, rows.members, nodes, Segments(nodes.__getitem__).of)
    entries: dict[str, Callable[[], Entries]] = {
        "nodes": lambda: contents.of_nodes(rows.ids, nodes),
        "aliases": lambda: contents.of_aliases(rows.aliases, nodes),
        "alias_of": lambda: contents.of_names(names, nodes),
        "members": lambda: contents.of_members(rows.members, nodes),
        "facts": lambda: contents.of_facts(rows.facts, nodes),
        "files": lambda: contents.of_files(rows.files),
        "coverage": lambda: contents.of_coverage(rows.coverage),
    }
    for name in PUBLISHED:
        built.roots[name] = keep(built.rows, rows.layer, cut_entries(MAP_LEVELS[name], entries[name]()), name).root
    return built


def _uses(rows: GraphRows, first_tree: int) -> Built:
    return _Uses(rows, first_tree).build()


class _Uses:
    """Branches, inbound sets and names sets, and the maps of each."""

    def __init__(self, rows: GraphRows, first_tree: int) -> None:
        self.graph = rows
        self.hashes = {number: row.hash for number, row in rows.nodes.items()}
        self.rows = CacheRows(rows.layer, first_tree)
        self.values: dict[int, bytes] = {}  # of inbound sets, by `target << TYPE_BITS | edge type`

    def build(self) -> Built:
        """Everything, from the relations up."""
        relations = gathered(self.graph.edges)
        groups = grouped(relations, records_of(relations, self.hashes), self.graph.package_ids)
        self._branches(relations, groups.branches)
        self._inbound_sets(groups.inbound, groups.sources)
        del groups
        roots = {"edges": self._map("edges", self._packages())}
        roots["inbound"] = self._map("inbound", contents.of_inbound(self.values, self.hashes))
        roots["names"] = self._map("names", self._names())
        return Built(roots, self.rows)

    def _map(self, name: str, entries: Entries) -> bytes:
        return keep(self.rows, self.graph.layer, cut_entries(MAP_LEVELS[name], entries), name).root

    def _set(self, level: int, records: list[bytes], members: list[int], name: str, code: int, subject: object) -> Root:
        """A large set, from records and the members that they stand for, in the same order."""
        places = [(record[:32], member) for record, member in zip(records, members, strict=True)]
        return keep(self.rows, self.graph.layer, cut(level, records, places), name, code, subject)

    def _branches(self, relations: Relations, branches: dict[int, list[bytes]]) -> None:
        long = [code for code, records in branches.items() if len(records) > trees.LARGE_BRANCH]
        members = branch_members(relations, self.graph.package_ids, long)
        roots = {
            code: self._set(
                Level.RELATIONS,
                branches.pop(code),
                members[code],
                "branch",
                code & REPUBLISHED_CODE,
                code >> TYPE_BITS,
            ).root
            for code in long
        }
        roots.update(zip(branches, roots_of(Level.RELATIONS, branches.values()), strict=True))
        self.rows.branches += (
            (self.graph.layer, code >> TYPE_BITS, code & REPUBLISHED_CODE, root) for code, root in sorted(roots.items())
        )

    def _inbound_sets(self, inbound: dict[int, list[bytes]], sources: dict[int, list[int]]) -> None:
        layer, rows = self.graph.layer, self.rows.inbound
        large = [code for code, records in inbound.items() if len(records) > trees.LARGE_SET]
        for code in large:
            target, edge_type = code >> TYPE_BITS, code & REPUBLISHED_CODE
            members = large_members(sources.pop(code))
            made = self._set(Level.INBOUND_SET, inbound.pop(code), members, "inbound-set", edge_type, target)
            value = self.values[code] = set_digest(made.root, made.size)
            rows.append((target, edge_type, value, None, layer))
        values = set_values(Level.INBOUND_SET, inbound.values())
        for code, value, records in zip(inbound, values, inbound.values(), strict=True):
            self.values[code] = value
            kept = value if len(records) > trees.CHEAP_SET else None
            rows.append((code >> TYPE_BITS, code & REPUBLISHED_CODE, kept, pack_ids(sources[code]), layer))
        rows.sort(key=lambda row: row[:2])

    def _packages(self) -> Entries:
        types: dict[int, list[bytes]] = defaultdict(list)
        for _, package, code, root in self.rows.branches:
            types[package].append(graph.edge_type_key(EDGE_TYPES[code]) + root)
        places = [(graph.package_key(self.graph.packages[package]), package) for package in types]
        return Entries(places, {key: root_of(Level.EDGE_TYPES, types[package]) for key, package in places})

    def _names(self) -> Entries:
        """Targets by the last segments of their names; a large set stands as its tree, by its negative id."""
        segments = Segments(self.graph.nodes.__getitem__)
        values, hashes = {**self.values, **self._republished(segments)}, self.hashes
        found = Entries([], {})
        small: dict[bytes, list[bytes]] = {}
        for (code, segment), targets in contents.by_names(values, segments.of).items():
            key = graph.names_key(contents.names_type(code), segment)
            records = [hashes[one >> TYPE_BITS] + values[one] for one in targets]
            if len(targets) > trees.LARGE_SET:
                made = self._set(Level.NAMES_SET, records, targets, "names-set", code, segment)
                found.values[key] = set_digest(made.root, made.size)
                found.places.append((key, -made.tree))
            else:
                small[key] = records
                found.places.extend([(key, one) for one in targets])
        found.values.update(zip(small, set_values(Level.NAMES_SET, small.values()), strict=True))
        return found

    def _republished(self, segments: Segments) -> dict[int, bytes]:
        """The values of names from outside that have names here."""
        nodes = self.graph.nodes

        def outside(row: AliasRow | MemberRow) -> bool:
            return not nodes[row.target].node.repo

        aliases, members = filter(outside, self.graph.aliases), filter(outside, self.graph.members)
        names = contents.names_of(aliases, members, nodes, segments.of)
        return {node << TYPE_BITS | REPUBLISHED_CODE: graph.names_value(found) for node, found in names.items()}
