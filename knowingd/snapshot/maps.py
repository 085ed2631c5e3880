"""The named maps of a graph over the store, and their roots: all of them once, and from then on what changed.

Every map but `edges` and what it is made of is cut into buckets of a few dozen keys by the leading bits of the key. The
store keeps a root for each bucket; an update computes those that were touched, and the small top over all of them. The
kept roots are this node's own work: nothing from a peer goes in here, and `fsck` makes all of them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from knowing_protocol import graph
from knowing_protocol.critbit import MerkleMap, build, build_top, empty_hash
from knowing_protocol.graph import Level
from knowing_protocol.hashing import (
    edge_hash,
    external_hash,
    relation_digest,
    relation_hash,
    set_digest,
    tagged,
)

from knowingd.store.apply import Touched
from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, PROVENANCES
from knowingd.store.session import REPUBLISHED_CODE, SLOT_BITS, Session, slot_of

KEYS_IN_A_BUCKET = 24
ALL_SLOTS = 1 << SLOT_BITS

Items = dict[bytes, bytes]


def _sets(level: Level, members: Iterable[tuple[bytes, bytes, bytes]]) -> Items:
    """Key to the value of its set, from rows of (key, member, value of the member)."""
    sets: dict[bytes, Items] = defaultdict(dict)
    for key, member, value in members:
        sets[key][member] = value
    return {key: set_digest(MerkleMap.of(level, found).root, len(found)) for key, found in sets.items()}


def _nodes(session: Session, layer: int, low: int, high: int) -> Items:
    return {row.hash: graph.node_value(row.node) for row in session.nodes_between(layer, low, high)}


def _aliases(session: Session, layer: int, low: int, high: int) -> Items:
    return _sets(
        Level.ALIAS_SET,
        (
            (external_hash(name), target, graph.alias_value(target, claimed=claimed))
            for name, target, claimed in session.aliases_between(layer, low, high)
        ),
    )


def _alias_of(session: Session, layer: int, low: int, high: int) -> Items:
    return {key: graph.names_value(names) for key, names in session.names_of_nodes_between(layer, low, high)}


def _members(session: Session, layer: int, low: int, high: int) -> Items:
    return _sets(
        Level.MEMBER_SET,
        (
            (graph.member_key(owner, name), target, target)
            for owner, name, target in session.members_between(layer, low, high)
        ),
    )


def _facts(session: Session, layer: int, low: int, high: int) -> Items:
    return {key: tagged("facts", text) for key, text in session.facts_between(layer, low, high)}


def _files(session: Session, layer: int, low: int, high: int) -> Items:
    rows = session.files_between(layer, low, high)
    return {graph.path_key(path): graph.file_value(content, root) for path, content, root in rows}


def _coverage(session: Session, layer: int, low: int, high: int) -> Items:
    rows = session.coverage_between(layer, low, high)
    return {graph.path_key(path): graph.coverage_value(reason) for path, reason in rows}


def _inbound(session: Session, layer: int, low: int, high: int) -> Items:
    rows = session.targets_between(layer, low, high)
    return {graph.inbound_key(edge_type, target): value for target, edge_type, value in rows}


def _names(session: Session, layer: int, low: int, high: int) -> Items:
    return _sets(
        Level.NAMES_SET,
        (
            (graph.names_key(edge_type, segment), target, value)
            for edge_type, segment, target, value in session.names_between(layer, low, high)
        ),
    )


def _packages(session: Session, layer: int, low: int, high: int) -> Items:
    return {graph.package_key(name): root for name, root in session.packages_between(layer, low, high)}


ITEMS: dict[str, Callable[[Session, int, int, int], Items]] = {
    "edges": _packages,
    "inbound": _inbound,
    "names": _names,
    "nodes": _nodes,
    "aliases": _aliases,
    "alias_of": _alias_of,
    "members": _members,
    "facts": _facts,
    "files": _files,
    "coverage": _coverage,
}


def update(session: Session, layer: int, touched: Touched, *, sequence: int, with_events: bool) -> dict[str, bytes]:
    """Bring all maps of a graph up to date with what was touched; the roots of the named maps."""
    if session.map_roots(layer):
        _update_branches(session, layer, touched, sequence=sequence, with_events=with_events)
        _update_targets(session, layer, touched)
    else:
        _all_edges(session, layer)
        touched = Touched()
    _update_republished(session, layer, touched)
    return {name: _update_map(session, layer, name, touched.slots.get(name, set())) for name in ITEMS}


def _all_edges(session: Session, layer: int) -> None:
    """Branches, inbound sets and names of all edges at once, for a graph that has no kept roots."""
    hashes = session.hashes()
    observed: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    for package, (source, edge_type, target, provenance) in session.edges():
        if LAYER_OF_PROVENANCE[provenance] == layer:
            observed[package, source, edge_type, target].append(provenance)
    branches: dict[tuple[int, int], Items] = defaultdict(dict)
    inbound: dict[tuple[int, int], Items] = defaultdict(dict)
    for (package, source, edge_type, target), provenances in observed.items():
        relation, digest = _relation(hashes[source], hashes[target], EDGE_TYPES[edge_type], provenances)
        branches[package, edge_type][relation] = digest
        inbound[edge_type, target][relation] = digest
    observed.clear()
    roots: dict[int, dict[int, bytes]] = defaultdict(dict)
    for (package, edge_type), content in branches.items():
        root = MerkleMap.of(Level.RELATIONS, content).root
        roots[package][edge_type] = root
        session.put_branch(layer, package, edge_type, root)
    names = session.packages()
    for package, types in roots.items():
        session.put_package_root(layer, slot_of(graph.package_key(names[package])), package, _types_root(types))
    for (edge_type, target), content in inbound.items():
        _put_target(session, layer, edge_type, target, hashes[target], content)
    _put_names(session, layer, inbound)


def _relation(source: bytes, target: bytes, edge_type: str, provenances: Iterable[int]) -> tuple[bytes, bytes]:
    digest = relation_digest(edge_hash(source, target, edge_type, PROVENANCES[one]) for one in provenances)
    return relation_hash(source, target, edge_type), digest


def _types_root(roots: Mapping[int, bytes]) -> bytes:
    content = {graph.edge_type_key(EDGE_TYPES[edge_type]): root for edge_type, root in roots.items()}
    return MerkleMap.of(Level.EDGE_TYPES, content).root


def _put_target(session: Session, layer: int, edge_type: int, target: int, key: bytes, content: Items) -> int:
    slot = slot_of(graph.inbound_key(EDGE_TYPES[edge_type], key))
    value = set_digest(MerkleMap.of(Level.INBOUND_SET, content).root, len(content)) if content else None
    session.put_target(layer, slot, target, edge_type, value)
    return slot


def _put_names(session: Session, layer: int, targets: Iterable[tuple[int, int]]) -> set[int]:
    """Keep under which last segments targets stand; the slots of those in `names`."""
    rows = set()
    nodes = {}
    for edge_type, target in targets:
        if target not in nodes:
            nodes[target] = session.segment_ids(session.node(target).node)
        kind = graph.REPUBLISHED if edge_type == REPUBLISHED_CODE else EDGE_TYPES[edge_type]
        for segment, text in nodes[target]:
            rows.add((layer, slot_of(graph.names_key(kind, text)), segment, edge_type))
    session.put_names(sorted(rows))
    return {row[1] for row in rows}


def _update_branches(session: Session, layer: int, touched: Touched, *, sequence: int, with_events: bool) -> None:
    by_package: dict[int, set[int]] = defaultdict(set)
    for package, edge_type in touched.branches:
        by_package[package].add(edge_type)
    names = session.packages()
    hashes: dict[int, bytes] = {}
    for package, types in by_package.items():
        observed: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for edge in session.edges_of_package(package):
            if edge.type in types and LAYER_OF_PROVENANCE[edge.provenance] == layer:
                observed[edge.source, edge.type, edge.target].append(edge.provenance)
        content: dict[int, Items] = {edge_type: {} for edge_type in types}
        for (source, edge_type, target), provenances in observed.items():
            relation, digest = _relation(
                _hash(session, hashes, source), _hash(session, hashes, target), EDGE_TYPES[edge_type], provenances
            )
            content[edge_type][relation] = digest
        before = session.branches_of(layer, package)
        for edge_type, items in content.items():
            root = MerkleMap.of(Level.RELATIONS, items).root if items else None
            if root != before.get(edge_type):
                session.put_branch(layer, package, edge_type, root)
                if with_events:
                    session.put_branch_event(sequence, layer, package, edge_type, before.get(edge_type), root)
        slot = slot_of(graph.package_key(names[package]))
        after = session.branches_of(layer, package)
        session.put_package_root(layer, slot, package, _types_root(after) if after else None)
        touched.slot("edges", slot)


def _hash(session: Session, hashes: dict[int, bytes], node_id: int) -> bytes:
    if node_id not in hashes:
        hashes[node_id] = session.node(node_id).hash
    return hashes[node_id]


def _update_targets(session: Session, layer: int, touched: Touched) -> None:
    hashes: dict[int, bytes] = {}
    for edge_type, target in touched.targets:
        observed: dict[int, list[int]] = defaultdict(list)
        for edge in session.edges_to(target, edge_type):
            if LAYER_OF_PROVENANCE[edge.provenance] == layer:
                observed[edge.source].append(edge.provenance)
        key = _hash(session, hashes, target)
        content = dict(
            _relation(_hash(session, hashes, source), key, EDGE_TYPES[edge_type], provenances)
            for source, provenances in observed.items()
        )
        touched.slot("inbound", _put_target(session, layer, edge_type, target, key, content))
    for slot in _put_names(session, layer, touched.targets):
        touched.slot("names", slot)


def _update_republished(session: Session, layer: int, touched: Touched) -> None:
    """Keep which names from outside are published anew."""
    targets = touched.named if session.map_roots(layer) else session.named_from_outside(layer)
    outside = [one for one in targets if not session.node(one).node.repo]
    for slot in _put_names(session, layer, [(REPUBLISHED_CODE, one) for one in outside]):
        touched.slot("names", slot)


def _update_map(session: Session, layer: int, name: str, slots: set[int]) -> bytes:
    """The root of a map after the buckets of these slots were made again; all of them where none are kept."""
    bits = session.bucket_bits(layer, name)
    kept = session.bucket_roots(layer, name) if bits is not None else {}
    entries = sum(count for _, count in kept.values())
    if bits is None or _bits_for(entries) not in (bits - 1, bits, bits + 1):
        bits, changed = _all_buckets(session, layer, name)
        kept = {}
        session.drop_buckets(layer, name)
    else:
        changed = {
            bucket: _bucket(session, layer, name, bucket, bits)
            for bucket in {slot >> (SLOT_BITS - bits) for slot in slots}
        }
    session.put_buckets(layer, name, changed)
    roots = {bucket: root for bucket, (root, _) in kept.items()}
    for bucket, found in changed.items():
        if found is None:
            roots.pop(bucket, None)
        else:
            roots[bucket] = found[0]
    root = top_root(name, roots, bits)
    session.put_map(layer, name, bits, root)
    return root


def top_root(name: str, roots: Mapping[int, bytes], bits: int) -> bytes:
    """The root of a map from the roots of its buckets."""
    level = graph.MAP_LEVELS[name]
    top = build_top(level, {(bucket << (256 - bits)).to_bytes(32, "big"): root for bucket, root in roots.items()})
    return top[0] if top is not None else empty_hash(level)


def _bits_for(entries: int) -> int:
    return min(max(0, (entries // KEYS_IN_A_BUCKET).bit_length()), SLOT_BITS)


def _bucket(session: Session, layer: int, name: str, bucket: int, bits: int) -> tuple[bytes, int] | None:
    shift = SLOT_BITS - bits
    content = ITEMS[name](session, layer, bucket << shift, (bucket + 1) << shift)
    node = build(graph.MAP_LEVELS[name], content)
    return None if node is None else (node[0], len(content))


def _all_buckets(session: Session, layer: int, name: str) -> tuple[int, dict[int, tuple[bytes, int] | None]]:
    content = ITEMS[name](session, layer, 0, ALL_SLOTS)
    bits = _bits_for(len(content))
    shares: dict[int, Items] = defaultdict(dict)
    for key, value in content.items():
        shares[slot_of(key) >> (SLOT_BITS - bits)][key] = value
    found: dict[int, tuple[bytes, int] | None] = {}
    for bucket, share in shares.items():
        node = build(graph.MAP_LEVELS[name], share)
        assert node is not None
        found[bucket] = (node[0], len(share))
    return bits, found
