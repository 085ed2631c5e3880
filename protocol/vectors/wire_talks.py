"""Vectors of whole conversations: what a node asks and is answered, from the roster to the commit; and what it refuses.

They are recorded from the code that serves and pulls, and played back to a node that pulls. A negative one is a good
one with one answer changed.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from knowing_protocol.access import Access, access_text, reader_tag, relay_tag
from knowing_protocol.ed25519 import verify
from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import KnowingError
from knowing_protocol.evidence import check_evidence
from knowing_protocol.keys import NewEpoch, epoch_text
from knowing_protocol.note import sign_note
from wire import HUB, document, packed
from wire_judge import body_of, fresh
from wire_notes import forked, node_note, revoked, rotated, signed_at
from wire_publish import published
from wire_world import (
    LEDGER,
    NONCE,
    READER,
    SECRET,
    Exchange,
    Hub,
    Origin,
    Receiver,
    Result,
    history,
    ledger,
)
from world import START, seed

from knowingd.keys import SigningKey
from knowingd.sync.replica import Entry

PLACE: Final = {"repo": LEDGER, "ref": "HEAD", "origin": HUB.origin}
Talk = list[Exchange]


class Talks:
    """Everything that is recorded, with the nodes that it is recorded from."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0
        self.homes: dict[tuple[str, ...], tuple[Path, bytes | None]] = {}
        self.hubs = {
            "at 2": Hub(fresh(directory, "at 2"), 2),
            "at 5": Hub(fresh(directory, "at 5"), 5),
            "at 5, nothing older": Hub(fresh(directory, "pruned"), 5, pruned=True),
            "at 5, relayed": Hub(fresh(directory, "relayed"), 5, relay=True),
        }
        self.good: dict[str, tuple[str, list[str], Talk, Result]] = {}
        self._record("first-transfer", "Nothing is here yet: pieces.", [], "at 2")
        self._record("nothing-new", "The view is the one that was seen last.", ["first-transfer"], "at 2")
        self._record(
            "delta", "The base is known: two round trips, the delta in the second.", ["first-transfer"], "at 5"
        )
        self._record("descent", "The base is not known any more.", ["first-transfer"], "at 5, nothing older")
        self._record("access-list", "The receiver may relay now.", ["first-transfer", "delta"], "at 5, relayed")
        self.hubs["at 5, relayed"].let_relay(relay=False)
        self._record(
            "relay-is-over",
            "It may no longer: it is told once more, since it sees the repository.",
            ["first-transfer", "delta", "access-list"],
            "at 5, relayed",
        )
        self._play_good(
            "new-epoch", "A log that begins anew, as its node announced.", ["first-transfer"], self._epoch(1)
        )

        missed = "Of an epoch in between nothing was seen, not even its end, which has the size of the pin."
        self._play_good("epoch-after-one-that-was-missed", missed, ["first-transfer"], self._epoch(2))

    def _epoch(self, epoch: int) -> Talk:
        """A roster that has nothing but a log of a new epoch."""
        found = copy.deepcopy(self.good["delta"][2])[:1]
        ends = [history().log.root(2), forked().log.root(2)]
        notes = [node_note(epoch_text(NewEpoch(HUB.origin, n + 1, 2, root)), "hub") for n, root in enumerate(ends)]
        found[0].answer.update(repos=[], logs=[new_epoch([], notes[:epoch], epoch=epoch)])
        return found

    def _play_good(self, name: str, about: str, before: list[str], talk: Talk) -> None:
        as_expected, result = self.play(before, talk)
        assert as_expected, (name, result)
        assert not result.code, (name, result)
        self.good[name] = (about, before, talk, result)

    @property
    def ledger_delta(self) -> Any:
        """The delta between the two states of the first repository."""
        return next(one.answer["body"] for one in self.good["delta"][2] if one.request.get("repo") == LEDGER)

    def receiver(self, before: Iterable[str]) -> Receiver:
        """A node to which these conversations have happened."""
        names = tuple(before)
        self.count += 1
        home = self.directory / f"receiver {self.count}"
        if not names:
            return Receiver(home)
        if names not in self.homes:
            made = self.receiver(names[:-1])
            as_expected, result = made.replay(self.good[names[-1]][2])
            made.close()
            assert as_expected, (names, result)
            assert not result.code, (names, result)
            self.homes[names] = (made.home, made.view)
        shutil.copytree(self.homes[names][0], home)
        return Receiver(home, self.homes[names][1])

    def _record(self, name: str, about: str, before: list[str], hub: str) -> None:
        made = self.receiver(before)
        talk, result = made.record(self.hubs[hub])
        made.close()
        assert not result.code, (name, result)
        self.good[name] = (about, before, talk, result)

    def play(self, before: Iterable[str], talk: Talk) -> tuple[bool, Result]:
        """Have a conversation with a new node."""
        made = self.receiver(before)
        try:
            return made.replay(talk)
        finally:
            made.close()

    def apply(self, before: Iterable[str], delta: Any) -> str:
        """Commit a delta of the first repository to its fourth header; the code of the refusal."""
        made = self.receiver(before)
        try:
            return made.apply(LEDGER, Entry(HUB.origin, 0, history().headers[3]), delta)
        finally:
            made.close()

    def close(self) -> None:
        """Close the databases."""
        for hub in self.hubs.values():
            hub.close()


