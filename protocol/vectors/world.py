"""A small world for vectors, tests and benchmarks: nodes with keys, logs and graphs, all made from seeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from knowing_protocol.graph import Graph, coverage_counts
from knowing_protocol.hashing import NodeId, content_hash, external, node_hash
from knowing_protocol.history import DEFAULT_REF, Header, checkpoint_of, log_name, origin_id, roster_map
from knowing_protocol.note import checkpoint_text, sign_note
from knowing_protocol.prover import LogView, Subject
from knowing_protocol.records import Alias, Declaration, Edge, Facts, File, LocalType, Member, Records, Site
from knowing_protocol.section import EMPTY_GRAPH_ROOT
from knowing_protocol.tlog import Log
from knowing_protocol.trust import Pin, TrustedNode
from knowing_protocol.vocabulary import Coverage

from knowingd.keys import SigningKey, public_key_of

START = 1_760_000_000
EXTRACTOR = sha256(b"vectors").digest()
PAYMENTS = "github.com/acme/payments"
SHOP = "github.com/acme/shop"
TOOLS = "github.com/acme/tools"


def seed(name: str) -> bytes:
    """The secret half of a key that everybody may know."""
    return sha256(f"knowing test key {name}".encode()).digest()


@dataclass
class Builder:
    """Records of one repository, written down the way people read code."""

    repo: str
    records: Records = field(default_factory=Records)

    def node(self, package: str, name: str, kind: str = "function") -> NodeId:
        """Define a symbol."""
        return self._add(NodeId(self.repo, package, name, kind))

    def outside(self, path: str) -> NodeId:
        """Refer to a name from outside."""
        return self._add(external(path))

    def _add(self, node: NodeId) -> NodeId:
        if node not in self.records.nodes:
            self.records.nodes.append(node)
        return node

    def edge(self, source: NodeId, target: NodeId | str, kind: str = "calls", how: str = "ast_resolved") -> Edge:
        """Let a symbol relate to another, or to a name from outside."""
        found = self.outside(target) if isinstance(target, str) else target
        edge = Edge(node_hash(*source), node_hash(*found), kind, how)
        self.records.edges.append(edge)
        return edge

    def alias(self, name: str, target: NodeId | str, *, claimed: bool = True) -> None:
        """Publish a name."""
        found = self.outside(target) if isinstance(target, str) else target
        self.records.aliases.append(Alias(name, node_hash(*found), claimed))

    def member(self, owner: NodeId, name: str, target: NodeId) -> None:
        """Publish a member."""
        self.records.members.append(Member(node_hash(*owner), name, node_hash(*target)))

    def facts(self, node: NodeId, facts: Facts) -> None:
        """Publish what is known of a node's types."""
        self.records.facts[node_hash(*node)] = facts


class Node:
    """A node that signs: one log, any number of repositories, all in memory."""

    def __init__(self, name: str, epoch: int = 0) -> None:
        self.name = name
        self.first_key = public_key_of(seed(name))
        self.origin = origin_id(self.first_key)
        self.epoch = epoch
        self.log = Log()
        self.headers: list[Header] = []
        self.graphs: dict[int, tuple[Graph, Graph | None]] = {}

    def commit(
        self, repo: str, records: Records, commit: str, *, ref: str = DEFAULT_REF, overlay: Records | None = None
    ) -> Header:
        """Append a snapshot."""
        source = Graph(repo, records)
        over = Graph(repo, overlay) if overlay is not None else None
        previous = next((one for one in reversed(self.headers) if (one.repository, one.ref) == (repo, ref)), None)
        index = len(self.headers)
        header = Header(
            index=index,
            repository=repo,
            ref=ref,
            branch="main" if ref == DEFAULT_REF else ref,
            generation=0 if previous is None else previous.generation + 1,
            commit=commit,
            previous=None if previous is None else previous.index,
            source=source.root,
            overlay=EMPTY_GRAPH_ROOT if over is None else over.root,
            nodes=len(records.nodes),
            edges=len(records.edges),
            coverage=coverage_counts(records.coverage),
            extractor=EXTRACTOR,
            time=START + 60 * index,
            submitter="",
            roster=bytes(32),
        )
        return self._append(header, source, over)

    def withdraw(self, repo: str, ref: str = DEFAULT_REF) -> Header:
        """Take a repository out of the roster."""
        previous = next(one for one in reversed(self.headers) if (one.repository, one.ref) == (repo, ref))
        header = Header(
            index=len(self.headers),
            repository=repo,
            ref=ref,
            branch="",
            generation=previous.generation + 1,
            commit="",
            previous=previous.index,
            source=None,
            overlay=None,
            nodes=0,
            edges=0,
            coverage={},
            extractor=EXTRACTOR,
            time=START + 60 * len(self.headers),
            submitter="",
            roster=bytes(32),
        )
        return self._append(header, None, None)

    def _append(self, header: Header, source: Graph | None, overlay: Graph | None) -> Header:
        roster = roster_map([*self.headers, header]).root
        header = Header(**{name: getattr(header, name) for name in Header.__slots__} | {"roster": roster})
        if source is not None:
            self.graphs[header.index] = (source, overlay)
        self.headers.append(header)
        self.log.append(header.leaf)
        return header

    def note(self, size: int | None = None, key: str | None = None) -> str:
        """The signed checkpoint of a size, by default of all."""
        size = len(self.headers) if size is None else size
        checkpoint = checkpoint_of(self.origin, self.epoch, size, self.log.root(size), START + 60 * size)
        return sign_note(
            checkpoint_text(checkpoint), [SigningKey(log_name(self.origin, self.epoch), seed(key or self.name))]
        )

    def view(self, size: int | None = None, **extra: object) -> LogView:
        """The signed state of the log at a size, for proofs."""
        size = len(self.headers) if size is None else size
        newest: dict[tuple[str, str], Header] = {}
        for header in self.headers[:size]:
            newest[header.repository, header.ref] = header
        rows = [
            (repository, ref, header.digest)
            for (repository, ref), header in newest.items()
            if header.source is not None
        ]
        return LogView(
            origin=self.origin,
            epoch=self.epoch,
            size=size,
            note=self.note(size),
            first_key=self.first_key,
            hashes=self.log,
            head=self.headers[size - 1],
            roster=roster_map(self.headers[:size]),
            roster_rows=rows,
            **extra,  # type: ignore[arg-type]
        )

    def subject(self, index: int, view: LogView | None = None) -> Subject:
        """A snapshot of the log as the subject of a proof."""
        source, overlay = self.graphs[index]
        return Subject(view or self.view(), self.headers[index], source, overlay)

    def subjects(self, view: LogView | None = None) -> list[Subject]:
        """The newest snapshots of all repositories with the default ref."""
        view = view or self.view()
        newest = {one.repository: one for one in self.headers[: view.size] if one.ref == DEFAULT_REF}
        return [self.subject(one.index, view) for one in newest.values() if one.source is not None]

    def trusted(
        self,
        *patterns: str,
        roles: tuple[str, ...] = ("index", "roster"),
        notes: tuple[str, ...] = (),
        pins: tuple[Pin, ...] = (),
    ) -> TrustedNode:
        """The node as a trust file would name it."""
        return TrustedNode(self.name, self.first_key, roles, patterns or ("*",), notes, pins)


