"""The named maps of a graph over the store, and their roots: all of them once, and from then on what changed.

Contents come from the identity layer by id; roots of buckets are kept by `trees`. A branch, an inbound set or a names
set that is large has a tree of its own, so that one more call of a popular function costs one bucket and not the set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from knowing_protocol import graph
from knowing_protocol.critbit import MerkleMap, leaf_hash, roots_of
from knowing_protocol.graph import Level
from knowing_protocol.hashing import relation_entry, relation_hash, set_digest

from knowingd.snapshot import contents, trees
from knowingd.snapshot.building import builders, keep_built
from knowingd.snapshot.contents import Items, Names, Segments, names_type, set_value, set_values
from knowingd.snapshot.relations import SOURCE_SHIFT, large_members
from knowingd.snapshot.trees import Content, Cut, Entries, Trees, Within, anywhere, cut, cut_entries
from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, PROVENANCES
from knowingd.store.interface import GraphSession
from knowingd.store.packing import pack_ids, unpack_ids
from knowingd.store.rows import (
    PROVENANCE_BITS,
    REPUBLISHED_CODE,
    TYPE_BITS,
    BranchEvent,
    GraphRows,
    InboundRow,
    MemberRow,
    Touched,
    slot_of,
)


def code_of(edge_type: int, target: int) -> int:
    """An inbound set as one number."""
    return target << TYPE_BITS | edge_type


class Maps:
    """The maps of one graph in one transaction."""

    def __init__(self, session: GraphSession, layer: int, *, read_only: bool = False) -> None:
        """`read_only` makes contents without using or making trees for large sets."""
        self.session = session
        self.layer = layer
        self.read_only = read_only
        self.caches = session.caches
        self.trees = Trees(self.caches, layer)
        self._segments = Segments(session.node)
        self._values: dict[int, bytes | None] = {}  # code of an inbound set to its value, as this update left it
        self.contents: dict[str, Content] = {
            "edges": self._packages,
            "inbound": self._inbound,
            "names": self._names,
            "nodes": self._nodes,
            "aliases": self._aliases,
            "alias_of": self._alias_of,
            "members": self._members,
            "facts": self._facts,
            "files": self._files,
            "coverage": self._coverage,
        }

    # Contents of the named maps

    def _nodes(self, ids: Collection[int] | None, _: Within) -> Entries:
        return contents.of_nodes(self.session.node_ids(self.layer, ids), self.session.load_nodes(ids))

    def _aliases(self, ids: Collection[int] | None, _: Within) -> Entries:
        rows = list(self.session.aliases(self.layer, ids))
        return contents.of_aliases(rows, self.session.load_nodes({row.target for row in rows}))

    def _members(self, ids: Collection[int] | None, _: Within) -> Entries:
        rows = list(self.session.members(self.layer, ids))
        return contents.of_members(rows, self.session.load_nodes(_ends(rows)))

    def _alias_of(self, ids: Collection[int] | None, _: Within) -> Entries:
        names = self._names_to(ids)
        return contents.of_names(names, self.session.load_nodes(names.keys()))

    def _names_to(self, ids: Collection[int] | None) -> Names:
        members = list(self.session.members_to(self.layer, ids))
        nodes = self.session.load_nodes(_ends(members))
        return contents.names_of(self.session.aliases_of(self.layer, ids), members, nodes, self._segments.of)

    def _facts(self, ids: Collection[int] | None, _: Within) -> Entries:
        rows = list(self.session.facts(self.layer, ids))
        return contents.of_facts(rows, self.session.load_nodes([node for node, _ in rows]))

    def _files(self, ids: Collection[int] | None, _: Within) -> Entries:
        return contents.of_files(self.session.files(self.layer, ids))

    def _coverage(self, ids: Collection[int] | None, _: Within) -> Entries:
        return contents.of_coverage(self.session.coverage(self.layer, ids))

    def _packages(self, ids: Collection[int] | None, _: Within) -> Entries:
        types: dict[int, list[bytes]] = defaultdict(list)
        for package, edge_type, root in self.caches.branches(self.layer, ids):
            types[package].append(graph.edge_type_key(EDGE_TYPES[edge_type]) + root)
        places = [(graph.package_key(self.session.package_name(package)), package) for package in types]
        values = zip((key for key, _ in places), roots_of(Level.EDGE_TYPES, types.values()), strict=True)
        return Entries(places, dict(values))

    def _inbound(self, ids: Collection[int] | None, _: Within) -> Entries:
        values = self._inbound_values(ids)
        targets = {code >> TYPE_BITS for code in values}
        nodes = self.session.load_nodes(targets)
        return contents.of_inbound(values, {one: nodes[one].hash for one in targets})

    def _inbound_values(self, codes: Collection[int] | None) -> dict[int, bytes]:
        """The values of inbound sets by code; of those that are empty, none."""
        missing: set[int] | None = None
        if codes is not None:
            missing = {code for code in codes if code not in self._values}
        unmade = {}
        targets = None if missing is None else {code >> TYPE_BITS for code in missing}
        for row in self.caches.inbound(self.layer, targets):
            code = code_of(row.type, row.target)
            if code in missing if missing is not None else code not in self._values:
                if row.sources is not None and row.value is None:
                    unmade[code] = unpack_ids(row.sources)
                else:
                    self._values[code] = row.value
        nodes = self.session.load_nodes(
            {code >> TYPE_BITS for code in unmade}.union(
                one >> PROVENANCE_BITS for sources in unmade.values() for one in sources
            )
        )
        several: dict[int, list[bytes]] = {}
        for code, sources in unmade.items():
            key, name = nodes[code >> TYPE_BITS].hash, EDGE_TYPES[code & REPUBLISHED_CODE]
            if len(sources) == 1:  # most symbols are used once
                (one,) = sources
                relation, digest = relation_entry(nodes[one >> PROVENANCE_BITS].hash, key, name, _ALONE[one & 15])
                self._values[code] = set_digest(leaf_hash(Level.INBOUND_SET, relation, digest), 1)
            else:
                several[code] = [relation + digest for relation, digest in _relations(nodes, sources, key, name)]
        self._values.update(zip(several, set_values(Level.INBOUND_SET, several.values()), strict=True))
        asked = self._values if codes is None else codes
        return {code: value for code in asked if (value := self._values.get(code)) is not None}

    def relations_to(self, edge_type: int, target: int, sources: Collection[int]) -> Items:
        """The relations of sources (each with a provenance) to one target."""
        nodes = self.session.load_nodes([target, *(one >> PROVENANCE_BITS for one in sources)])
        return dict(_relations(nodes, sources, nodes[target].hash, EDGE_TYPES[edge_type]))

    def _names(self, ids: Collection[int] | None, within: Within) -> Entries:
        """Targets by the last segments of their names; a large set stands as the tree it has, by its negative id."""
        large = {code for code in ids or () if code < 0}
        codes = None if ids is None else [code for code in ids if code >= 0]
        values = self._target_values(codes)
        nodes = self.session.load_nodes({code >> TYPE_BITS for code in values})
        found = Entries([], {})
        small: dict[bytes, list[bytes]] = {}
        for subject, places in contents.by_names(values, self._segments.of).items():
            key = graph.names_key(names_type(subject[0]), subject[1])
            if subject in self._large_names or not within(key):
                continue
            records = [nodes[code >> TYPE_BITS].hash + values[code] for code in places]
            if len(places) > trees.LARGE_SET and not self.read_only:
                placed = [(nodes[code >> TYPE_BITS].hash, code) for code in places]
                made = self.trees.keep(cut(Level.NAMES_SET, records, placed), "names-set", *subject)
                self._large_names[subject] = made.tree
                large.add(-made.tree)
            else:
                small[key] = records
                found.places.extend((key, code) for code in places)
        found.values.update(zip(small, set_values(Level.NAMES_SET, small.values()), strict=True))
        for row in self.caches.trees(self.layer, "names-set", [-one for one in large]) if large else ():
            key = graph.names_key(names_type(row.type), row.subject)
            found.values[key] = set_digest(row.root, row.size)
            found.places.append((key, -row.id))
        return found

    def _target_values(self, codes: Collection[int] | None) -> dict[int, bytes]:
        """What targets stand for in `names`: their inbound sets, or the names that a name from outside has here."""
        if codes is None:
            outside = plain = None
        else:
            outside = [code >> TYPE_BITS for code in codes if code & REPUBLISHED_CODE == REPUBLISHED_CODE]
            plain = [code for code in codes if code & REPUBLISHED_CODE != REPUBLISHED_CODE]
        values = self._inbound_values(plain)
        if outside is None or outside:
            named = self._names_to(outside)
            nodes = self.session.load_nodes(named.keys())
            values.update(
                (code_of(REPUBLISHED_CODE, node), graph.names_value(names))
                for node, names in named.items()
                if not nodes[node].node.repo
            )
        return values

    @cached_property
    def _large_names(self) -> dict[tuple[int, str], int]:
        """Edge type and segment of the names sets that have trees of their own."""
        rows = [] if self.read_only else self.caches.trees(self.layer, "names-set")
        return {(row.type, row.subject): row.id for row in rows}

    def _names_set(self, ids: Collection[int] | None, _: Within) -> Entries:
        """The targets of one names set, by code."""
        values = self._target_values(ids)
        nodes = self.session.load_nodes({code >> TYPE_BITS for code in values})
        places = [(nodes[code >> TYPE_BITS].hash, code) for code in values]
        return Entries(places, {key: values[code] for key, code in places})

    # Everything at once

    def build_all(self) -> dict[str, bytes]:
        """The roots of all maps of a graph of which nothing is kept."""
        works = builders(rows_of(self.session, self.layer), self.caches.new_tree_id())
        return keep_built(self.caches, [work() for work in works])

    def _observed(self, edges: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int, list[int]]]:
        """Relations of this graph, and in which ways each was observed, from edges that come in order."""
        layer_of, layer = LAYER_OF_PROVENANCE, self.layer
        last: tuple[int, int, int, list[int]] | None = None
        for source, edge_type, target, provenance in edges:
            if layer_of[provenance] != layer:
                continue
            if last is not None:
                if last[0] == source and last[2] == target and last[1] == edge_type:
                    last[3].append(provenance)
                    continue
                yield last
            last = (source, edge_type, target, [provenance])
        if last is not None:
            yield last

    def _inbound_row(self, code: int, content: Items, sources: list[int]) -> InboundRow:
        """A set as it is kept; one that is large gets a tree."""
        target, edge_type = code >> TYPE_BITS, code & REPUBLISHED_CODE
        if len(content) <= trees.LARGE_SET:
            value = self._values[code] = set_value(Level.INBOUND_SET, content)
            return InboundRow(target, edge_type, value if len(content) > trees.CHEAP_SET else None, pack_ids(sources))
        nodes = self.session.load_nodes([one >> PROVENANCE_BITS for one in sources])
        name, key = EDGE_TYPES[edge_type], self.session.node(target).hash
        places = [(relation_hash(nodes[one >> PROVENANCE_BITS].hash, key, name), one) for one in large_members(sources)]
        return self._large_row(code, cut_entries(Level.INBOUND_SET, Entries(places, content)))

    def _large_row(self, code: int, whole: Cut) -> InboundRow:
        target, edge_type = code >> TYPE_BITS, code & REPUBLISHED_CODE
        made = self.trees.keep(whole, "inbound-set", edge_type, target)
        value = self._values[code] = set_digest(made.root, made.size)
        return InboundRow(target, edge_type, value, None)

    # What changed

    def update(self, touched: Touched, *, sequence: int, with_events: bool) -> dict[str, bytes]:
        """Bring all maps up to date with what was touched; the roots of the named maps."""
        kept = {name: self.caches.tree(self.layer, name) for name in self.contents}
        if None in kept.values():
            return self.build_all()
        self._update_branches(touched, sequence=sequence, with_events=with_events)
        self._update_inbound(touched)
        self._update_names(touched)
        roots = {}
        for name, content in self.contents.items():
            row = kept[name]
            assert row is not None
            roots[name] = self.trees.update(row, graph.MAP_LEVELS[name], touched.members.get(name, ()), content).root
        return roots

    def _update_branches(self, touched: Touched, *, sequence: int, with_events: bool) -> None:
        packages = self.session.package_ids({source for source, _, _ in touched.relations})
        by_branch: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for source, edge_type, target in touched.relations:
            by_branch[packages[source], edge_type].append((source, target))
        before = {
            (package, edge_type): root
            for package, edge_type, root in self.caches.branches(self.layer, {package for package, _ in by_branch})
        }
        content: dict[tuple[int, int], Items] = {}
        for package in {package for package, _ in by_branch}:
            wanted = {edge_type for where, edge_type in by_branch if where == package}
            small = {one for one in wanted if not self.caches.tree(self.layer, "branch", one, package)}
            content |= self.branch_contents(package, small)
        for (package, edge_type), relations in by_branch.items():
            found = content.get((package, edge_type))
            root = self._branch_root(package, edge_type, relations, found)
            if root is None:
                self.caches.drop_branch(self.layer, package, edge_type)
            else:
                self.caches.put_branches([(self.layer, package, edge_type, root)])
            old = before.get((package, edge_type))
            if with_events and root != old:
                self.session.put_branch_event(sequence, BranchEvent(self.layer, package, edge_type, old, root))
            touched.note("edges", slot_of(graph.package_key(self.session.package_name(package))), package)

    def branch_contents(self, package: int, types: set[int]) -> dict[tuple[int, int], Items]:
        """The relations of a package's branches of some types."""
        found: dict[tuple[int, int], Items] = {(package, edge_type): {} for edge_type in types}
        if not types:
            return found
        observed = list(self._observed(row for row in self.session.edges_of_package(package) if row.type in types))
        nodes = self.session.load_nodes({one for source, _, target, _ in observed for one in (source, target)})
        for source, edge_type, target, codes in observed:
            relation, digest = relation_entry(
                nodes[source].hash, nodes[target].hash, EDGE_TYPES[edge_type], [PROVENANCES[code] for code in codes]
            )
            found[package, edge_type][relation] = digest
        return found

    def _branch_root(
        self, package: int, edge_type: int, relations: list[tuple[int, int]], content: Items | None
    ) -> bytes | None:
        """The root of a branch from its content, or through its tree where it has one."""
        if content is not None and len(content) <= trees.LARGE_BRANCH:
            return MerkleMap.of(Level.RELATIONS, content).root if content else None
        row = self.caches.tree(self.layer, "branch", edge_type, package)

        relations_of = self.branch_content(edge_type)
        if row is None:
            entries = relations_of(self.branch_relations(package, edge_type), anywhere)
            return self.trees.build(Level.RELATIONS, "branch", entries, edge_type, package).root
        nodes = self.session.load_nodes({one for pair in relations for one in pair})
        slots = [
            (
                slot_of(relation_hash(nodes[source].hash, nodes[target].hash, EDGE_TYPES[edge_type])),
                source << SOURCE_SHIFT | target,
            )
            for source, target in relations
        ]
        made = self.trees.update(row, Level.RELATIONS, slots, relations_of)
        if made.size == 0:
            self.caches.drop_tree(row.id)
            return None
        return made.root

    def branch_content(self, edge_type: int) -> Content:
        """The content of branches of a type that have trees: source and target as one number."""

        def relations_of(ids: Collection[int] | None, _: Within) -> Entries:
            pairs = [ends_of(one) for one in ids or ()]
            nodes = self.session.load_nodes({one for pair in pairs for one in pair})
            found = Entries([], {})
            for source, target in pairs:
                codes = [
                    code
                    for code in self.session.provenances(source, edge_type, target)
                    if LAYER_OF_PROVENANCE[code] == self.layer
                ]
                if codes:
                    relation, digest = relation_entry(
                        nodes[source].hash,
                        nodes[target].hash,
                        EDGE_TYPES[edge_type],
                        [PROVENANCES[code] for code in codes],
                    )
                    found.places.append((relation, source << SOURCE_SHIFT | target))
                    found.values[relation] = digest
            return found

        return relations_of

    def branch_relations(self, package: int, edge_type: int) -> set[int]:
        """The relations of a branch as numbers."""
        return {
            edge.source << SOURCE_SHIFT | edge.target
            for edge in self.session.edges_of_package(package)
            if edge.type == edge_type and LAYER_OF_PROVENANCE[edge.provenance] == self.layer
        }

    def _update_inbound(self, touched: Touched) -> None:
        by_target: dict[tuple[int, int], set[int]] = defaultdict(set)
        for source, edge_type, target in touched.relations:
            by_target[edge_type, target].add(source)
        targets = {target for _, target in by_target}
        kept = {(row.type, row.target): row for row in self.caches.inbound(self.layer, targets)}
        nodes = self.session.load_nodes(targets)
        rows, gone = [], []
        for (edge_type, target), sources in by_target.items():
            row = self._changed_inbound(kept.get((edge_type, target)), edge_type, target, sources)
            if row is None:
                gone.append((edge_type, target))
                self._values[code_of(edge_type, target)] = None
            else:
                rows.append(row)
            touched.note(
                "inbound",
                slot_of(graph.inbound_key(EDGE_TYPES[edge_type], nodes[target].hash)),
                code_of(edge_type, target),
            )
        self.caches.put_inbound(self.layer, rows)
        self.caches.drop_inbound(self.layer, gone)

    def _changed_inbound(
        self, row: InboundRow | None, edge_type: int, target: int, changed: set[int]
    ) -> InboundRow | None:
        """An inbound set after relations of some sources came or went; None where it is empty."""
        code = code_of(edge_type, target)
        now = {
            source << PROVENANCE_BITS | provenance
            for source in changed
            for provenance in self.session.provenances(source, edge_type, target)
            if LAYER_OF_PROVENANCE[provenance] == self.layer
        }
        if row is not None and row.sources is None:
            return self._changed_large(edge_type, target, changed)
        before = unpack_ids(row.sources) if row is not None and row.sources is not None else []
        sources = sorted(now.union(one for one in before if one >> PROVENANCE_BITS not in changed))
        if not sources:
            return None
        return self._inbound_row(code, self.relations_to(edge_type, target, sources), sources)

    def _changed_large(self, edge_type: int, target: int, changed: set[int]) -> InboundRow | None:
        tree = self.caches.tree(self.layer, "inbound-set", edge_type, target)
        assert tree is not None
        nodes = self.session.load_nodes([*changed, target])
        name, key = EDGE_TYPES[edge_type], nodes[target].hash

        relations_of = self.inbound_content(edge_type, target)
        slots = [
            (slot_of(relation_hash(nodes[source].hash, key, name)), source << PROVENANCE_BITS) for source in changed
        ]
        made = self.trees.update(tree, Level.INBOUND_SET, slots, relations_of)
        if made.size == 0:
            self.caches.drop_tree(tree.id)
            return None
        value = self._values[code_of(edge_type, target)] = set_digest(made.root, made.size)
        return InboundRow(target, edge_type, value, None)

    def inbound_content(self, edge_type: int, target: int) -> Content:
        """The content of a large inbound set, by its members: each source once, with its provenance if it has one."""
        name, key = EDGE_TYPES[edge_type], self.session.node(target).hash

        def relations_of(ids: Collection[int] | None, _: Within) -> Entries:
            observed = [
                source << PROVENANCE_BITS | provenance
                for source in {one >> PROVENANCE_BITS for one in ids or ()}
                for provenance in self.session.provenances(source, edge_type, target)
                if LAYER_OF_PROVENANCE[provenance] == self.layer
            ]
            found = self.relations_to(edge_type, target, observed)
            rows = self.session.load_nodes({one >> PROVENANCE_BITS for one in observed})
            places = [
                (relation_hash(rows[one >> PROVENANCE_BITS].hash, key, name), one) for one in large_members(observed)
            ]
            return Entries(places, found)

        return relations_of

    def _update_names(self, touched: Touched) -> None:
        """Every target whose inbound set or names changed may stand elsewhere in `names`, or for another value."""
        codes = {code_of(edge_type, target) for _, edge_type, target in touched.relations}
        nodes = self.session.load_nodes({*touched.named, *(code >> TYPE_BITS for code in codes)})
        codes.update(code_of(REPUBLISHED_CODE, one) for one in touched.named if not nodes[one].node.repo)
        in_trees: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for code in codes:
            target, edge_type = code >> TYPE_BITS, code & REPUBLISHED_CODE
            for segment in self._segments.of(target):
                slot = slot_of(graph.names_key(names_type(edge_type), segment))
                tree = self._large_names.get((edge_type, segment))
                if tree is None:
                    touched.note("names", slot, code)
                else:
                    in_trees[tree].add((slot_of(nodes[target].hash), code))
                    touched.note("names", slot, -tree)
        for row in self.caches.trees(self.layer, "names-set", in_trees.keys()) if in_trees else ():
            made = self.trees.update(row, Level.NAMES_SET, in_trees[row.id], self._names_set)
            if made.size == 0:
                self.caches.drop_tree(row.id)
                del self._large_names[row.type, row.subject]


