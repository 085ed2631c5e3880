"""Checks everything that can be checked: every hash, root, bucket, log entry and signature is made again.

A repository is read as plain records and its graph is built anew by the kernel, which knows none of the caches; its
roots must be those of the newest snapshot. The caches must then agree with it, and can be made again where they do not.
"""

from __future__ import annotations

from typing import NamedTuple

from knowing_protocol import tlog
from knowing_protocol.encoding import parse_json
from knowing_protocol.errors import KnowingError
from knowing_protocol.graph import Graph
from knowing_protocol.hashing import node_hash
from knowing_protocol.history import header_from_json, log_name, roster_map
from knowing_protocol.keys import KeyChain
from knowing_protocol.note import check_note, parse_checkpoint, parse_note

from knowingd import keys
from knowingd.snapshot import maps
from knowingd.store.apply import Touched
from knowingd.store.codes import LAYERS
from knowingd.store.nodestore import LogHashes, NodeStore
from knowingd.store.records import read_records
from knowingd.store.repository import RepositoryStore
from knowingd.store.session import Session

MAX_HEADER_BYTES = 1 << 20


class RepositoryCheck(NamedTuple):
    """What was found in a repository's database."""

    nodes: int
    edges: int
    errors: list[str]


def check_repository(store: RepositoryStore) -> RepositoryCheck:
    """Make everything in a repository's database again and compare."""
    with store.read() as session:
        errors = _sqlite_errors(session)
        if errors:
            return RepositoryCheck(0, 0, errors)
        last = session.last_finished_snapshot()
        pending = session.pending_snapshot()
        nodes = edges = 0
        for layer, name in zip(LAYERS, ("source", "overlay"), strict=True):
            for row in session.nodes_between(layer, 0, maps.ALL_SLOTS):
                if node_hash(*row.node) != row.hash:
                    errors.append(f"node {row.id} ({row.node.name}) has another hash than its identity")
            try:
                records = read_records(session, layer)
                graph = Graph(store.url, records)
            except KnowingError as error:
                errors.append(f"the {name} graph cannot be read: {error.message}")
                continue
            nodes, edges = nodes + len(records.nodes), edges + len(records.edges)
            errors += _layer_errors(session, layer, name, graph)
            newest = pending or last
            if newest is not None and graph.root != (newest.source_root, newest.overlay_root)[layer]:
                errors.append(f"the {name} graph is not the one that its newest snapshot names")
    return RepositoryCheck(nodes, edges, errors)


def _sqlite_errors(session: Session) -> list[str]:
    found = [text for (text,) in session.execute("PRAGMA integrity_check") if text != "ok"]
    found += [f"{table} row {row} refers to nothing in {parent}" for table, row, parent, _ in session.foreign_keys()]
    return found


def _layer_errors(session: Session, layer: int, name: str, graph: Graph) -> list[str]:
    """Where the kept roots and buckets of a graph differ from the graph."""
    errors = []
    kept = session.map_roots(layer)
    for map_name, tree in graph.maps.items():
        if map_name not in kept:
            continue
        if kept[map_name] != tree.root:
            errors.append(f"the kept root of the {name} graph's {map_name} map is wrong (can be repaired)")
        bits = session.bucket_bits(layer, map_name)
        assert bits is not None
        for bucket, (root, _) in session.bucket_roots(layer, map_name).items():
            prefix = (bucket << (256 - bits)).to_bytes(32, "big")
            if tree.prefix_root(prefix, bits) != root:
                errors.append(f"a kept bucket of the {name} graph's {map_name} map is wrong (can be repaired)")
    return errors


def repair_repository(store: RepositoryStore) -> None:
    """Make all caches of a repository again from its records."""

    def job(session: Session) -> None:
        session.drop_caches()
        for layer in LAYERS:
            maps.update(session, layer, Touched(), sequence=0, with_events=False)

    store.write(job)


def check_log(node: NodeStore, first_key: bytes) -> list[str]:
    """Make the log again: leaves, hashes, rosters, checkpoints and their signatures."""
    errors: list[str] = []
    epoch = node.epoch
    log = tlog.Log()
    headers = []
    chain = KeyChain(first_key)
    with node.database.read() as connection:
        errors += [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
        chain.add((note for (note,) in connection.execute("SELECT note FROM key_notes ORDER BY id")), keys.verify)
        rows = connection.execute(
            "SELECT log_index, header FROM log_entries WHERE epoch = ? ORDER BY log_index", (epoch,)
        ).fetchall()
        for position, (index, text) in enumerate(rows):
            header = header_from_json(parse_json(text.encode(), MAX_HEADER_BYTES), f"entry {index}")
            headers.append(header)
            log.append(header.leaf)
            if header.index != index or index != position:
                errors.append(f"log entry {index} says that it is {header.index}")
        hashes = LogHashes(connection, epoch)
        for index, header in enumerate(headers):
            if hashes.read(0, index) != header.leaf:
                errors.append(f"log entry {index} has another hash than the log kept for it")
        if headers and tlog.root_from(hashes, len(headers)) != log.root():
            errors.append("the log's kept hashes do not lead to its root")
        if headers and roster_map(headers).root != headers[-1].roster:
            errors.append("the roster of the last entry is not that of the log")
        for size, text in connection.execute("SELECT size, note FROM checkpoints WHERE epoch = ?", (epoch,)):
            errors += _checkpoint_errors(size, text, log, chain, epoch)
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
