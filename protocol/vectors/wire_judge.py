"""Reads the vectors of the wire with the code that serves and pulls: what comes out, or the code of the refusal.

A vector has a `kind`, which says how it is read, what is read (`body`, the hex of MessagePack, beside it as readable
`json`; or `text`), and either `expect` or `refused`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import msgpack
from knowing_protocol.access import parse_access
from knowing_protocol.errors import KnowingError, MalformedError
from knowing_protocol.evidence import check_evidence
from knowing_protocol.hashing import NodeId, node_hash
from knowing_protocol.history import node_name
from knowing_protocol.note import check_note, parse_note
from knowing_protocol.pack import Resolve, unpack_records, unpack_withdrawn
from knowing_protocol.records import Records, facts_to_json
from knowing_protocol.rice import decode_subset

from knowingd import keys
from knowingd.federation import Federation
from knowingd.sync.client import PeerClient
from knowingd.sync.invites import parse_invite
from knowingd.sync.signatures import verify
from knowingd.sync.wire import decode


def plain(value: Any) -> Any:
    """A decoded value in JSON, for people: bytes as `{"hex": …}`."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def body_of(vector: dict[str, Any]) -> Any:
    """The decoded body of a vector."""
    return msgpack.unpackb(bytes.fromhex(vector["body"]), strict_map_key=True)


def resolver(known: list[list[str]]) -> Resolve:
    """What a receiver that has these nodes makes of leading bytes."""
    hashes = [node_hash(*node) for node in known]

    def resolve(prefix: bytes) -> bytes:
        found = [one for one in hashes if one.startswith(prefix)]
        if len(found) != 1:
            raise MalformedError("no node, or several", code="unknown-node")
        return found[0]

    return resolve


def records_json(records: Records) -> dict[str, Any]:
    """Records in JSON, sorted."""
    return {
        "nodes": sorted(list(NodeId(*node)) for node in records.nodes),
        "edges": sorted([one.source.hex(), one.target.hex(), one.type, one.provenance] for one in records.edges),
        "aliases": sorted([one.name, one.target.hex(), one.claimed] for one in records.aliases),
        "members": sorted([one.owner.hex(), one.name, one.target.hex()] for one in records.members),
        "facts": {key.hex(): facts_to_json(facts) for key, facts in sorted(records.facts.items())},
        "files": [
            {
                "path": file.path,
                "content": file.content.hex(),
                "declarations": sorted([one.node.hex(), *one[1:]] for one in file.declarations),
                "sites": sorted([one.edge.hex(), *one[1:]] for one in file.sites),
            }
            for file in records.files
        ],
        "coverage": {path: reason.value for path, reason in sorted(records.coverage.items())},
    }


def _subset(vector: dict[str, Any]) -> Any:
    return decode_subset(bytes.fromhex(vector["body"]), vector["count"], vector["universe"])


def _pack(vector: dict[str, Any]) -> Any:
    resolve = resolver(vector["known"])
    return records_json(unpack_records(vector["repository"], vector["graph"], body_of(vector), resolve))


def _withdrawn(vector: dict[str, Any]) -> Any:
    found = unpack_withdrawn(body_of(vector), resolver(vector["known"]))
    return {name: plain(value) for name, value in found._asdict().items()}


def _access(vector: dict[str, Any]) -> Any:
    note = parse_note(vector["text"])
    found = parse_access(note.text)
    check_note(note, node_name(found.origin), bytes.fromhex(vector["key"]), keys.verify)
    return {
        "origin": found.origin.hex(),
        "repository": found.repository,
        "serial": found.serial,
        "readers": [one.hex() for one in found.readers],
        "relays": [one.hex() for one in found.relays],
        "allows": [found.allows(bytes.fromhex(reader), bytes.fromhex(relay)) for reader, relay in vector["asked"]],
    }


def _body(vector: dict[str, Any]) -> Any:
    return plain(decode(bytes.fromhex(vector["body"]), vector["media_type"], vector.get("limit", 1 << 20)))


def _signature(vector: dict[str, Any]) -> Any:
    headers = vector["headers"]
    signed = verify(
        vector["method"],
        vector["path"],
        vector["query"],
        _Fields(headers),  # type: ignore[arg-type]  # as a multidict gives its items
        bytes.fromhex(vector["body"]),
        bytes.fromhex(vector["reader"]),
        vector["clock"],
        keys.verify,
    )
    return {"key": signed.key.hex(), "nonce": signed.nonce.hex(), "created": signed.created}


class _Fields:
    def __init__(self, rows: list[list[str]]) -> None:
        self._rows = rows

    def items(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self._rows]


class _Meeting:
    """A node that gives the answer of a vector to whoever says hello."""

    url = "http://hub.example"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, path: str) -> Any:
        assert path.startswith("/v1/node?nonce=")
        return self.answer


def _hello(vector: dict[str, Any]) -> Any:
    client = cast("PeerClient", _Meeting(vector["json"]))
    expected = bytes.fromhex(vector["expected"]) if vector["expected"] else None
    with patch("knowingd.federation.secrets.token_hex", return_value=vector["nonce"]):
        chain = Federation.meet(cast("Federation", None), client, expected)
    return {"origin": chain.origin.hex(), "key": chain.current.hex()}


def _invitation(vector: dict[str, Any]) -> Any:
    found = parse_invite(vector["text"])
    return {
        "url": found.url,
        "first_key": found.first_key.hex(),
        "origin": found.origin.hex(),
        "tls": found.tls.hex() if found.tls else None,
        "code": found.code.hex(),
    }


def _evidence(vector: dict[str, Any]) -> Any:
    found = check_evidence(vector["text"].encode(), keys.verify)
    states = [[one.size, one.root.hex(), one.time] for one in (found.before, found.after)]
    return {"kind": found.kind, "origin": found.before.origin.hex(), "epoch": found.before.epoch, "states": states}


READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "subset": _subset,
    "pack": _pack,
    "withdrawn": _withdrawn,
    "access": _access,
    "body": _body,
    "signature": _signature,
    "hello": _hello,
    "invitation": _invitation,
    "evidence": _evidence,
}
"""How to read what needs no database; requests and conversations are for those who have a home."""


def judged(vector: dict[str, Any]) -> dict[str, Any]:
    """What the code makes of a vector: `expect` or `refused`."""
    try:
        return {"expect": READERS[vector["kind"]](vector)}
    except KnowingError as error:
        return {"refused": error.code}


def fresh(directory: Path, name: str) -> Path:
    """A new directory."""
    found = directory / name
    found.mkdir()
    return found
