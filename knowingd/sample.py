"""A small sample: a library, an application that uses it, and a node that signs both. For the demo."""

from __future__ import annotations

from dataclasses import replace

from knowing_protocol.graph import Graph
from knowing_protocol.hashing import NodeId, external, node_hash
from knowing_protocol.history import DEFAULT_REF, Header, checkpoint_of, log_name, origin_id, roster_map
from knowing_protocol.note import checkpoint_text, sign_note
from knowing_protocol.prover import LogView, Subject
from knowing_protocol.records import Alias, Edge, Facts, LocalType, Member, Records
from knowing_protocol.section import EMPTY_GRAPH_ROOT
from knowing_protocol.tlog import Log
from knowing_protocol.trust import TrustedNode

from knowingd.keys import SigningKey, public_key_of

LIBRARY = "github.com/acme/payments"
APPLICATION = "github.com/acme/shop"
MODULE = NodeId(LIBRARY, "payments", "", "file")
CHARGE = NodeId(LIBRARY, "payments/api", "charge", "function")
CLIENT = NodeId(LIBRARY, "payments/client", "Client", "type")
SEND = NodeId(LIBRARY, "payments/client", "Client.send", "method")
CHECKOUT = NodeId(APPLICATION, "shop/cart", "checkout", "function")
REFUND = NodeId(APPLICATION, "shop/cart", "refund", "function")


def library() -> Records:
    """`payments`: a function, and a class with a method that calls it."""
    return Records(
        nodes=[MODULE, CHARGE, CLIENT, SEND],
        edges=[_calls(SEND, CHARGE)],
        aliases=[
            Alias("python://payments", node_hash(*MODULE), claimed=True),
            Alias("python://payments.charge", node_hash(*CHARGE), claimed=True),
            Alias("python://payments.Client", node_hash(*CLIENT), claimed=True),
        ],
        members=[Member(node_hash(*CLIENT), "send", node_hash(*SEND))],
        facts={node_hash(*SEND): Facts(returns=(LocalType(*CLIENT[1:]),))},
    )


def application() -> Records:
    """`shop`: calls the function by its import name, and the method on an instance."""
    outside = [external("python://payments.charge"), external("python://payments.Client().send")]
    return Records(
        nodes=[CHECKOUT, REFUND, *outside],
        edges=[_calls(CHECKOUT, outside[0]), _calls(REFUND, outside[1]), _calls(CHECKOUT, REFUND)],
    )


def _calls(source: NodeId, target: NodeId) -> Edge:
    return Edge(node_hash(*source), node_hash(*target), "calls", "ast_resolved")


class SampleNode:
    """A node in memory: its key, its log, and what it indexed."""

    def __init__(self, seed: bytes, now: int) -> None:
        self.first_key = public_key_of(seed)
        self.origin = origin_id(self.first_key)
        self._seed = seed
        self._now = now
        self._headers: list[Header] = []
        self._graphs: list[Graph] = []
        self._log = Log()

    def snapshot(self, repository: str, records: Records, commit: str) -> Header:
        """Sign a graph into the log."""
        graph = Graph(repository, records)
        header = Header(
            index=len(self._headers),
            repository=repository,
            ref=DEFAULT_REF,
            branch="main",
            generation=0,
            commit=commit,
            previous=None,
            source=graph.root,
            overlay=EMPTY_GRAPH_ROOT,
            nodes=len(records.nodes),
            edges=len(records.edges),
            coverage={},
            extractor=bytes(32),
            time=self._now,
            submitter="",
            roster=bytes(32),
        )
        header = replace(header, roster=roster_map([*self._headers, header]).root)
        self._headers.append(header)
        self._graphs.append(graph)
        self._log.append(header.leaf)
        return header

    def subjects(self) -> list[Subject]:
        """Everything in the log, for proofs."""
        size = len(self._headers)
        checkpoint = checkpoint_of(self.origin, 0, size, self._log.root(), self._now)
        note = sign_note(checkpoint_text(checkpoint), [SigningKey(log_name(self.origin, 0), self._seed)])
        view = LogView(
            origin=self.origin,
            epoch=0,
            size=size,
            note=note,
            first_key=self.first_key,
            hashes=self._log,
            head=self._headers[-1],
            roster=roster_map(self._headers),
            roster_rows=[(one.repository, one.ref, one.digest) for one in self._headers],
        )
        return [Subject(view, header, graph) for header, graph in zip(self._headers, self._graphs, strict=True)]

    def trusted(self, name: str, pattern: str) -> TrustedNode:
        """The node as a trust file names it."""
        return TrustedNode(name, self.first_key, ("index", "roster"), (pattern,), (), ())
