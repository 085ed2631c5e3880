"""Two nodes for the vectors of the wire: one that answers, with public keys and a fixed clock, and one that asks.

Everything that travels is made by the code that serves and pulls; what is fixed here is what a run would choose: keys,
times, and the nonce of a descent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from unittest.mock import patch

import msgpack
from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import KnowingError
from knowing_protocol.graph import Graph, coverage_counts
from knowing_protocol.hashing import content_hash, node_hash
from knowing_protocol.history import DEFAULT_REF, Header, node_name
from knowing_protocol.note import Note as SignedNote
from knowing_protocol.note import sign_note, signature_by
from knowing_protocol.records import Declaration, Facts, File, LocalType, Records, Site
from knowing_protocol.vocabulary import Coverage
from world import EXTRACTOR, START, Builder, Node, seed

from knowingd import keys
from knowingd.config import Home
from knowingd.federation import Federation
from knowingd.keys import SigningKey
from knowingd.node import Node as RealNode
from knowingd.store.interface import GraphStore
from knowingd.store.nodestore import RosterRow
from knowingd.store.originstore import AccessRow
from knowingd.store.peerstore import ACCEPTED, Grant, PeerRow
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import Changes
from knowingd.sync.delta import read_delta
from knowingd.sync.host import Host
from knowingd.sync.pulling import Meter, Puller
from knowingd.sync.replica import Entry, commit
from knowingd.sync.serving import Serving
from knowingd.sync.visible import PeerViewer

LEDGER: Final = "github.com/acme/ledger"
WIDE: Final = "github.com/acme/wide"
SECRET: Final = "github.com/acme/secret"
NONCE: Final = bytes(range(16))
READER: Final = Node("reader")
NO_RECORDS: Final = Records()


class State(NamedTuple):
    """The two graphs of a repository."""

    source: Records
    overlay: Records


def ledger(*, later: bool) -> State:
    """Every table; branches of more than 32 relations; a call site above its declaration; an overlay."""
    made, over = Builder(LEDGER), Builder(LEDGER)
    module = made.node("ledger", "", "file")
    kept = made.node("ledger/book", "Entry", "type")
    total = made.node("ledger/book", "Entry.total", "method")
    names = [f"post_{number}" for number in range(40)]
    if later:
        names = [name for name in names if name != "post_7"] + ["close"]
    posts = {name: made.node("ledger/book", name) for name in names}
    for name, post in posts.items():
        made.edge(module, post, "contains")
        made.edge(post, "python://hashlib.sha256", how="ast_inferred" if later and name == "post_9" else "ast_resolved")
    decorated = made.edge(posts["post_1"], "python://functools.cache", "decorates")
    called = made.edge(posts["post_0"], posts["post_1"])
    made.alias("python://ledger", module)
    made.alias("python://ledger.book.post_0", posts["post_0"])
    made.alias("python://ledger.book.post_1", posts["post_1"], claimed=later)
    made.alias("python://ledger.sha256", "python://hashlib.sha256")
    made.member(kept, "total", total)
    made.facts(total, Facts(returns=("python://builtins.int", LocalType("ledger/book", "Entry", "type"))))
    if later:
        made.facts(posts["close"], Facts(types=("python://builtins.int",), partial=("types",)))
    move = 3 if later else 0
    made.records.files.append(
        File(
            "ledger/book.py",
            content_hash(b"two" if later else b"one"),
            (
                Declaration(node_hash(*posts["post_0"]), 10 + move, 12 + move, "def post_0(amount)", "Post."),
                Declaration(node_hash(*posts["post_1"]), 16 + move, 18 + move, "def post_1()", ""),
            ),
            (Site(called.hash, 0, 1, 4, 0), Site(decorated.hash, 0, -1, 0, -1)),
        )
    )
    made.records.coverage["docs/logo.png"] = Coverage.BINARY
    if not later:
        made.records.coverage["ledger/old.py"] = Coverage.FAILED
    first, second = (over.node("ledger/book", name) for name in ("post_0", "post_1"))
    over.edge(first, second, "runtime_calls", "otel_trace_100" if later else "otel_trace_10")
    return State(made.records, over.records)


def wide(*, later: bool) -> State:
    """So many packages that a descent goes through the map of packages."""
    made = Builder(WIDE)
    for number in range(36):
        if later and number == 3:
            continue
        function = made.node(f"wide/p{number}", "run")
        made.edge(function, "python://os.getcwd" if later and number == 5 else "python://os.getpid")
    if later:
        made.edge(made.node("wide/new", "run"), "python://os.getpid", "references")
    return State(made.records, NO_RECORDS)


def small() -> State:
    """Something that nobody may see."""
    made = Builder(SECRET)
    made.edge(made.node("secret", "run"), "python://os.getpid")
    return State(made.records, NO_RECORDS)


class Origin(Node):
    """The node that signs."""

    def __init__(self, name: str, epoch: int = 0) -> None:
        super().__init__(name, epoch)
        self.states: dict[int, State] = {}

    def take(self, repo: str, state: State, commit_name: str) -> Header:
        """Append a snapshot of both graphs."""
        source, overlay = Graph(repo, state.source), Graph(repo, state.overlay)
        previous = next((one for one in reversed(self.headers) if one.repository == repo), None)
        index = len(self.headers)
        self.states[index] = state
        header = Header(
            index=index,
            repository=repo,
            ref=DEFAULT_REF,
            branch="main",
            generation=0 if previous is None else previous.generation + 1,
            commit=commit_name,
            previous=None if previous is None else previous.index,
            source=source.root,
            overlay=overlay.root,
            nodes=len(state.source.nodes) + len(state.overlay.nodes),
            edges=len(state.source.edges) + len(state.overlay.edges),
            coverage=coverage_counts(state.source.coverage),
            extractor=EXTRACTOR,
            time=START + 60 * index,
            submitter="",
            roster=bytes(32),
        )
        return self._append(header, source, overlay)


def history(name: str = "hub") -> Origin:
    """Two repositories that are shared, each indexed twice, and one that is not."""
    made = Origin(name)
    made.take(LEDGER, ledger(later=False), "1" * 40)
    made.take(WIDE, wide(later=False), "2" * 40)
    made.take(SECRET, small(), "3" * 40)
    made.take(LEDGER, ledger(later=True), "4" * 40)
    made.take(WIDE, wide(later=True), "5" * 40)
    return made


@dataclass
class _Nodes:
    origin: Origin
    size: int
    rows: list[RosterRow]
    epoch: int = 0

    def roster(self) -> list[RosterRow]:
        return self.rows

    def heads(self) -> dict[tuple[str, str], tuple[int, bytes]]:
        return {(one.repository, one.ref): (one.index, one.digest) for one in self.origin.headers[: self.size]}

    def key_notes(self) -> list[str]:
        return []

    def epoch_notes(self) -> list[str]:
        return []

    def checkpoint(self) -> str:
        return self.origin.note(self.size)

    def leaves(self, epoch: int, start: int, end: int) -> list[bytes]:
        found = [one.leaf for one in self.origin.headers[: self.size]]
        return found[start:end] if epoch == self.epoch else []

    def header_text(self, index: int) -> str:
        return canonical_json(self.origin.headers[index].as_json()).decode()


@dataclass
class _Peers:
    asking: PeerRow
    granted: list[Grant]

    def grants(self, _: int | None = None) -> list[Grant]:
        return self.granted

    def peers(self, _: str) -> list[PeerRow]:
        return [self.asking]


class _Origins:
    def __init__(self) -> None:
        self.kept: dict[tuple[bytes, str], AccessRow] = {}

    def access(self, origin: bytes, url: str) -> AccessRow | None:
        return self.kept.get((origin, url))

    def put_access(self, row: AccessRow) -> None:
        self.kept[row.origin, row.repo_url] = row


class Hub:
    """What serving needs of the node that signs, at one size of its log."""

    def __init__(self, directory: Path, size: int, *, pruned: bool = False, relay: bool = False) -> None:
        signer = history()
        self.signer = signer
        self.origin, self.first_key = signer.origin, signer.first_key
        urls = sorted({one.repository for one in signer.headers[:size]})
        rows = [RosterRow(n, url, DEFAULT_REF, self.origin, None, None, "", True, 0) for n, url in enumerate(urls)]
        self.asking = PeerRow(1, READER.origin, "reader", None, READER.first_key, None, ACCEPTED, "", 0, None)
        self.nodes, self.peers, self.origins = _Nodes(signer, size, rows), _Peers(self.asking, []), _Origins()
        self.let_relay(relay=relay)
        self.stores: dict[str, GraphStore] = {}
        for row in rows:
            self._fill(directory, row, [one for one in signer.headers[:size] if one.repository == row.url], pruned)

    def let_relay(self, *, relay: bool) -> None:
        """Let the reader pass on one of the two repositories that it sees, or no longer."""
        self.peers.granted = [Grant(1, url, relay and url == LEDGER) for url in (LEDGER, WIDE)]

    def _fill(self, directory: Path, row: RosterRow, headers: Sequence[Header], pruned: bool) -> None:
        store = self.stores[row.url] = RepositoryStore(directory / f"{row.id}.db", row.url, row.ref, self.origin)
        before = State(NO_RECORDS, NO_RECORDS)
        for header in headers[-1:] if pruned else headers:
            after = self.signer.states[header.index]
            changes = [changed(layer, before[layer], after[layer]) for layer in (0, 1)]
            self._commit(store, header, changes)
            before = after

    def _commit(self, store: GraphStore, header: Header, changes: Sequence[Changes]) -> None:
        commit(store, Entry(self.origin, 0, header), lambda _: changes, START)

    @contextmanager
    def graph(self, row: RosterRow) -> Iterator[GraphStore]:
        """The database of a repository."""
        yield self.stores[row.url]

    def sign_node(self, text: str) -> str:
        """A note that speaks for the node."""
        return sign_note(text, [SigningKey(node_name(self.origin), seed("hub"))])

    def signed_by_us(self, note: SignedNote) -> bool:
        """Whether the node's key has signed a note."""
        return signature_by(note, node_name(self.origin), self.first_key) is not None

    def answer(self, name: str, request: Any) -> Any:
        """What is answered to a request, as it arrives."""
        with patch("knowingd.sync.serving.secrets.token_bytes", return_value=NONCE):
            host = cast("Host", self)
            answer = getattr(Serving(host), name)(PeerViewer(host, self.asking), carried(request))
        return carried(answer)

    def close(self) -> None:
        """Close the databases."""
        for store in self.stores.values():
            store.close()