def payments() -> Builder:
    """A library: functions, a class with a base and members, a factory, two import names for one function."""
    made = Builder(PAYMENTS)
    module = made.node("payments/api", "", "file")
    charge = made.node("payments/api", "charge")
    audit = made.node("payments/api", "audit")
    base = made.node("payments/client", "Base", "type")
    close = made.node("payments/client", "Base.close", "method")
    client = made.node("payments/client", "Client", "type")
    send = made.node("payments/client", "Client.send", "method")
    factory = made.node("payments/client", "make_client")
    edge = made.edge(charge, audit)
    made.edge(send, charge)
    made.edge(audit, "python://hashlib.sha256")
    made.edge(client, base, "extends")
    made.edge(module, charge, "contains")
    for name in ("payments.charge", "payments.api.charge"):
        made.alias(f"python://{name}", charge)
    made.alias("python://payments.api.audit", audit)
    made.alias("python://payments", module)
    made.alias("python://payments.Client", client)
    made.alias("python://payments.client.Base", base)
    made.alias("python://payments.make_client", factory)
    made.member(client, "send", send)
    made.member(client, "submit", send)
    made.member(base, "close", close)
    made.facts(client, Facts(bases=(LocalType("payments/client", "Base", "type"),)))
    made.facts(factory, Facts(returns=(LocalType("payments/client", "Client", "type"),)))
    made.records.files.append(
        File(
            "payments/api.py",
            content_hash(b"def charge(): ..."),
            (Declaration(node_hash(*charge), 10, 14, "def charge(amount)", "Charge."),),
            (Site(edge.hash, 0, 2, 4, 1),),
        )
    )
    made.records.coverage["docs/logo.png"] = Coverage.BINARY
    return made


def tools() -> Builder:
    """A library that re-exports somebody else's function under another name."""
    made = Builder(TOOLS)
    module = made.node("tools", "", "file")
    main = made.node("tools/run", "main")
    made.alias("python://tools", module)
    made.alias("python://tools.pay", "python://payments.charge")
    made.alias("python://tools.run.main", main)
    made.edge(main, "python://payments.make_client().submit", how="ast_inferred")
    return made


def shop() -> Builder:
    """An application: calls by two names, through a factory's type, into the standard library, and untyped."""
    made = Builder(SHOP)
    made.alias("python://shop", made.node("shop", "", "file"))
    checkout = made.node("shop/cart", "checkout")
    refund = made.node("shop/cart", "refund")
    made.edge(checkout, "python://payments.charge")
    made.edge(refund, "python://tools.pay", how="ast_inferred")
    made.edge(refund, "python://payments.make_client().send")
    made.edge(refund, "python://payments.make_client().close")
    made.edge(checkout, refund)
    made.edge(checkout, "unresolved://python/get", how="ast_inferred")
    made.edge(checkout, "python://os.environ.get")
    made.alias("python://shop.cart.checkout", checkout)
    made.records.coverage["vendor/x.py"] = Coverage.VENDORED
    return made


def world() -> Node:
    """A node with three repositories, one of them indexed twice."""
    node = Node("hub")
    node.commit(PAYMENTS, payments().records, "1" * 40)
    node.commit(SHOP, Builder(SHOP).records, "2" * 40)
    node.commit(TOOLS, tools().records, "3" * 40)
    node.commit(SHOP, shop().records, "4" * 40)
    return node
