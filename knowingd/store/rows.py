"""What a store gives and takes: plain values, whatever database is behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from knowing_protocol.hashing import NodeId
from knowing_protocol.records import Edge, Records

if TYPE_CHECKING:
    from knowingd.store.compact import Compact

SLOT_BITS: Final = 32
BLOCK_BITS: Final = 4
NO_TYPE: Final = -1
TYPE_BITS: Final = 6
REPUBLISHED_CODE: Final = (1 << TYPE_BITS) - 1  # in place of an edge type: a name from outside that is published anew
PROVENANCE_BITS: Final = 4
SEVERAL: Final = (1 << PROVENANCE_BITS) - 1  # in place of a provenance: the relation was observed in several ways


def slot_of(key: bytes) -> int:
    """The leading 32 bits of a key."""
    return int.from_bytes(key[:4], "big")


def signed_slot(key: bytes) -> int:
    """The same as SQLite keeps it: four bytes instead of six."""
    return int.from_bytes(key[:4], "big", signed=True)


class NodeRow(NamedTuple):
    """A node with its id and hash."""

    id: int
    hash: bytes
    node: NodeId


class EdgeRow(NamedTuple):
    """An edge by ids."""

    source: int
    type: int
    target: int
    provenance: int


MAX_NODES: Final = 1 << 24
"""How many symbols a database can hold: what 24 bits of an edge's number can name."""


def edge_number(source: int, edge_type: int, target: int, provenance: int) -> int:
    """An edge as the one number it is kept as."""
    return source << 34 | edge_type << 28 | target << 4 | provenance


def edge_of(number: int) -> EdgeRow:
    """The edge that a number stands for."""
    return EdgeRow(number >> 34, number >> 28 & 63, number >> 4 & 0xFFFFFF, number & 15)


class AliasRow(NamedTuple):
    """An alias: its name, and the node it leads to."""

    id: int
    name: str
    target: int
    claimed: bool


class MemberRow(NamedTuple):
    """A member of an owner."""

    id: int
    owner: int
    name: str
    target: int


class FileRow(NamedTuple):
    """A file without what is in it."""

    id: int
    path: str
    content: bytes
    attributes: bytes


class DeclarationRow(NamedTuple):
    """A place where a node is declared."""

    node: int
    line: int
    end_line: int
    signature: str
    doc: str


class IndexedFile(NamedTuple):
    """A file as indexing last saw it."""

    content_id: str
    reason: str | None
    summarized: bool


class SnapshotRow(NamedTuple):
    """A snapshot as the repository's database knows it."""

    sequence: int
    log_index: int | None
    epoch: int
    commit: str
    branch: str
    generation: int
    source_root: bytes
    overlay_root: bytes
    nodes: int
    edges: int
    coverage: str
    extractor: bytes
    submitter: str
    timestamp: int
    map_roots: str
    pruned: int


class TreeRow(NamedTuple):
    """A Merkle map cut into buckets."""

    id: int
    layer: int
    map: str
    type: int
    subject: Any
    bits: int
    size: int
    root: bytes
    tops: bytes


class InboundRow(NamedTuple):
    """The relations of one type to one target."""

    target: int
    type: int
    value: bytes | None
    sources: bytes | None


class Event(NamedTuple):
    """Something that came (`added`) or went."""

    added: bool
    kind: str
    layer: int
    body: list[Any]


class BranchEvent(NamedTuple):
    """A branch of the edges map before and after a snapshot."""

    layer: int
    package: int
    type: int
    before: bytes | None
    after: bytes | None


class Removed(NamedTuple):
    """What a collection took away."""

    snapshots: int
    events: int
    nodes: int
    packages: int
    pages: int


class Hit(NamedTuple):
    """A symbol that a search found; the lower the score, the better."""

    node: int
    kind: str
    score: float


@dataclass(slots=True)
class GraphRows:
    """Everything that the maps of one graph are made of: read from a database, or about to be written to one."""

    layer: int
    ids: Sequence[int]  # of the nodes of this graph
    nodes: Mapping[int, NodeRow]  # at least these, and the nodes that its edges refer to
    package_ids: Mapping[int, int]  # node to package
    packages: Mapping[int, str]
    edges: Sequence[int]  # their numbers, in order
    aliases: Sequence[AliasRow]
    members: Sequence[MemberRow]
    facts: Sequence[tuple[int, dict[str, Any]]]
    files: Sequence[FileRow]
    coverage: Sequence[tuple[int, str, str]]


@dataclass(slots=True)
class Touched:
    """What one graph's maps must look at again."""

    relations: set[tuple[int, int, int]] = field(default_factory=set)  # source, edge type, target
    named: set[int] = field(default_factory=set)  # targets of aliases and members
    members: dict[str, set[tuple[int, int]]] = field(default_factory=lambda: defaultdict(set))  # map to (slot, id)
    searchable: set[int] | None = field(default_factory=set)  # nodes whose search rows are stale; None: all

    def note(self, name: str, slot: int, member: int) -> None:
        """Something came, changed or went in a map."""
        self.members[name].add((slot, member))


@dataclass(frozen=True, slots=True)
class Changes:
    """What to add to and to remove from one graph of a repository.

    Call sites name their edges by hash; `known` are the edges that sites of added files may name and that are in the
    graph already. `attributes` are roots of files' attributes, for those who have made them already. `first` is what
    there is to add in compact form, instead of `added`, if nothing is there yet.
    """

    layer: int
    added: Records
    removed: Records
    known: Sequence[Edge] = ()
    attributes: Mapping[str, bytes] = field(default_factory=dict)
    first: Sequence[Compact] = ()

    @property
    def edges(self) -> int:
        """About how many edges there are to write or to take away."""
        return len(self.added.edges) + len(self.removed.edges) + sum(len(unit.edges) for unit in self.first)