def exchange(one: Exchange) -> dict[str, Any]:
    """An exchange in a vector."""
    return {"endpoint": f"/v1/{one.name}", "request": packed(one.request), "answer": packed(one.answer)}


def exchanges_of(vector: dict[str, Any]) -> Talk:
    """The exchanges of a vector, from their bytes."""
    return [
        Exchange(one["endpoint"].removeprefix("/v1/"), body_of(one["request"]), body_of(one["answer"]))
        for one in vector["exchanges"]
    ]


def conversations(talks: Talks) -> dict[str, Any]:
    """What leads to the signed roots."""
    found = []
    for name, (about, before, talk, result) in talks.good.items():
        expect = {"modes": result.modes, "roots": result.roots}
        vector = {"name": name, "about": about, "kind": "conversation", "before": before}
        found.append(vector | {"exchanges": [exchange(one) for one in talk], "expect": expect})
    return document(
        "conversations",
        "What a node that pulls asks and is answered; `before` are the conversations that it has had. It ends with the "
        "roots of the source and overlay graphs that its databases then have.",
        found,
        first_key=HUB.first_key.hex(),
        origin=HUB.origin.hex(),
    )


# Answers that are refused


def _only_ledger(talk: Sequence[Exchange]) -> Talk:
    """The part of a conversation that is about one repository."""
    found = [copy.deepcopy(one) for one in talk if one.request.get("repo", LEDGER) == LEDGER]
    found[0].answer["repos"] = [row for row in found[0].answer["repos"] if row[0] == LEDGER]
    return found


def _leaves(node: Origin, start: int, end: int) -> bytes:
    return b"".join(one.leaf for one in node.headers[start:end])


def new_epoch(keys: list[str], epochs: list[str], key: str = "hub", epoch: int = 1) -> list[Any]:
    """The log of a later epoch of the hub, with one entry, as it stands in a roster."""
    new = Origin("hub", epoch)
    new.take(LEDGER, ledger(later=False), "1" * 40)
    return [HUB.first_key, keys, epochs, epoch, new.note(1, key), 0, _leaves(new, 0, 1)]


