"""The hash formulas of the identity layer. Nobody else builds a hash.

Identities of the seed's kind join their parts with NUL, so no part may contain one; everything else goes through
`tagged`, where each part carries its length and `("a:b", "c")` never equals `("a", "b:c")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.vocabulary import NodeKind

HASH_SIZE = 32
MAX_PART_BYTES = 4096


def tagged(tag: str, *parts: bytes | str) -> bytes:
    """SHA-256 of the tag, NUL, and each part after its length as four big-endian bytes."""
    message = tag.encode("ascii") + b"\0"
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        message += len(raw).to_bytes(4, "big") + raw
    return sha256(message).digest()


def tag_prefix(tag: str, size: int = HASH_SIZE) -> bytes:
    """What `tagged` hashes before a single part of that size: for whoever hashes many of them."""
    return tag.encode("ascii") + b"\0" + size.to_bytes(4, "big")


class NodeId(NamedTuple):
    """What a node is: the four parts of its hash. Location, signature and doc are not identity."""

    repo: str
    package: str
    name: str
    kind: str


def node_hash(repo: str, package: str, name: str, kind: str) -> bytes:
    """The identity of a symbol, the same on every machine."""
    joined = f"node\0{repo}\0{package}\0{name}\0{kind}"
    if joined.count("\0") != 4:
        raise InvalidNameError("a part of a node's identity contains NUL")
    return sha256(joined.encode()).digest()


def external_hash(path: str) -> bytes:
    """The phantom of a canonical path; also the key of the alias of that name."""
    return node_hash("", "", path, NodeKind.EXTERNAL)


def external(path: str) -> NodeId:
    """The identity of the phantom of a canonical path."""
    return NodeId("", "", path, NodeKind.EXTERNAL.value)


def edge_hash(source: bytes, target: bytes, edge_type: str, provenance: str) -> bytes:
    """An edge, observed in one way."""
    return sha256(f"edge\0{source.hex()}\0{target.hex()}\0{edge_type}\0{provenance}".encode()).digest()


def relation_hash(source: bytes, target: bytes, edge_type: str) -> bytes:
    """An edge without its provenance: what absence speaks of."""
    return sha256(b"relation\0" + source + target + edge_type.encode()).digest()


def repo_hash(url: str) -> bytes:
    """The identity of a repository, from its canonical URL."""
    return sha256(url.encode()).digest()


def content_hash(data: bytes) -> bytes:
    """The identity of a file's bytes."""
    return sha256(data).digest()


def file_hash(repo: bytes, path: str, content: bytes) -> bytes:
    """A file of a repository with one content; the outer parts have fixed lengths, so the path needs none."""
    return sha256(repo + path.encode() + content).digest()


def snapshot_hash(graph_root: bytes) -> bytes:
    """The name of a graph's state."""
    return sha256(b"snapshot\0" + graph_root).digest()


def relation_digest(edge_hashes: Iterable[bytes]) -> bytes:
    """The value of a relation: all the ways in which it was observed."""
    return tagged("edges", *sorted(edge_hashes))


_ONE_EDGE = tag_prefix("edges")


def relation_entry(source: bytes, target: bytes, edge_type: str, provenances: Sequence[str]) -> tuple[bytes, bytes]:
    """A relation and its value, from the ways in which it was observed; most were observed in one."""
    if len(provenances) == 1:
        edge = f"edge\0{source.hex()}\0{target.hex()}\0{edge_type}\0{provenances[0]}"
        digest = sha256(_ONE_EDGE + sha256(edge.encode()).digest()).digest()
    else:
        digest = relation_digest(edge_hash(source, target, edge_type, one) for one in provenances)
    return sha256(b"relation\0" + source + target + edge_type.encode()).digest(), digest


_SET = tag_prefix("set")
_EIGHT = (8).to_bytes(4, "big")


def set_digest(root: bytes, size: int) -> bytes:
    """The value of a key that stands for a whole set: its root and how many members it has."""
    return sha256(_SET + root + _EIGHT + size.to_bytes(8, "big")).digest()


def check_part(text: str, what: str, limit: int = MAX_PART_BYTES) -> str:
    """A part of an identity as given, if it can be one: valid Unicode, no NUL, not over-long."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidNameError(f"{what} is not valid Unicode") from None
    if size > limit:
        raise InvalidNameError(f"{what} is longer than {limit} bytes")
    if "\0" in text:
        raise InvalidNameError(f"{what} contains NUL")
    return text