_ALONE = [(text,) for text in PROVENANCES]
TARGET_MASK = (1 << SOURCE_SHIFT) - 1


def rows_of(session: GraphSession, layer: int) -> GraphRows:
    """Everything in one graph of a database; most overlays are empty, and need no nodes."""
    ids, edges = session.node_ids(layer), list(session.edge_numbers(layer))
    aliases, members, facts = list(session.aliases(layer)), list(session.members(layer)), list(session.facts(layer))
    named = bool(ids or edges or aliases or members or facts)
    return GraphRows(
        layer,
        ids,
        session.load_nodes(None) if named else {},
        session.package_ids() if named else {},
        session.packages(),
        edges,
        aliases,
        members,
        facts,
        list(session.files(layer)),
        list(session.coverage(layer)),
    )


def ends_of(number: int) -> tuple[int, int]:
    """Source and target of a relation that stands as one number."""
    return number >> SOURCE_SHIFT, number & TARGET_MASK


def _ends(rows: Iterable[MemberRow]) -> set[int]:
    return {one for row in rows for one in (row.owner, row.target)}


def _relations(
    nodes: contents.Nodes, sources: Collection[int], target: bytes, edge_type: str
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the relations of sources (each with a provenance) to one target."""
    observed: dict[int, list[str]] = {}
    for one in sources:
        observed.setdefault(one >> PROVENANCE_BITS, []).append(PROVENANCES[one & 15])
    for source, provenances in observed.items():
        yield relation_entry(nodes[source].hash, target, edge_type, provenances)
