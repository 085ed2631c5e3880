"""Checks everything that can be checked: every hash, root, bucket, log entry and signature is made again.

A repository is read as plain records and its graph is built anew by the kernel, which knows none of the caches; its
roots must be those of the newest snapshot. The caches must then agree with it, and can be made again where they do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from knowing_protocol import tlog
from knowing_protocol.critbit import MerkleMap, empty_hash
from knowing_protocol.encoding import parse_json
from knowing_protocol.errors import KnowingError
from knowing_protocol.graph import REPUBLISHED, Graph, file_attributes, inbound_key, names_key, set_value
from knowing_protocol.history import header_from_json, log_name, roster_map
from knowing_protocol.keys import KeyChain
from knowing_protocol.note import check_note, parse_checkpoint, parse_note

from knowingd import keys
from knowingd.snapshot.maps import Maps
from knowingd.snapshot.relations import SOURCE_SHIFT, large_members
from knowingd.snapshot.trees import anywhere
from knowingd.store.caches import split_roots
from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, LAYERS
from knowingd.store.interface import GraphCaches, GraphSession, GraphStore
from knowingd.store.nodestore import NodeStore
from knowingd.store.packing import unpack_ids
from knowingd.store.records import read_file_with_edges, read_records
from knowingd.store.rows import BLOCK_BITS, NO_TYPE, PROVENANCE_BITS, REPUBLISHED_CODE, TreeRow, signed_slot

MAX_HEADER_BYTES = 1 << 20


class RepositoryCheck(NamedTuple):
    """What was found in a repository's database."""

    nodes: int
    edges: int
    errors: list[str]


def check_repository(store: GraphStore) -> RepositoryCheck:
    """Make everything in a repository's database again and compare."""
    with store.read() as session:
        errors = session.integrity_errors()
        if errors:
            return RepositoryCheck(0, 0, errors)
        nodes = edges = 0
        newest = session.last_snapshot()
        rows = session.load_nodes(None)
        for node, slot in session.kept_slots():
            if signed_slot(rows[node].hash) != slot:
                errors.append(f"node {node} ({rows[node].node.name}) is kept under another hash than its own")
        for layer, name in zip(LAYERS, ("source", "overlay"), strict=True):
            try:
                records = read_records(session, layer)
                graph = Graph(store.url, records)
            except (KnowingError, KeyError) as error:
                errors.append(f"the {name} graph cannot be read: {getattr(error, 'message', error)}")
                continue
            nodes, edges = nodes + len(records.nodes), edges + len(records.edges)
            errors += (f"the {name} graph's {what} (can be repaired)" for what in _cache_errors(session, layer, graph))
            if newest is not None and graph.root != (newest.source_root, newest.overlay_root)[layer]:
                errors.append(f"the {name} graph is not the one that its newest snapshot names")
            for file in records.files:
                row = session.file_named(layer, file.path)
                if row is not None and file_attributes(file).root != row.attributes:
                    errors.append(f"{file.path}: what the {name} graph says of it is not what was kept")
    return RepositoryCheck(nodes, edges, errors)


def _cache_errors(session: GraphSession, layer: int, graph: Graph) -> Iterator[str]:
    """Where the kept roots, buckets and inbound sets of a graph differ from the graph."""
    caches = session.caches
    trees = caches.trees(layer)
    if not trees:
        return
    yield from _branch_errors(session, caches, layer, graph)
    expected = _inbound_sets(session, layer)
    for row in caches.inbound(layer):
        sources = expected.pop((row.type, row.target), set())
        if row.sources is None:
            tree = caches.tree(layer, "inbound-set", row.type, row.target)
            kept = set(caches.members(tree.id)) if tree is not None else set()
            sources = set(large_members(sorted(sources)))
        else:
            kept = set(unpack_ids(row.sources))
        key = inbound_key(EDGE_TYPES[row.type], session.node(row.target).hash)
        value = set_value(*graph.inbound_sets[key]) if key in graph.inbound_sets else None
        if kept != sources or row.value not in (None, value):
            yield f"inbound set of {session.node(row.target).node.name} is wrong"
    if expected:
        yield f"{len(expected)} inbound sets are missing"
    yield from _branch_member_errors(session, caches, layer, trees)
    members = Maps(session, layer, read_only=True)
    for tree in trees:
        found = _tree_of(session, tree, graph)
        if found is None or found.root != tree.root:
            yield f"kept root of {_tree_name(tree)} is wrong"
        elif _wrong_buckets(caches, tree, found):
            yield f"kept buckets of {_tree_name(tree)} are wrong"
        elif tree.map in members.contents:
            kept_members = set(caches.members(tree.id))
            for one in [one for one in kept_members if one < 0]:
                kept_members |= set(caches.members(-one)) | {one}
            wanted = {member for _, member in members.contents[tree.map](None, anywhere).places}
            if {one for one in kept_members if one >= 0} != wanted:
                yield f"kept members of {_tree_name(tree)} are wrong"


def _branch_errors(session: GraphSession, caches: GraphCaches, layer: int, graph: Graph) -> Iterator[str]:
    packages = session.packages()
    kept = {(packages[package], EDGE_TYPES[code]): root for package, code, root in caches.branches(layer)}
    made = {
        (package, edge_type): tree.root
        for package, types in graph.branches.items()
        for edge_type, tree in types.items()
    }
    for package, edge_type in sorted(key for key in kept.keys() | made.keys() if kept.get(key) != made.get(key)):
        yield f"kept root of the branch {package} / {edge_type} is wrong"


