"""The trust file: whose word counts for which repositories, and what is already known of their logs.

    {"format": "knowing-trust/v1", "nodes": [{"name": …, "first_key": hex, "roles": ["index", "roster", "attest"],
      "repositories": ["github.com/acme/*"], "notes": [rotation and revocation notes], "pins": [{"epoch", "size",
      "root"}]}]}

A bundle cannot add to it: a revocation that only the trust file knows of still counts, and a log that is smaller than
its pin, or differs from it, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from knowing_protocol import ed25519, encoding, urls
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.errors import MalformedError
from knowing_protocol.history import origin_id
from knowing_protocol.keys import KeyChain

TRUST_FORMAT: Final = "knowing-trust/v1"
ROLES: Final = ("index", "roster", "attest")
MAX_TRUST_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Pin:
    """The highest state of a log that was ever seen."""

    epoch: int
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class TrustedNode:
    """A node whose signature counts, and for what."""

    name: str
    first_key: bytes
    roles: tuple[str, ...]
    repositories: tuple[str, ...]
    notes: tuple[str, ...]
    pins: tuple[Pin, ...]

    def speaks_for(self, repository: str) -> bool:
        """Whether a repository matches one of the node's patterns."""
        return any(urls.matches(pattern, repository) for pattern in self.repositories)

    def as_json(self) -> dict[str, Any]:
        """The node as it stands in a trust file."""
        return {
            "name": self.name,
            "first_key": self.first_key.hex(),
            "roles": list(self.roles),
            "repositories": list(self.repositories),
            "notes": list(self.notes),
            "pins": [{"epoch": pin.epoch, "size": pin.size, "root": pin.root.hex()} for pin in self.pins],
        }


@dataclass(frozen=True, slots=True)
class Trust:
    """All trusted nodes, by their id."""

    nodes: dict[bytes, TrustedNode]


_PIN = encoding.record({"epoch": encoding.integer, "size": encoding.integer, "root": encoding.digest})
_NODE = encoding.record(
    {
        "name": encoding.text(200),
        "first_key": encoding.digest,
        "roles": encoding.sequence(encoding.one_of(*ROLES), len(ROLES)),
        "repositories": encoding.sequence(encoding.text(1024, empty=False), 10_000),
        "notes": encoding.sequence(encoding.text(65536), 64),
        "pins": encoding.sequence(lambda value, place: Pin(**_PIN(value, place)), 1000),
    }
)
_TRUST = encoding.record(
    {
        "format": encoding.one_of(TRUST_FORMAT),
        "nodes": encoding.sequence(lambda value, place: TrustedNode(**_NODE(value, place)), 10_000),
    }
)


def parse_trust(data: bytes, verifier: Verifier = ed25519.verify) -> Trust:
    """A trust file; one entry a node, whose notes must hold together."""
    found = _TRUST(encoding.parse_json(data, MAX_TRUST_BYTES), "the trust file")
    nodes: dict[bytes, TrustedNode] = {}
    for node in found["nodes"]:
        if nodes.setdefault(origin_id(node.first_key), node) is not node:
            raise MalformedError(f"the trust file names the node {node.name!r} twice", code="duplicate-node")
        KeyChain(node.first_key).add(node.notes, verifier)
    return Trust(nodes)


def trust_to_json(nodes: Iterable[TrustedNode]) -> dict[str, Any]:
    """A trust file of these nodes."""
    return {"format": TRUST_FORMAT, "nodes": [node.as_json() for node in nodes]}