class _Changed:
    """The defects: each gives a conversation with one answer changed."""

    def __init__(self, talks: Talks) -> None:
        self.delta = _only_ledger(talks.good["delta"][2])
        self.descent = _only_ledger(talks.good["descent"][2])
        self.first = _only_ledger(talks.good["first-transfer"][2])
        self.listed = talks.good["access-list"][2]

    def rows(self) -> Iterable[tuple[str, str, list[str], Talk]]:
        after, later = ["first-transfer"], ["first-transfer", "delta"]
        for name, code, talk in self._logs():
            yield name, code, after, talk
        for name, code, alter in self._rosters():
            talk = copy.deepcopy(self.delta)[:1]
            alter(talk[0].answer["repos"][0])
            yield name, code, after, talk
        for name, code, change in self._pulls():
            yield name, code, after, self._with(self.delta, 1, change)
        for name, code, place, change in self._descents():
            yield name, code, after, self._with(self.descent, place, change)
        for name, code, place, change in self._pieces():
            yield name, code, [], self._with(self.first, place, change)
        for name, code, note in self._lists():
            talk = copy.deepcopy(self.listed)[:1]
            talk[0].answer["access"] = [note]
            if name.endswith("revoked-key"):
                talk[0].answer["logs"][0][1] = [rotated(0, 5), revoked(0, 5, "hub, later")]
            yield name, code, later, talk

    @staticmethod
    def _with(talk: Talk, place: int, change: Callable[[Any], Any]) -> Talk:
        found = copy.deepcopy(talk)[: place + 1]
        replaced = change(found[place].answer)
        if isinstance(replaced, dict):
            found[place] = found[place]._replace(answer=replaced)
        return found

    def _log(self, *more: Any, **parts: Any) -> Talk:
        """A roster with another log, and further answers with leaves."""
        found = copy.deepcopy(self.delta)[:1]
        names = ("first", "keys", "epochs", "epoch", "note", "start", "leaves")
        record = dict(zip(names, found[0].answer["logs"][0], strict=True)) | parts
        found[0].answer["logs"] = [list(record.values())]
        return found + [Exchange("log", {"origin": HUB.origin, "epoch": 0, "start": start}, {"leaves": leaves})
                        for start, leaves in more]  # fmt: skip

    def _logs(self) -> Iterable[tuple[str, str, Talk]]:
        honest, other = history(), forked()
        yield "another-root-for-one-size", "log-fork", self._log(note=other.note(2), leaves=b"")
        yield (
            "log-that-became-another",
            "log-fork",
            self._log((0, _leaves(other, 0, 5)), note=other.note(5), leaves=_leaves(other, 2, 5)),
        )
        yield "shorter-log-signed-later", "log-fork", self._log(note=signed_at(honest, 1, START + 9999), leaves=b"")
        yield "old-checkpoint", "behind", self._log(note=honest.note(1), leaves=b"")
        yield "checkpoint-signed-by-another-key", "unsigned", self._log(note=honest.note(5, "shop"))
        yield "checkpoint-changed", "bad-signature", self._log(note=honest.note(5).replace("\n5\n", "\n6\n"))
        wrong = _leaves(other, 2, 5)
        whole = _leaves(honest, 0, 2) + wrong
        yield "leaves-of-another-log", "log-mismatch", self._log((0, whole), leaves=wrong)
        yield "leaves-that-end-early", "log-mismatch", self._log((3, b""), leaves=_leaves(honest, 2, 3))
        yield "leaves-cut-off", "log", self._log(leaves=_leaves(honest, 2, 5)[:-1])
        yield "log-of-six-things", "log", self._six()
        yield "checkpoint-of-another-epoch-than-it-is-shown-for", "log", self._log(epoch=1)
        yield "epoch-of-a-log-as-a-fraction", "wrong-type", self._log(epoch=0.0)
        yield "epoch-that-was-never-announced", "epoch-unannounced", self._epoch([])
        other_end = NewEpoch(HUB.origin, 1, 2, other.log.root(2))
        yield (
            "epoch-after-another-end-of-the-last",
            "epoch-mismatch",
            self._epoch([node_note(epoch_text(other_end), "hub")]),
        )
        ended = epoch_text(NewEpoch(HUB.origin, 1, 2, honest.log.root(2)))
        yield "epoch-announced-by-another-key", "epoch-unannounced", self._epoch([node_note(ended, "shop")])
        gone = [rotated(0, 2), revoked(0, 2, "hub, later")]
        talk = self._epoch([node_note(ended, "hub")], gone, "hub, later")
        yield "epoch-announced-by-a-revoked-key", "epoch-unannounced", talk

    def _epoch(self, epochs: list[str], keys: list[str] | None = None, key: str = "hub") -> Talk:
        found = copy.deepcopy(self.delta)[:1]
        found[0].answer["logs"] = [new_epoch(keys or [], epochs, key)]
        return found

    def _rosters(self) -> Iterable[tuple[str, str, Callable[[Any], Any]]]:
        yield "roster-of-a-log-that-is-not-there", "wrong-type", lambda row: row.__setitem__(2, 1)
        yield "roster-with-a-truth-value", "wrong-type", lambda row: row.__setitem__(3, False)
        yield "roster-with-an-index-beyond-2-to-the-53", "wrong-type", lambda row: row.__setitem__(4, 1 << 53)
        yield "roster-with-an-empty-ref", "empty", lambda row: row.__setitem__(1, "")

    def _six(self) -> Talk:
        found = self._log()
        found[0].answer["logs"][0].pop()
        return found

    def _pulls(self) -> Iterable[tuple[str, str, Callable[[Any], Any]]]:
        headers = [canonical_json(one.as_json()).decode() for one in history().headers]
        yield "field-missing-in-an-answer", "fields", lambda answer: {"mode": answer["mode"]}
        yield "first-transfer-for-a-base-that-is-known", "fields", lambda answer: answer.update(mode="full", body=None)
        yield "unknown-mode", "wrong-type", lambda answer: answer.update(mode="guess")
        yield (
            "header-changed",
            "not-in-log",
            lambda answer: answer.update(header=answer["header"].replace('"edges":', '"edges":1')),
        )
        yield "header-not-canonical", "not-canonical", lambda answer: answer.update(header=answer["header"] + " ")
        yield "header-of-another-repository", "wrong-header", lambda answer: answer.update(header=headers[4])

    def _descents(self) -> Iterable[tuple[str, str, int, Callable[[Any], Any]]]:
        def top(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda answer: change(answer["body"][1])

        yield "descent-without-a-nonce", "descent", 1, lambda answer: answer["body"].__setitem__(0, None)
        yield "top-with-one-graph", "descent", 1, top(lambda found: found.pop())
        yield "top-with-a-fingerprint-too-few", "descent", 1, top(lambda found: found.__setitem__(0, found[0][:-8]))
        yield "branch-of-a-type-that-does-not-exist", "descent", 1, top(lambda found: found[1][1][0].__setitem__(1, 38))
        yield (
            "children-that-are-fifteen",
            "descent",
            1,
            top(lambda found: found[1][1][0].__setitem__(4, found[1][1][0][4][:-8])),
        )
        yield "answer-too-few", "descent", 2, lambda answer: answer["answers"].pop()
        yield "nothing-answered", "descent", 2, lambda answer: answer.update(answers=[None] * len(answer["answers"]))
        yield "flags-of-another-length", "descent", 2, lambda answer: answer["answers"][1].__setitem__(0, b"\0\0\0")
        yield "child-that-is-a-truth-value", "descent", 2, lambda answer: answer["answers"][0][0].__setitem__(0, True)
        yield "child-of-17", "descent", 2, lambda answer: answer["answers"][0][0].__setitem__(0, 17)
        yield "listed-but-not-there", "descent", 3, lambda answer: answer["answers"][0].__setitem__(0, b"\x01")
        yield "pack-of-a-descent-left-out", "unknown-node", 3, lambda answer: answer.update(packs=[None, None])

    def _pieces(self) -> Iterable[tuple[str, str, int, Callable[[Any], Any]]]:
        yield "piece-with-a-long-root", "chunk", 2, lambda answer: answer["pieces"][0].__setitem__(6, bytes(17))
        yield "piece-with-a-bad-prefix", "descent", 2, lambda answer: answer["pieces"][0].__setitem__(5, 1)
        yield "no-pieces-sent", "chunk", 3, lambda answer: answer["packs"].clear()
        yield "piece-that-consists-of-itself", "chunk", 3, self._itself
        yield "piece-that-consists-of-others", "chunk", 3, self._others
        yield "piece-that-consists-of-nothing", "chunk", 3, lambda answer: answer["packs"].__setitem__(0, [[]])
        yield "piece-changed", "root-mismatch", 3, self._piece_changed
        yield "piece-without-its-nodes", "unknown-node", 3, self._without_nodes

    def _itself(self, answer: Any) -> None:
        answer["packs"][0] = [[self.first[2].answer["pieces"][0]]]

    def _others(self, answer: Any) -> None:
        """Smaller, but not below the one that was asked for."""
        answer["packs"][0] = [[[0, 2, "", 0, 4, 0, bytes(16)]]]

    @staticmethod
    def _piece_changed(answer: Any) -> None:
        covered = next(pack for _, pack in answer["packs"] if pack[9][0])[9]
        covered[1] = b"\x05" * len(covered[0])

    @staticmethod
    def _without_nodes(answer: Any) -> None:
        answer["packs"][0][1][1] = [[], [], b""]

    def _lists(self) -> Iterable[tuple[str, str, Any]]:
        tags = (reader_tag(HUB.origin, LEDGER, READER.origin),), (relay_tag(HUB.origin, LEDGER, READER.origin),)
        text = access_text(Access(HUB.origin, LEDGER, 1, *tags))
        name = f"knowing/{HUB.origin.hex()}"
        yield "access-list-that-its-origin-did-not-sign", "access", sign_note(text, [SigningKey(name, seed("shop"))])
        stranger = Access(READER.origin, LEDGER, 1, *tags)
        signer = SigningKey(f"knowing/{READER.origin.hex()}", seed("reader"))
        yield "access-list-of-a-node-that-is-not-known", "access", sign_note(access_text(stranger), [signer])
        yield "access-list-that-is-no-text", "access", 1
        yield "access-list-by-a-revoked-key", "access", node_note(text, "hub")


def refused(talks: Talks) -> dict[str, Any]:
    """Answers that are not believed."""
    found = []
    for name, code, before, talk in _Changed(talks).rows():
        _, result = talks.play(before, talk)
        assert result.code == code, (name, result)
        vector: dict[str, Any] = {"name": name, "kind": "conversation", "before": before, "refused": code}
        assert [check_evidence(one.encode(), verify).kind for one in result.evidence] == [
            kind for one, kind in EVIDENT.items() if one == name
        ]
        if result.evidence:
            vector["evidence"] = result.evidence[0]
        rows = [exchange(one) for one in talk]
        for row in rows[:-1]:  # the same as in the good ones
            del row["request"]["json"], row["answer"]["json"]
        found.append(vector | {"exchanges": rows})
    return document(
        "refused-answers",
        "Conversations whose last answers have a defect. What was there before stays as it was; `evidence` is kept.",
        found,
    )


EVIDENT: Final = {
    "another-root-for-one-size": "fork",
    "log-that-became-another": "fork",
    "shorter-log-signed-later": "rollback",
}
"""Conversations after which there is evidence, by its kind."""


# Deltas


def _short_subset(delta: Any) -> None:
    branch = delta[0][1][2][0]
    branch[3] = branch[3][:-1]


DELTA_DEFECTS: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("delta-of-one-graph", "delta", lambda delta: delta.pop()),
    ("delta-without-what-goes", "delta", lambda delta: delta[0].pop()),
    (
        "delta-with-a-file-not-covered-too-many",
        "root-mismatch",
        lambda delta: delta[0][0].__setitem__(9, [["x"], b"\0"]),
    ),
    ("delta-that-withdraws-too-little", "root-mismatch", lambda delta: delta[0][1][2].pop()),
    ("delta-that-adds-too-little", "root-mismatch", lambda delta: delta[0][0].__setitem__(7, [[], []])),
    ("delta-that-changes-the-overlay", "root-mismatch", lambda delta: delta[1][1].__setitem__(2, [])),
    ("delta-of-a-branch-that-is-not-here", "delta", lambda delta: delta[0][1][2][0].__setitem__(0, "elsewhere")),
    ("delta-with-more-places-than-edges", "subset", lambda delta: delta[0][1][2][0].__setitem__(2, 99)),
    ("delta-with-a-subset-cut-off", "subset", _short_subset),
    ("delta-with-a-node-that-is-not-here", "unknown-node", lambda delta: delta[0][0].__setitem__(2, [8, bytes(8)])),
    ("delta-with-a-call-site-of-the-other-graph", "pack", lambda delta: delta[0][0][3].__setitem__(0, 2)),
)


