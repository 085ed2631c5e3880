"""Vectors of publishing: what a runner sends to a hub, what the hub appends, and what it refuses."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from knowing_protocol.errors import KnowingError
from knowing_protocol.hashing import node_hash
from knowing_protocol.pack import Withdrawn, pack_records, pack_withdrawn
from knowing_protocol.records import Edge, Records
from wire import document, packed
from wire_judge import body_of
from wire_world import LEDGER, WIDE, carried, history
from world import EXTRACTOR, START

from knowingd.config import Home
from knowingd.federation import Federation
from knowingd.node import Node as RealNode
from knowingd.store.peerstore import TokenRow

TOKEN: Final = {"scope": "publish", "pattern": "github.com/acme/*"}
FIRST: Final = "publish-a-first-state"
CHANGE: Final = "publish-a-change"


def _entry(index: int) -> tuple[list[bytes], list[Any]]:
    """Roots, and what is told of a state."""
    header = history().headers[index]
    assert header.source is not None
    assert header.overlay is not None
    return [header.source, header.overlay], [header.commit, header.branch, EXTRACTOR]


def _whole(index: int) -> list[Any]:
    """All of a state, for a hub that has nothing."""
    return [[pack_records(one), pack_withdrawn(Withdrawn())] for one in history().states[index]]


def _nothing() -> list[Any]:
    return [[pack_records(Records()), pack_withdrawn(Withdrawn())] for _ in range(2)]


def _phantom_edge() -> list[Any]:
    """A name from outside that the hub has, calling something."""
    nodes = history().states[0].source.nodes
    phantom, function = (next(one for one in nodes if one.kind == kind) for kind in ("external", "function"))
    edge = Edge(node_hash(*phantom), node_hash(*function), "calls", "ast_resolved")
    made = _nothing()
    made[0][0] = pack_records(Records(edges=[edge]))
    return made


class _Requests:
    """The requests, from the delta between the two states of a repository."""

    def __init__(self, delta: Any) -> None:
        (roots, told), (later, later_told) = _entry(0), _entry(3)
        about = {"repo": LEDGER, "ref": "HEAD"}
        self.base = [0, 0, roots[0]]
        self.first = {**about, "base": None, "roots": roots, "told": told, "delta": _whole(0)}
        self.change = {**about, "base": self.base, "roots": later, "told": later_told, "delta": delta}
        self.again = {**self.change, "base": [0, 1, later[0]], "delta": _nothing()}

    def good(self) -> Iterable[tuple[str, str, list[str], dict[str, Any]]]:
        yield FIRST, "Nothing is there: the base is null, and the delta is everything.", [], self.first
        yield CHANGE, "A change on top of what the hub has.", [FIRST], self.change
        yield "publish-what-is-there", "The same commit with the same roots: no entry.", [FIRST, CHANGE], self.again
        moved = {**self.again, "told": ["6" * 40, "main", EXTRACTOR]}
        yield "publish-the-same-graph-of-another-commit", "An entry of its own.", [FIRST, CHANGE], moved

    def bad(self) -> Iterable[tuple[str, str, list[str], dict[str, Any], dict[str, str]]]:
        first, both, change = [FIRST], [FIRST, CHANGE], self.change
        yield "publish-on-a-stale-base", "moved", both, change, TOKEN
        yield "publish-on-a-base-that-never-was", "moved", first, {**change, "base": [0, 7, self.base[2]]}, TOKEN
        yield "publish-on-another-root", "moved", first, {**change, "base": [0, 0, bytes(32)]}, TOKEN
        yield "publish-as-if-there-were-nothing", "moved", first, self.first, TOKEN
        yield "publish-as-if-there-were-something", "moved", [], change, TOKEN
        roots: list[Any] = change["roots"]
        yield "publish-another-root", "root-mismatch", first, {**change, "roots": [bytes(32), roots[1]]}, TOKEN
        yield "publish-another-overlay-root", "root-mismatch", first, {**change, "roots": [roots[0], bytes(32)]}, TOKEN
        short: Any = copy.deepcopy(change["delta"])
        short[0][1][2].pop()
        yield "publish-a-delta-that-withdraws-too-little", "root-mismatch", first, {**change, "delta": short}, TOKEN
        yield "publish-to-another-repository", "not-allowed", first, change, {**TOKEN, "pattern": WIDE}
        yield "publish-with-a-token-that-reads", "not-allowed", first, change, {**TOKEN, "scope": "read"}
        yield (
            "publish-a-url-in-another-spelling",
            "not-canonical-url",
            [],
            {**self.first, "repo": "GitHub.com/a/b"},
            TOKEN,
        )
        yield "publish-one-root", "wrong-type", first, {**change, "roots": roots[:1]}, TOKEN
        yield "publish-a-short-root", "wrong-type", first, {**change, "roots": [bytes(31), roots[1]]}, TOKEN
        yield "publish-without-an-extractor", "wrong-type", first, {**change, "told": ["4" * 40, "main"]}, TOKEN
        yield (
            "publish-a-commit-that-is-too-long",
            "too-long",
            first,
            {**change, "told": ["4" * 201, "", EXTRACTOR]},
            TOKEN,
        )
        yield "publish-with-a-field-too-many", "fields", first, {**change, "submitter": "me"}, TOKEN
        yield "publish-a-delta-of-one-graph", "delta", first, {**change, "delta": change["delta"][:1]}, TOKEN
        far: Any = copy.deepcopy(change["delta"])
        far[0][0][2] = [8, bytes(8)]
        yield "publish-an-edge-that-starts-at-a-phantom", "pack", first, {**change, "delta": _phantom_edge()}, TOKEN
        yield "publish-a-node-that-is-not-there", "unknown-node", first, {**change, "delta": far}, TOKEN


class Hub:
    """A hub that is published to; a real one."""

    def __init__(self, directory: Path) -> None:
        self.node = RealNode(Home(directory))
        self.federation = Federation(self.node)

    def take(self, token: dict[str, str], request: Any) -> dict[str, Any]:
        """What is answered to a request, and the roots of the newest entry of the repository then; or the refusal."""
        row = TokenRow("00000000", bytes(32), token["scope"], token["pattern"], "runner", START)
        try:
            answer = self.federation.take_published(row, carried(request))
        except KnowingError as error:
            return {"refused": error.code}
        return {
            "expect": {"answer": answer, "roots": self.roots(), "submitter": self.node.store.headers()[-1].submitter}
        }

    def roots(self) -> list[str]:
        """The roots of the newest entry."""
        headers = self.node.store.headers()
        return [root.hex() for one in headers[-1:] for root in (one.source, one.overlay) if root is not None]

    def close(self) -> None:
        """Close the home."""
        self.node.close()


class Hubs:
    """Hubs to which something was published already."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0
        self.made: dict[tuple[str, ...], Path] = {}

    def judged(self, vector: dict[str, Any], before: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """What a hub makes of a vector; `before` are the vectors that it may name."""
        hub = Hub(self._copy(tuple(vector["before"]), before))
        try:
            roots = hub.roots()
            found = hub.take(vector["token"], body_of(vector))
            assert "expect" in found or hub.roots() == roots
        finally:
            hub.close()
        return found

    def _copy(self, names: tuple[str, ...], before: dict[str, dict[str, Any]]) -> Path:
        self.count += 1
        home = self.directory / f"hub {self.count}"
        if not names:
            return home
        if names not in self.made:
            made = self._copy(names[:-1], before)
            hub = Hub(made)
            assert "expect" in hub.take(TOKEN, body_of(before[names[-1]]))
            hub.close()
            self.made[names] = made
        shutil.copytree(self.made[names], home)
        return home


def published(directory: Path, delta: Any) -> dict[str, Any]:
    """Requests to publish."""
    requests, hubs = _Requests(delta), Hubs(directory)
    found: dict[str, dict[str, Any]] = {}
    for name, about, before, request in requests.good():
        vector = {"name": name, "about": about, "kind": "publish", "before": before, "token": TOKEN, **packed(request)}
        found[name] = vector | hubs.judged(vector, found)
        assert "expect" in found[name], found[name]
    for name, code, before, request, token in requests.bad():
        vector = {"name": name, "kind": "publish", "before": before, "token": token, **packed(request)}
        found[name] = vector | hubs.judged(vector, found)
        assert found[name].get("refused") == code, (name, found[name].get("refused"))
    return document(
        "publish",
        "Bodies of POST /v1/publish to a hub that was empty before the requests in `before`; `token` has what the "
        "token opens, and `expect` the answer and the roots of the newest entry.",
        found.values(),
    )
