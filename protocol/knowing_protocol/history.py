"""A node's history: headers in an RFC 6962 log, the roster map, and checkpoints that sign both at once.

Each snapshot of a repository appends one header. The leaf of the log is the header's canonical JSON. A header ends
with the root of the roster map as it is after that entry: (repository, ref) => digest of the newest header, where the
digest leaves the roster field out, so that a header can stand in its own roster. One signature over the log therefore
covers every repository of the node, and what is newest is a lookup in the last leaf's roster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from knowing_protocol import encoding, tlog
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.errors import MalformedError
from knowing_protocol.graph import Level
from knowing_protocol.hashing import tagged
from knowing_protocol.note import Checkpoint
from knowing_protocol.urls import is_canonical_url
from knowing_protocol.vocabulary import Coverage

HEADER_FORMAT: Final = "knowing-header/v1"
DEFAULT_REF: Final = "HEAD"
"""The ref of a repository's default branch, whatever the branch is called."""
_TIME_EXTENSION: Final = "time "


def origin_id(first_key: bytes) -> bytes:
    """The identity of a node: the hash of its first key, whatever key it signs with later."""
    return tagged("origin", first_key)


def log_name(origin: bytes, epoch: int) -> str:
    """The origin line of a log's checkpoints, and the name of the key that signs them."""
    return f"knowing/{origin.hex()}/{epoch}"


def node_name(origin: bytes) -> str:
    """The key name of notes that speak for a node and not for one log: rotation, revocation, epochs, attestations."""
    return f"knowing/{origin.hex()}"


@dataclass(frozen=True, slots=True)
class Header:
    """One entry of a log: a snapshot of a repository, or its withdrawal (no roots, no commit)."""

    index: int
    repository: str
    ref: str
    branch: str
    generation: int
    commit: str
    previous: int | None
    source: bytes | None
    overlay: bytes | None
    nodes: int
    edges: int
    coverage: Mapping[str, int]
    extractor: bytes
    time: int
    submitter: str
    roster: bytes

    def as_json(self) -> dict[str, Any]:
        """The header as it is written and hashed."""
        return {
            "format": HEADER_FORMAT,
            "index": self.index,
            "repository": self.repository,
            "ref": self.ref,
            "branch": self.branch,
            "generation": self.generation,
            "commit": self.commit,
            "previous": self.previous,
            "source": _hex(self.source),
            "overlay": _hex(self.overlay),
            "nodes": self.nodes,
            "edges": self.edges,
            "coverage": dict(self.coverage),
            "extractor": self.extractor.hex(),
            "time": self.time,
            "submitter": self.submitter,
            "roster": self.roster.hex(),
        }

    @property
    def leaf(self) -> bytes:
        """The hash of this header's leaf in the log."""
        return tlog.leaf_hash(encoding.canonical_json(self.as_json()))

    @property
    def digest(self) -> bytes:
        """What the roster says of this header: all of it but the roster."""
        body = self.as_json()
        del body["roster"]
        return tagged("header", encoding.canonical_json(body))


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def repository_url(value: Any, place: str) -> str:
    """Decoder of a canonical repository URL."""
    found = encoding.text(empty=False)(value, place)
    if not is_canonical_url(found):
        raise MalformedError(f"{place} is not a canonical repository URL", code="not-canonical-url")
    return found


REF = encoding.text(1024, empty=False)
COMMIT = encoding.text(200)

_HEADER = encoding.record(
    {
        "format": encoding.one_of(HEADER_FORMAT),
        "index": encoding.integer,
        "repository": repository_url,
        "ref": REF,
        "branch": encoding.text(1024),
        "generation": encoding.integer,
        "commit": COMMIT,
        "previous": encoding.optional(encoding.integer),
        "source": encoding.optional(encoding.digest),
        "overlay": encoding.optional(encoding.digest),
        "nodes": encoding.integer,
        "edges": encoding.integer,
        "coverage": encoding.tally(frozenset(reason.value for reason in Coverage)),
        "extractor": encoding.digest,
        "time": encoding.integer,
        "submitter": encoding.text(1024),
        "roster": encoding.digest,
    }
)


def header_from_json(value: Any, place: str) -> Header:
    """Decoder of a header; a snapshot has both roots, a withdrawal neither, and nothing refers forward."""
    found = _HEADER(value, place)
    del found["format"]
    header = Header(**found)
    if (header.source is None) != (header.overlay is None):
        raise MalformedError(f"{place} has one root of two", code="inconsistent-header")
    if (header.previous is None) != (header.generation == 0):
        raise MalformedError(f"{place} has a generation that does not fit its predecessor", code="inconsistent-header")
    if header.previous is not None and header.previous >= header.index:
        raise MalformedError(f"{place} names a predecessor that is not before it", code="inconsistent-header")
    return header


def roster_key(repository: str, ref: str) -> bytes:
    """The key of a repository's ref in the roster map."""
    return tagged("roster", repository, ref)


def roster_map(headers: Iterable[Header]) -> MerkleMap:
    """The roster after these headers, given oldest first; a withdrawal takes its ref out."""
    content: dict[bytes, bytes] = {}
    for header in headers:
        key = roster_key(header.repository, header.ref)
        if header.source is None:
            content.pop(key, None)
        else:
            content[key] = header.digest
    return MerkleMap.of(Level.ROSTER, content)


def checkpoint_of(origin: bytes, epoch: int, size: int, root: bytes, time: int) -> Checkpoint:
    """The checkpoint that a node signs; the time of signing is an extension line."""
    return Checkpoint(log_name(origin, epoch), size, root, (f"{_TIME_EXTENSION}{time}",))


def checkpoint_time(checkpoint: Checkpoint) -> int:
    """When a checkpoint says that it was signed."""
    for line in checkpoint.extensions:
        digits = line.removeprefix(_TIME_EXTENSION)
        if line.startswith(_TIME_EXTENSION):
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 15) or str(int(digits)) != digits:
                break
            return int(digits)
    raise MalformedError("the checkpoint does not say when it was signed", code="checkpoint-time")


def log_of_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, int]:
    """The node and epoch that a checkpoint is of."""
    parts = checkpoint.origin.split("/")
    if len(parts) == 3 and parts[0] == "knowing":
        origin = encoding.digest(parts[1], "the checkpoint's origin")
        if parts[2].isascii() and parts[2].isdigit() and len(parts[2]) <= 15:
            epoch = int(parts[2])
            if log_name(origin, epoch) == checkpoint.origin:
                return origin, epoch
    raise MalformedError("the checkpoint is not of a knowing node's log", code="checkpoint-origin")