def deltas(talks: Talks) -> dict[str, Any]:
    """What changed since a known base."""
    honest = talks.ledger_delta
    about: dict[str, Any] = {"kind": "delta", "repository": LEDGER, "before": ["first-transfer"], "header": 3}
    header = history().headers[3]
    assert header.source is not None
    assert header.overlay is not None
    assert talks.apply(about["before"], honest) == ""
    roots = [header.source.hex(), header.overlay.hex()]
    found = [{"name": "delta", **about, **packed(honest), "expect": roots}]
    for name, code, change in DELTA_DEFECTS:
        value = copy.deepcopy(honest)
        change(value)
        given = talks.apply(about["before"], value)
        assert given == code, (name, given)
        found.append({"name": name, **about, **packed(value), "refused": code})
    return document("deltas", "Deltas on what the conversation `before` led to; `expect` are the roots.", found)


# Requests that are refused


def _requests() -> Iterable[tuple[str, str, dict[str, Any]]]:
    entry = {**PLACE, "entry": [0, 3]}
    descend = {**entry, "nonce": NONCE}
    ask = [0, 0, "", 0, 4, 9, 0, bytes(128)]

    def asked(**changes: Any) -> dict[str, Any]:
        names = ("layer", "map", "package", "type", "bits", "prefix", "kind", "data")
        return {**descend, "asks": [list((dict(zip(names, ask, strict=True)) | changes).values())]}

    known = [0, 0, history().headers[0].source]
    yield "roster-from-nothing", "roster", {"view": None, "logs": []}
    yield "roster-with-a-log-that-is-known", "roster", {"view": None, "logs": [[HUB.origin, 0, 4]]}
    yield "leaves-from-3", "log", {"origin": HUB.origin, "epoch": 0, "start": 3}
    yield "leaves-beyond-the-end", "log", {"origin": HUB.origin, "epoch": 0, "start": 9}
    yield "pull-without-a-base", "pull", {**PLACE, "base": None, "descend": 0}
    yield "pull-with-a-known-base", "pull", {**PLACE, "base": known, "descend": 0}
    yield "pull-with-the-head", "pull", {**PLACE, "base": [0, 3, history().headers[3].source], "descend": 0}
    yield "pull-with-an-unknown-root", "pull", {**PLACE, "base": [0, 0, bytes(32)], "descend": 0}
    yield "pull-that-asks-for-a-descent", "pull", {**PLACE, "base": known, "descend": 1}
    yield "pieces", "pieces", entry
    yield "piece-of-nodes", "piece", {**entry, "pieces": [[0, 0, "", 0, 0, 0, b""]]}
    yield "piece-of-a-branch", "piece", {**entry, "pieces": [[0, 7, "ledger", 31, 4, 9, b""]]}
    yield "children", "descend", asked()
    yield "leaves", "descend", asked(kind=1, data=bytes(8))
    yield "want", "descend", asked(kind=2, data=bytes(8))
    yield "package-leaves", "descend", asked(map=1, bits=0, prefix=0, kind=1, data=b"")
    # refused
    yield "roster-without-logs", "roster", {"view": None}
    yield "roster-with-a-field-too-many", "roster", {"view": None, "logs": [], "x": 1}
    yield "roster-with-a-view-that-is-text", "roster", {"view": "", "logs": []}
    yield "roster-with-a-log-of-two-things", "roster", {"view": None, "logs": [[HUB.origin, 0]]}
    yield "log-of-a-node-that-is-not-shared", "log", {"origin": READER.origin, "epoch": 0, "start": 0}
    yield "pull-of-what-is-not-granted", "pull", {**PLACE, "repo": SECRET, "base": None, "descend": 0}
    yield "pull-of-what-does-not-exist", "pull", {**PLACE, "repo": "github.com/a/b", "base": None, "descend": 0}
    yield "pull-of-another-origin", "pull", {**PLACE, "origin": READER.origin, "base": None, "descend": 0}
    yield "pull-with-a-truth-value", "pull", {**PLACE, "base": None, "descend": False}
    yield "pull-with-a-base-of-two-things", "pull", {**PLACE, "base": [0, 0], "descend": 0}
    yield "pieces-of-a-head-that-moved", "pieces", {**PLACE, "entry": [0, 0]}
    yield "leaves-from-2-to-the-53", "log", {"origin": HUB.origin, "epoch": 0, "start": 1 << 53}
    yield "leaves-of-a-negative-epoch", "log", {"origin": HUB.origin, "epoch": -1, "start": 0}
    yield "pull-with-a-base-of-fractions", "pull", {**PLACE, "base": [0.0, 0.0, known[2]], "descend": 0}
    yield "entry-that-is-negative", "pieces", {**PLACE, "entry": [0, -1]}
    yield "piece-of-six-things", "piece", {**entry, "pieces": [[0, 0, "", 0, 0, 0]]}
    yield "descent-with-a-short-nonce", "descend", {**entry, "nonce": b"n", "asks": []}
    yield "descent-with-1025-asks", "descend", {**descend, "asks": [None] * 1025}
    yield "ask-of-seven-things", "descend", {**descend, "asks": [ask[:7]]}
    yield "ask-with-a-bad-prefix", "descend", asked(bits=4, prefix=16)
    yield "ask-with-68-bits", "descend", asked(bits=68, prefix=0)
    yield "ask-of-a-third-graph", "descend", asked(layer=2)
    yield "ask-of-a-map-that-is-not-compared", "descend", asked(map=8)
    yield "ask-of-a-branch-without-a-type", "descend", asked(map=7)
    yield "ask-of-a-map-with-a-type", "descend", asked(type=1)
    yield "ask-of-an-unknown-type", "descend", asked(map=7, type=39)
    yield "ask-of-an-unknown-kind", "descend", asked(kind=3)
    yield "ask-with-fifteen-children", "descend", asked(data=bytes(120))
    yield "ask-with-a-fingerprint-cut-off", "descend", asked(kind=1, data=bytes(7))


def answered(hub: Hub, endpoint: str, request: Any) -> dict[str, Any]:
    """What a node answers to a request, or the code of its refusal."""
    try:
        return {"answer": packed(hub.answer(endpoint, request))}
    except KnowingError as error:
        return {"refused": error.code}


def requests(talks: Talks) -> dict[str, Any]:
    """Single requests, and what the hub at size 5 answers to the reader."""
    found = []
    for name, endpoint, request in _requests():
        hub = talks.hubs["at 5"]
        vector = {"name": name, "kind": "request", "endpoint": f"/v1/{endpoint}", **packed(request)}
        found.append(vector | answered(hub, endpoint, request))
    return document("requests", "Requests of the reader, and what the hub answers at size 5 of its log.", found)


def documents() -> list[dict[str, Any]]:
    """All files of conversations and requests."""
    memory = Path("/dev/shm")  # nothing here need survive, and every commit waits for a disk
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        talks = Talks(Path(directory))
        try:
            made = published(fresh(talks.directory, "published"), talks.ledger_delta)
            return [conversations(talks), refused(talks), deltas(talks), requests(talks), made]
        finally:
            talks.close()