def _branch_member_errors(
    session: GraphSession, caches: GraphCaches, layer: int, trees: list[TreeRow]
) -> Iterator[str]:
    for tree in trees:
        if tree.map == "branch":
            wanted = {
                edge.source << SOURCE_SHIFT | edge.target
                for edge in session.edges_of_package(tree.subject)
                if edge.type == tree.type and LAYER_OF_PROVENANCE[edge.provenance] == layer
            }
            if set(caches.members(tree.id)) != wanted:
                yield f"kept members of {_tree_name(tree)} are wrong"


def _inbound_sets(session: GraphSession, layer: int) -> dict[tuple[int, int], set[int]]:
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    for edge in session.edges():
        if LAYER_OF_PROVENANCE[edge.provenance] == layer:
            found[edge.type, edge.target].add(edge.source << PROVENANCE_BITS | edge.provenance)
    return found


def _tree_name(tree: TreeRow) -> str:
    return f"the map {tree.map}" if tree.type == NO_TYPE else f"a {tree.map} of {tree.size}"


def _tree_of(session: GraphSession, tree: TreeRow, graph: Graph) -> MerkleMap | None:
    """The map of the kernel's graph that a kept tree stands for."""
    if tree.map in graph.maps:
        return graph.maps[tree.map]
    edge_type = REPUBLISHED if tree.type == REPUBLISHED_CODE else EDGE_TYPES[tree.type]
    if tree.map == "branch":
        return graph.branch_tree(session.packages()[tree.subject], edge_type)
    if tree.map == "inbound-set":
        found = graph.inbound_tree(edge_type, session.node(tree.subject).hash)
    else:
        found = graph.names_sets.get(names_key(edge_type, tree.subject))
    return found[0] if found is not None and found[1] == tree.size else None


def _wrong_buckets(caches: GraphCaches, tree: TreeRow, found: MerkleMap) -> bool:
    block_bits = max(0, tree.bits - BLOCK_BITS)
    empty = empty_hash(found.level)

    def subtree(prefix: int, bits: int) -> bytes:
        return found.prefix_root((prefix << (256 - bits)).to_bytes(32, "big"), bits)

    for block, top in enumerate(split_roots(tree.tops)):
        if subtree(block, block_bits) != (top or empty):
            return True
        roots, _ = caches.block(tree.id, block) or ([], [])
        for place, root in enumerate(roots):
            if subtree(block * len(roots) + place, tree.bits) != (root or empty):
                return True
    return False


def repair_repository(store: GraphStore, *, own_up: bool = False) -> None:
    """Make all caches of a repository again from its records.

    With `own_up`, files whose records are damaged also get the roots that they have now: the graph is then openly not
    the signed one, and a comparison with a peer finds just those.
    """

    def job(session: GraphSession) -> None:
        session.caches.drop()
        for layer in LAYERS if own_up else ():
            for row in list(session.files(layer)):
                file, _ = read_file_with_edges(session, row)
                session.set_attributes(row.id, file_attributes(file).root)
        for layer in LAYERS:
            Maps(session, layer).build_all()

    store.write(job)


def check_log(node: NodeStore, first_key: bytes) -> list[str]:
    """Make the log again: leaves, hashes, rosters, checkpoints and their signatures."""
    errors = node.integrity_errors()
    if errors:
        return errors
    log = tlog.Log()
    headers = []
    chain = KeyChain(first_key)
    chain.add(node.key_notes(), keys.verify)
    for position, (index, text) in enumerate(node.entries()):
        header = header_from_json(parse_json(text.encode(), MAX_HEADER_BYTES), f"entry {index}")
        headers.append(header)
        log.append(header.leaf)
        if header.index != index or index != position:
            errors.append(f"log entry {index} says that it is {header.index}")
    leaves, root = node.kept_hashes(len(headers))
    for index, (header, leaf) in enumerate(zip(headers, leaves, strict=True)):
        if leaf != header.leaf:
            errors.append(f"log entry {index} has another hash than the log kept for it")
    if root != log.root():
        errors.append("the log's kept hashes do not lead to its root")
    if headers and roster_map(headers).root != headers[-1].roster:
        errors.append("the roster of the last entry is not that of the log")
    for size, text in node.checkpoints():
        errors += _checkpoint_errors(size, text, log, chain, node.epoch)
    return errors


def _checkpoint_errors(size: int, text: str, log: tlog.Log, chain: KeyChain, epoch: int) -> list[str]:
    try:
        note = parse_note(text)
        checkpoint = parse_checkpoint(note.text)
        if checkpoint.size != size or size > log.size or checkpoint.root != log.root(size):
            return [f"the checkpoint of size {size} is not of this log"]
        for key in reversed(chain.keys):
            try:
                check_note(note, log_name(chain.origin, epoch), key, keys.verify)
                chain.check_range(key, epoch, size)
            except KnowingError:
                continue
            return []
    except KnowingError as error:
        return [f"the checkpoint of size {size}: {error.message}"]
    return [f"the checkpoint of size {size} is not signed by the node's key"]