def changed(layer: int, before: Records, after: Records) -> Changes:
    """What leads from some records to others."""
    old_files = {file.path: file for file in before.files}
    new_files = {file.path: file for file in after.files}
    added = Records(
        nodes=[one for one in after.nodes if one not in before.nodes],
        edges=[one for one in after.edges if one not in before.edges],
        aliases=[one for one in after.aliases if one not in before.aliases],
        members=[one for one in after.members if one not in before.members],
        facts={key: one for key, one in after.facts.items() if before.facts.get(key) != one},
        files=[one for path, one in new_files.items() if old_files.get(path) != one],
        coverage={path: one for path, one in after.coverage.items() if before.coverage.get(path) != one},
    )
    kept_names = {(one.name, one.target) for one in after.aliases}
    removed = Records(
        nodes=[one for one in before.nodes if one not in after.nodes],
        edges=[one for one in before.edges if one not in after.edges],
        aliases=[one for one in before.aliases if (one.name, one.target) not in kept_names],
        members=[one for one in before.members if one not in after.members],
        facts={key: one for key, one in before.facts.items() if key not in after.facts},
        files=[one for path, one in old_files.items() if path not in new_files],
        coverage={path: one for path, one in before.coverage.items() if path not in after.coverage},
    )
    return Changes(layer, added, removed, [one for one in after.edges if one in before.edges])


