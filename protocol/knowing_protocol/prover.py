"""Makes bundles: decides a question over whole graphs, and packs what the verifier needs to decide it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowing_protocol import tlog
from knowing_protocol.bundle import BUNDLE_FORMAT, log_path_to_json, seal_of
from knowing_protocol.claims import Question, decide
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.encoding import to_base64
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.history import Header, roster_key
from knowing_protocol.mapproof import prove_map
from knowing_protocol.recorder import ProvableGraph, Recorder
from knowing_protocol.section import EMPTY_GRAPH_ROOT, EmptyGraph
from knowing_protocol.snapshot_reader import SnapshotReader
from knowing_protocol.statement import AT_COMMITS, AT_HEAD, AllOf, Entry, Statement


@dataclass(frozen=True, slots=True)
class LogView:
    """A signed state of a node's log, with what proofs out of it need."""

    origin: bytes
    epoch: int
    size: int
    note: str
    first_key: bytes
    hashes: tlog.HashReader
    head: Header  # the last entry
    roster: MerkleMap  # at the last entry
    roster_rows: Sequence[tuple[str, str, bytes]] = ()  # all of it, where completeness is to be shown
    key_notes: Sequence[str] = ()
    consistent_with: Sequence[int] = ()  # earlier sizes to show consistency with


@dataclass(frozen=True, slots=True)
class Subject:
    """One snapshot in scope: its header, the log it is in, and its graphs."""

    log: LogView
    header: Header
    source: ProvableGraph
    overlay: ProvableGraph | None = None


@dataclass(slots=True)
class _Parts:
    """The lists of a bundle as they grow."""

    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    rosters: list[dict[str, Any]] = field(default_factory=list)
    graphs: list[dict[str, Any]] = field(default_factory=list)


def make_bundle(
    question: Question, subjects: Sequence[Subject], *, at: str = AT_HEAD, all_of: AllOf | None = None
) -> dict[str, Any]:
    """The bundle for a question over these snapshots; raises where the claim does not hold."""
    subjects = sorted(subjects, key=lambda subject: subject.header.repository)
    recorders = [_recorders(subject) for subject in subjects]
    readers = [
        SnapshotReader(subject.header.repository, list(pair.values()) or [EmptyGraph(subject.header.repository)])
        for subject, pair in zip(subjects, recorders, strict=True)
    ]
    answer = decide(question, readers)
    scope = tuple(
        Entry(
            subject.header.repository,
            subject.header.ref,
            subject.header.commit,
            subject.log.origin,
            subject.log.epoch,
            subject.header.index,
        )
        for subject in subjects
    )
    parts = _Parts()
    positions = _add_history(parts, subjects, at, all_of)
    for position, pair in zip(positions, recorders, strict=True):
        parts.graphs += (recorder.section(position, which) for which, recorder in pair.items())
    bundle = {
        "format": BUNDLE_FORMAT,
        "statement": Statement(question, at, scope, all_of, answer).as_json(),
        "checkpoints": parts.checkpoints,
        "entries": parts.entries,
        "rosters": parts.rosters,
        "graphs": parts.graphs,
    }
    return {**bundle, "seal": seal_of(bundle).hex()}


def _recorders(subject: Subject) -> Mapping[str, Recorder]:
    """A recorder for each graph of a snapshot that is not empty."""
    graphs = {"source": subject.source, "overlay": subject.overlay}
    roots = {"source": subject.header.source, "overlay": subject.header.overlay}
    for which, graph in graphs.items():
        if roots[which] != (EMPTY_GRAPH_ROOT if graph is None else graph.root):
            raise InvalidNameError(f"the {which} graph of {subject.header.repository} is not the one of its header")
    return {
        which: Recorder(graph)
        for which, graph in graphs.items()
        if graph is not None and graph.root != EMPTY_GRAPH_ROOT
    }


def _add_history(parts: _Parts, subjects: Sequence[Subject], at: str, all_of: AllOf | None) -> list[int]:
    """Checkpoints, headers and rosters; the position of each subject's header."""
    logs: dict[tuple[bytes, int], int] = {}
    sizes: dict[tuple[bytes, int], int] = {}
    for subject in subjects:
        key = (subject.log.origin, subject.log.epoch)
        if sizes.setdefault(key, subject.log.size) != subject.log.size:
            raise InvalidNameError("two states of one log cannot stand in one bundle")
        if key not in logs:
            logs[key] = len(parts.checkpoints)
            parts.checkpoints.append(_checkpoint(subject.log))
    positions = []
    for subject in subjects:
        positions.append(len(parts.entries))
        log, header = subject.log, subject.header
        # At head the roster shows an entry, and only the last one needs its own path.
        shown = at == AT_COMMITS or header.index == log.size - 1
        parts.entries.append(_entry(logs[log.origin, log.epoch], log, header, with_path=shown))
    if at == AT_HEAD:
        for key, checkpoint in logs.items():
            mine = [subject for subject in subjects if (subject.log.origin, subject.log.epoch) == key]
            parts.rosters.append(_roster(parts, checkpoint, mine, all_of))
    return positions


def _checkpoint(log: LogView) -> dict[str, Any]:
    return {
        "note": log.note,
        "first_key": log.first_key.hex(),
        "key_notes": list(log.key_notes),
        "consistency": [
            [size, log_path_to_json(tlog.consistency_proof(log.hashes, size, log.size))] for size in log.consistent_with
        ],
    }


def _entry(checkpoint: int, log: LogView, header: Header, *, with_path: bool) -> dict[str, Any]:
    path = log_path_to_json(tlog.inclusion_proof(log.hashes, header.index, log.size)) if with_path else None
    return {"checkpoint": checkpoint, "header": header.as_json(), "path": path}


def _roster(parts: _Parts, checkpoint: int, subjects: Sequence[Subject], all_of: AllOf | None) -> dict[str, Any]:
    log = subjects[0].log
    for position, entry in enumerate(parts.entries):
        if entry["checkpoint"] == checkpoint and entry["header"]["index"] == log.size - 1:
            head = position
            break
    else:
        head = len(parts.entries)
        parts.entries.append(_entry(checkpoint, log, log.head, with_path=True))
    complete = None
    proof = None
    if all_of is not None and (all_of.origin, all_of.epoch) == (log.origin, log.epoch):
        complete = [[repository, ref, digest.hex()] for repository, ref, digest in sorted(log.roster_rows)]
    else:
        keys = [roster_key(subject.header.repository, subject.header.ref) for subject in subjects]
        proof = to_base64(prove_map(log.roster, keys))
    return {"checkpoint": checkpoint, "head": head, "proof": proof, "complete": complete}
