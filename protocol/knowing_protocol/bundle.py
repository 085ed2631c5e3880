"""A bundle: one JSON file with a statement and everything that is needed to check it offline.

    {"format": "knowing-bundle/v1", "statement": …,
     "checkpoints": [{"note", "first_key", "key_notes", "consistency"}],      who signed which state of a log
     "entries":     [{"checkpoint", "header", "path"}],                       headers, with their paths in the log
     "rosters":     [{"checkpoint", "head", "proof" | "complete"}],           what is newest, and that it is all
     "graphs":      [sections],                                               see section.py
     "seal":        hash of all the rest}

Decoding is strict and bounded, and says nothing about truth: `verify.py` does. The seal is no signature, anybody can
make one. It binds a statement to its own proofs: what proves that one name is absent often proves it of others too, and
without the seal a bundle could be edited into another true one that its maker never stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from knowing_protocol import encoding
from knowing_protocol.errors import MalformedError, RejectedError
from knowing_protocol.hashing import tagged
from knowing_protocol.history import REF, Header, header_from_json, repository_url
from knowing_protocol.section import PROOF, SECTION
from knowing_protocol.statement import MAX_SCOPE, Statement, statement_from_json

BUNDLE_FORMAT: Final = "knowing-bundle/v1"
MAX_BUNDLE_BYTES: Final = 64 * 1024 * 1024
MAX_LOG_PATH: Final = 64
MAX_CONSISTENCY: Final = 64


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint as a signed note, with what is needed to find the key that signed it."""

    note: str
    first_key: bytes
    key_notes: tuple[str, ...]
    consistency: tuple[tuple[int, tuple[bytes, ...]], ...]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A header, and its path in the log of a checkpoint where the roster does not show it."""

    checkpoint: int
    header: Header
    path: tuple[bytes, ...] | None


@dataclass(frozen=True, slots=True)
class Roster:
    """The roster at the last entry of a checkpoint: some of it proven, or all of it listed."""

    checkpoint: int
    head: int
    proof: bytes | None
    complete: tuple[tuple[str, str, bytes], ...] | None


@dataclass(frozen=True, slots=True)
class Bundle:
    """A decoded bundle."""

    statement: Statement
    checkpoints: tuple[SignedCheckpoint, ...]
    entries: tuple[LogEntry, ...]
    rosters: tuple[Roster, ...]
    graphs: tuple[dict[str, Any], ...]


def log_path(value: Any, place: str) -> tuple[bytes, ...]:
    """Decoder of hashes in one base64 text."""
    data = encoding.base64(32 * MAX_LOG_PATH)(value, place)
    if len(data) % 32:
        raise MalformedError(f"{place} is not a row of 32-byte hashes", code="wrong-length")
    return tuple(data[start : start + 32] for start in range(0, len(data), 32))


def log_path_to_json(path: list[bytes]) -> str:
    """Hashes as one base64 text."""
    return encoding.to_base64(b"".join(path))


def _consistency(value: Any, place: str) -> tuple[int, tuple[bytes, ...]]:
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedError(f"{place} is not [size, path]", code="wrong-type")
    return encoding.integer(value[0], place), log_path(value[1], place)


def _roster_row(value: Any, place: str) -> tuple[str, str, bytes]:
    if not isinstance(value, list) or len(value) != 3:
        raise MalformedError(f"{place} is not [repository, ref, digest]", code="wrong-type")
    return repository_url(value[0], place), REF(value[1], place), encoding.digest(value[2], place)


_CHECKPOINT = encoding.record(
    {
        "note": encoding.text(65536),
        "first_key": encoding.digest,
        "key_notes": encoding.sequence(encoding.text(65536), 64),
        "consistency": encoding.sequence(_consistency, MAX_CONSISTENCY),
    }
)
_LOG_ENTRY = encoding.record(
    {"checkpoint": encoding.integer, "header": header_from_json, "path": encoding.optional(log_path)}
)
_ROSTER = encoding.record(
    {
        "checkpoint": encoding.integer,
        "head": encoding.integer,
        "proof": encoding.optional(PROOF),
        "complete": encoding.optional(encoding.sequence(_roster_row, MAX_SCOPE)),
    }
)
_BUNDLE = encoding.record(
    {
        "format": encoding.one_of(BUNDLE_FORMAT),
        "statement": statement_from_json,
        "checkpoints": encoding.sequence(lambda value, place: SignedCheckpoint(**_CHECKPOINT(value, place)), 1000),
        "entries": encoding.sequence(lambda value, place: LogEntry(**_LOG_ENTRY(value, place)), 2 * MAX_SCOPE),
        "rosters": encoding.sequence(lambda value, place: Roster(**_ROSTER(value, place)), 1000),
        "graphs": encoding.sequence(SECTION, 2 * MAX_SCOPE),
        "seal": encoding.digest,
    }
)


def seal_of(bundle: Mapping[str, Any]) -> bytes:
    """The hash that binds the parts of a bundle, given as plain values, to each other."""
    return tagged("seal", encoding.canonical_json({name: part for name, part in bundle.items() if name != "seal"}))


def parse_bundle(data: bytes) -> Bundle:
    """A bundle from the bytes of its file."""
    plain = encoding.parse_json(data, MAX_BUNDLE_BYTES)
    found = _BUNDLE(plain, "the bundle")
    if seal_of(plain) != found["seal"]:
        raise RejectedError("seal", "the bundle was changed after it was made")
    del found["format"], found["seal"]
    return Bundle(**found)