def carried(value: Any) -> Any:
    """A value after a journey."""
    return msgpack.unpackb(msgpack.packb(value), strict_map_key=True)


class Exchange(NamedTuple):
    """A request, by the name of its endpoint, and its answer."""

    name: str
    request: Any
    answer: Any


class Result(NamedTuple):
    """What a sync led to: code of the error or an empty text, modes and roots of repositories, evidence."""

    code: str
    modes: dict[str, str]
    roots: dict[str, list[str]]
    evidence: list[str]


class Receiver:
    """A node that pulls from the one that signs; a real one, with a home of its own."""

    def __init__(self, directory: Path, view: bytes | None = None) -> None:
        self.home = directory
        self.node = RealNode(Home(directory))
        self.federation = Federation(self.node)
        self.first_key = history().first_key
        self.peer = self.federation.peers.add_peer(self.first_key, START, name="hub", url="http://hub.example")
        self.view = view

    def sync(self, call: Callable[[str, dict[str, Any]], Any]) -> Result:
        """Pull once."""
        puller = Puller(self.federation, self.peer, call, Meter(), keys.verify)
        try:
            pulled = puller.sync(None, self.view)
        except KnowingError as error:
            return Result(error.code, {}, self.roots(), self._evidence())
        self.view = pulled.view or self.view
        failed = [one.error.code for one in pulled.outcomes if one.error is not None]
        modes = {one.repo: one.mode for one in pulled.outcomes}
        return Result(failed[0] if failed else "", modes, self.roots(), self._evidence())

    def roots(self) -> dict[str, list[str]]:
        """The roots of what is here."""
        found = {}
        for row in self.node.store.roster():
            with self.node.lend(row) as store, store.read() as session:
                last = session.last_snapshot(finished=True)
            if last is not None:
                found[row.url] = [last.source_root.hex(), last.overlay_root.hex()]
        return found

    def _evidence(self) -> list[str]:
        return [row.body for row in self.federation.origins.evidence()]

    def record(self, hub: Hub) -> tuple[list[Exchange], Result]:
        """Pull from a node that answers, and what went to and fro."""
        seen: list[Exchange] = []

        def call(name: str, request: dict[str, Any]) -> Any:
            answer = hub.answer(name, request)
            seen.append(Exchange(name, carried(request), answer))
            return answer

        return seen, self.sync(call)

    def replay(self, exchanges: Sequence[Exchange]) -> tuple[bool, Result]:
        """Pull with answers that are given; whether it was asked exactly what was expected."""
        left = list(exchanges)
        as_expected = True

        def call(name: str, request: dict[str, Any]) -> Any:
            nonlocal as_expected
            if not left:
                as_expected = False
                return {}
            expected = left.pop(0)
            as_expected &= (expected.name, expected.request) == (name, carried(request))
            return expected.answer

        result = self.sync(call)
        return as_expected and not left, result

    def apply(self, repo: str, entry: Entry, delta: Any) -> str:
        """Commit a delta to what is here; the code of the refusal, or nothing."""
        row = next(row for row in self.node.store.roster() if row.url == repo)
        with self.node.lend(row) as store:
            try:
                commit(store, entry, lambda session: read_delta(session, delta), START)
            except KnowingError as error:
                return error.code
        return ""

    def close(self) -> None:
        """Close the home."""
        self.node.close()
