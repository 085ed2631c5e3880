"""The verifier: from the bytes of a bundle and a trust file to a verdict. Needs nothing but this package.

The order of belief: a key from the trust file; the checkpoint that it signed; headers whose log path or roster entry
hashes to that checkpoint; graph roots in those headers; maps and records that hash to those roots. Every key that is
looked up is derived from names in the statement, and the answer is decided again from what was proven. What the
statement says is then compared with it, so that no field of it is taken on trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from knowing_protocol import ed25519, render, tlog
from knowing_protocol.bundle import Bundle, LogEntry, Roster, SignedCheckpoint, parse_bundle
from knowing_protocol.claims import Answer, Relations, decide, stated_relations
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.errors import InvalidNameError, MalformedError, RejectedError
from knowing_protocol.evidence import check_evidence, is_evidence
from knowing_protocol.graph import GraphReader, Level, Relation
from knowing_protocol.history import Header, checkpoint_time, log_name, log_of_checkpoint, roster_key
from knowing_protocol.keys import KeyChain
from knowing_protocol.mapproof import ProvenMap
from knowing_protocol.note import Checkpoint, Note, check_note, parse_checkpoint, parse_note, signature_by
from knowing_protocol.section import EMPTY_GRAPH_ROOT, EmptyGraph, ProvenGraph
from knowing_protocol.snapshot_reader import SnapshotReader
from knowing_protocol.statement import AT_HEAD, AllOf, Entry, Statement
from knowing_protocol.trust import Trust, TrustedNode
from knowing_protocol.urls import matches
from knowing_protocol.vocabulary import OVERLAY_PROVENANCES, SOURCE_PROVENANCES

VERIFIED: Final = "verified"
REJECTED: Final = "rejected"
CANNOT_TELL: Final = "cannot-tell"


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """Who signed what, for people."""

    origin: bytes
    epoch: int
    size: int
    root: bytes
    time: int
    key: bytes
    name: str
    pin: str

    def as_json(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "node": self.origin.hex(),
            "name": self.name,
            "epoch": self.epoch,
            "size": self.size,
            "root": self.root.hex(),
            "time": self.time,
            "key": self.key.hex(),
            "pin": self.pin,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """A verdict with its reason, and, unless it was rejected, what was shown."""

    verdict: str
    code: str
    reason: str
    statement: str = ""
    not_covered: list[str] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[CheckpointReport] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)
    """The statement for a screen, which JSON leaves out."""
    limits: list[str] = field(default_factory=list)
    """What is not covered, for a screen."""

    def as_json(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "verdict": self.verdict,
            "code": self.code,
            "reason": self.reason,
            "statement": self.statement,
            "not_covered": self.not_covered,
            "entries": self.entries,
            "checkpoints": [checkpoint.as_json() for checkpoint in self.checkpoints],
        }


def verify_document(data: bytes, trust: Trust | None, verifier: Verifier = ed25519.verify) -> Report:
    """The verdict on a bundle, or on evidence against a node. Never raises for any bytes."""
    if not is_evidence(data):
        return verify_bundle(data, trust, verifier)
    try:
        found = check_evidence(data, verifier)
    except (RejectedError, MalformedError, InvalidNameError) as error:
        return Report(REJECTED, error.code, error.message)
    except RecursionError:
        return Report(REJECTED, "too-deep", "the evidence is nested too deeply")
    beyond = "Who runs that node is not part of the evidence."
    return Report(
        VERIFIED, "verified", "", found.sentence, [beyond], paragraphs=[found.sentence], limits=[f"- {beyond}"]
    )


def verify_bundle(data: bytes, trust: Trust | None, verifier: Verifier = ed25519.verify) -> Report:
    """The verdict on a bundle. Never raises for any bytes."""
    try:
        bundle = parse_bundle(data)
        checked = _Checked(bundle, trust, verifier)
        headers = checked.run()
    except (RejectedError, MalformedError, InvalidNameError) as error:
        return Report(REJECTED, error.code, error.message)
    except RecursionError:
        return Report(REJECTED, "too-deep", "the bundle is nested too deeply")
    statement = bundle.statement
    verdict, code, reason = VERIFIED, "verified", ""
    if trust is None:
        verdict, code, reason = CANNOT_TELL, "no-trust", "no trust file: it is not known whose keys signed this"
    elif checked.doubt:
        verdict, code, reason = CANNOT_TELL, "pin-not-extended", checked.doubt
    return Report(
        verdict,
        code,
        reason,
        render.sentence(statement),
        render.not_covered(statement, headers),
        [_entry_json(entry, header) for entry, header in zip(statement.scope, headers, strict=True)],
        checked.reports,
        render.paragraphs(statement),
        render.limits(statement, headers),
    )


def _entry_json(entry: Entry, header: Header) -> dict[str, Any]:
    return {
        "repository": entry.repository,
        "ref": entry.ref,
        "branch": header.branch,
        "commit": entry.commit,
        "index": entry.index,
        "time": header.time,
        "node": entry.origin.hex(),
        "epoch": entry.epoch,
        "extractor": header.extractor.hex(),
    }


@dataclass(frozen=True, slots=True)
class _Log:
    """A state of a log that is believed."""

    origin: bytes
    epoch: int
    checkpoint: Checkpoint
    trusted: TrustedNode | None


class _Checked:
    """One run of the verifier over a bundle; each step believes only what the steps before it established."""

    def __init__(self, bundle: Bundle, trust: Trust | None, verifier: Verifier) -> None:
        self.bundle = bundle
        self.trust = trust
        self.verifier = verifier
        self.reports: list[CheckpointReport] = []
        self.doubt = ""  # why nothing is wrong and yet nobody can tell
        self.rosters: dict[int, MerkleMap | ProvenMap] = {}
        self.shown: list[ProvenGraph] = []

    def run(self) -> list[Header]:
        """Check everything; the headers in scope, in the order of the statement."""
        statement = self.bundle.statement
        origins = [signed.note.split("\n", 1)[0] for signed in self.bundle.checkpoints]
        if len(set(origins)) != len(origins):
            raise RejectedError("checkpoint-twice", "the bundle has two checkpoints of one log")
        self.logs = [self._check_checkpoint(signed) for signed in self.bundle.checkpoints]
        if statement.at == AT_HEAD and len({log.origin for log in self.logs}) != len(self.logs):
            raise RejectedError("two-epochs", "of two epochs of one node, at most one has its head")
        self.included = [self._check_included(entry) for entry in self.bundle.entries]
        positions = self._positions(statement.scope)
        if statement.at == AT_HEAD:
            self._check_heads(statement, positions)
        else:
            if self.bundle.rosters:
                raise RejectedError("roster-unused", "a statement about commits needs no roster")
            for position in positions:
                if not self.included[position]:
                    raise RejectedError("not-in-log", "an entry has no path in the log of its checkpoint")
        for position, entry in zip(positions, statement.scope, strict=True):
            self._check_speaks_for(self._log(self.bundle.entries[position].checkpoint), entry.repository)
        headers = [self.bundle.entries[position].header for position in positions]
        self._check_answer(statement, positions, headers)
        self._check_nothing_more(statement, positions)
        return headers

    def _check_checkpoint(self, signed: SignedCheckpoint) -> _Log:
        note = parse_note(signed.note)
        checkpoint = parse_checkpoint(note.text)
        origin, epoch = log_of_checkpoint(checkpoint)
        chain = KeyChain(signed.first_key)
        if chain.origin != origin:
            raise RejectedError("first-key", "the first key given is not the one that the node is named after")
        trusted = None
        if self.trust is not None:
            trusted = self.trust.nodes.get(origin)
            if trusted is None:
                raise RejectedError("foreign-key", f"node {origin.hex()[:16]} is not in the trust file")
            chain.add(trusted.notes, self.verifier)
        chain.add(signed.key_notes, self.verifier)
        key = self._signing_key(note, log_name(origin, epoch), chain)
        chain.check_range(key, epoch, checkpoint.size)
        pin = self._check_pins(trusted, epoch, checkpoint, signed) if trusted is not None else "none"
        name = render.visible(trusted.name) if trusted is not None else ""
        time = checkpoint_time(checkpoint)
        self.reports.append(CheckpointReport(origin, epoch, checkpoint.size, checkpoint.root, time, key, name, pin))
        return _Log(origin, epoch, checkpoint, trusted)

    def _signing_key(self, note: Note, name: str, chain: KeyChain) -> bytes:
        """The newest key of the node that signed the checkpoint."""
        for key in reversed(chain.keys):
            if signature_by(note, name, key) is not None:
                check_note(note, name, key, self.verifier)
                return key
        raise RejectedError("unsigned", "the checkpoint is signed by no key of the node whose log it is")

    def _check_pins(self, trusted: TrustedNode, epoch: int, checkpoint: Checkpoint, signed: SignedCheckpoint) -> str:
        """Compare a checkpoint with what is already known of its log: no fork, and no head that was overtaken."""
        known = "none"
        overtaken = False
        for pin in trusted.pins:
            if pin.epoch > epoch or (pin.epoch == epoch and pin.size > checkpoint.size):
                if self.bundle.statement.at == AT_HEAD:
                    raise RejectedError(
                        "older-than-pin",
                        "the log is known to have grown since, so that this is not about its head any more",
                    )
                overtaken = True
                continue
            if pin.epoch < epoch:
                continue
            if pin.size == checkpoint.size:
                if pin.root != checkpoint.root:
                    raise RejectedError("fork", "the log has another root for a size that is known already")
                known = "equal"
                continue
            paths = [path for size, path in signed.consistency if size == pin.size]
            for path in paths:
                tlog.check_consistency(pin.size, pin.root, checkpoint.size, checkpoint.root, path)
            if not paths and pin.size:
                self.doubt = "the bundle does not show that the log extends the pinned state"
            if known == "none":
                known = "extends" if paths or not pin.size else "not shown"
        if overtaken and known != "equal":
            self.doubt = (
                "the bundle is older than the pinned state of the log, and nothing shows that one grew to the other"
            )
            return "not shown"
        return known

    def _check_included(self, entry: LogEntry) -> bool:
        """Whether a header was shown to be in the log of its checkpoint; refuses a path that does not lead there."""
        checkpoint = self._log(entry.checkpoint).checkpoint
        if entry.path is None:
            return False
        header = entry.header
        tlog.check_inclusion(header.leaf, header.index, checkpoint.size, entry.path, checkpoint.root)
        return True

    def _log(self, index: int) -> _Log:
        if index >= len(self.logs):
            raise RejectedError("checkpoint-index", "the bundle refers to a checkpoint that it does not have")
        return self.logs[index]

    def _positions(self, scope: Sequence[Entry]) -> list[int]:
        """The header that each scope entry names, by all of its fields."""
        shown: dict[Entry, int] = {}
        for position, one in enumerate(self.bundle.entries):
            log, header = self._log(one.checkpoint), one.header
            name = Entry(header.repository, header.ref, header.commit, log.origin, log.epoch, header.index)
            shown.setdefault(name, position)
        for entry in scope:
            if entry not in shown:
                raise RejectedError("no-header", f"no header for {entry.repository} is as the statement names it")
        return [shown[entry] for entry in scope]

    def _check_speaks_for(self, log: _Log, repository: str) -> None:
        if log.trusted is None:
            return
        if "index" not in log.trusted.roles:
            raise RejectedError("role", "the node is not trusted to index")
        if not log.trusted.speaks_for(repository):
            raise RejectedError("out-of-pattern", f"the node is not trusted to speak for {repository}")

    def _check_heads(self, statement: Statement, positions: Sequence[int]) -> None:
        """That every entry in scope is the newest of its repository and ref, and that the scope is all it claims."""
        rosters = self.rosters
        for roster in self.bundle.rosters:
            rosters[roster.checkpoint] = self._check_roster(roster)
        for position in positions:
            entry = self.bundle.entries[position]
            if entry.checkpoint not in rosters:
                raise RejectedError("no-roster", "the bundle does not show what is newest in a log")
            header = entry.header
            if rosters[entry.checkpoint].get(roster_key(header.repository, header.ref)) != header.digest:
                raise RejectedError("not-head", f"the entry of {header.repository} is not the newest one of its log")
        if statement.all_of is not None:
            self._check_all(statement, statement.all_of)

    def _check_roster(self, roster: Roster) -> MerkleMap | ProvenMap:
        checkpoint = self._log(roster.checkpoint).checkpoint
        if roster.head >= len(self.bundle.entries):
            raise RejectedError("roster-head", "the bundle does not have the head that its roster names")
        head = self.bundle.entries[roster.head]
        if head.checkpoint != roster.checkpoint or head.header.index != checkpoint.size - 1:
            raise RejectedError("roster-head", "the roster is not that of the last entry of its log")
        if not self.included[roster.head]:
            raise RejectedError("roster-head", "the last entry has no path in its log")
        if (roster.complete is None) == (roster.proof is None):
            raise RejectedError("no-roster", "a roster is either proven in part or listed whole")
        if roster.complete is not None:
            content = {roster_key(repository, ref): digest for repository, ref, digest in roster.complete}
            listed = MerkleMap.of(Level.ROSTER, content)
            if len(content) != len(roster.complete) or listed.root != head.header.roster:
                raise RejectedError("roster-incomplete", "the roster given is not the whole roster of the last entry")
            return listed
        assert roster.proof is not None
        return ProvenMap(roster.proof, Level.ROSTER, head.header.roster, "roster")

    def _check_all(self, statement: Statement, all_of: AllOf) -> None:
        """That the scope is exactly what a complete roster has for this ref and pattern."""
        for roster in self.bundle.rosters:
            log = self._log(roster.checkpoint)
            if (log.origin, log.epoch) == (all_of.origin, all_of.epoch) and roster.complete is not None:
                if log.trusted is not None and "roster" not in log.trusted.roles:
                    raise RejectedError("role", "the node is not trusted to say which repositories there are")
                wanted = {
                    repository
                    for repository, ref, _ in roster.complete
                    if ref == all_of.ref and matches(all_of.pattern, repository)
                }
                mine = (log.origin, log.epoch, all_of.ref)
                if any((entry.origin, entry.epoch, entry.ref) != mine for entry in statement.scope):
                    raise RejectedError("scope-incomplete", "the scope has entries of another log or ref than it says")
                if wanted != {entry.repository for entry in statement.scope}:
                    raise RejectedError("scope-incomplete", "the scope is not all that the roster has")
                return
        raise RejectedError("roster-incomplete", "the bundle does not list the whole roster it speaks of")

    def _check_answer(self, statement: Statement, positions: Sequence[int], headers: Sequence[Header]) -> None:
        """Decide the question again, over what the bundle proves, and compare."""
        sections: dict[tuple[int, str], dict[str, Any]] = {}
        in_scope = frozenset(positions)
        for section in self.bundle.graphs:
            if sections.setdefault((section["entry"], section["graph"]), section) is not section:
                raise RejectedError("graph-twice", "the bundle shows one graph twice")
            if section["entry"] not in in_scope:
                raise RejectedError("graph-unused", "the bundle shows a graph that the statement does not speak of")
        readers: list[GraphReader] = []
        relations = stated_relations(statement.question, statement.answer)
        for position, header in zip(positions, headers, strict=True):
            stated = relations.get(header.repository, {})
            graphs = [
                self._graph(header.repository, root, sections.get((position, which)), _observed(stated, provenances))
                for which, root, provenances in (
                    ("source", header.source, SOURCE_PROVENANCES),
                    ("overlay", header.overlay, OVERLAY_PROVENANCES),
                )
            ]
            readers.append(SnapshotReader(header.repository, graphs))
        _compare(statement.answer, decide(statement.question, readers))

    def _graph(
        self, repository: str, root: bytes | None, section: dict[str, Any] | None, inbound: Relations
    ) -> GraphReader:
        if root is None:
            raise RejectedError("withdrawn", f"{repository} was withdrawn at that entry")
        if root == EMPTY_GRAPH_ROOT:
            return EmptyGraph(repository)
        if section is None:
            raise RejectedError("graph-not-shown", f"the bundle shows nothing of a graph of {repository}")
        found = ProvenGraph(repository, root, section, inbound)
        self.shown.append(found)
        return found

    def _check_nothing_more(self, statement: Statement, positions: Sequence[int]) -> None:
        """That nothing is shown which no step needed: what nobody looked at must not travel under a verdict."""
        bundle = self.bundle
        heads = {roster.head for roster in bundle.rosters}
        logs = {bundle.entries[position].checkpoint for position in positions}
        listed = sum(roster.complete is not None for roster in bundle.rosters)
        needed = (
            logs == set(range(len(bundle.checkpoints)))
            and heads.union(positions) == set(range(len(bundle.entries)))
            and (statement.at != AT_HEAD or heads == {at for at, one in enumerate(self.included) if one})
            and len(bundle.rosters) == len(self.rosters)
            and listed == (statement.all_of is not None)
            and len(bundle.graphs) == len(self.shown)
            and all(one.is_used for one in (*self.rosters.values(), *self.shown) if not isinstance(one, MerkleMap))
        )
        if not needed:
            raise RejectedError("unused", "the bundle shows more than its statement needs")


def _observed(relations: Relations, provenances: frozenset[str]) -> Relations:
    """The relations as one of the two graphs has them: what was observed in its ways."""
    found: Relations = {}
    for key, rows in relations.items():
        mine = [Relation(source, tuple(one for one in ways if one in provenances)) for source, ways in rows]
        found[key] = tuple(row for row in mine if row.provenances)
    return found


def _compare(stated: Answer, shown: Answer) -> None:
    for part, what in (
        ("names", "the names of the symbol"),
        ("provenances", "how the relation was observed"),
        ("ambiguous", "whether the relation is ambiguous"),
        ("callers", "the list of callers"),
        ("undecided", "the list of what is not excluded"),
    ):
        if getattr(stated, part) != getattr(shown, part):
            raise RejectedError(f"statement-{part}", f"{what} in the statement is not what the proofs show")
