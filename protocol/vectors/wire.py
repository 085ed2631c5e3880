"""Vectors of what travels between nodes: subsets, packs, notes, signatures, requests and whole conversations.

Bodies stand as the hex of their MessagePack bytes beside a readable form. Negative vectors are named after their
defect. `wire_judge` says how each kind is read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final

import msgpack
from knowing_protocol.access import Access, access_text, reader_tag, relay_tag
from knowing_protocol.hashing import node_hash
from knowing_protocol.history import node_name
from knowing_protocol.note import sign_note
from knowing_protocol.pack import MIDDLE, WHOLE, Branch, Withdrawn, pack_records, pack_withdrawn
from knowing_protocol.records import Records
from knowing_protocol.rice import encode_subset
from wire_judge import judged, plain
from wire_world import LEDGER, NONCE, READER, ledger
from world import START, Builder, Node, seed

from knowingd.keys import SigningKey
from knowingd.sync.invites import Invite, invite_text
from knowingd.sync.signatures import content_digest, parameters, sign, signature_base

FORMAT: Final = "knowing-wire-vectors/v1"
MEDIA_TYPE: Final = "application/vnd.knowing.v1+msgpack"
HUB: Final = Node("hub")


def packed(value: Any) -> dict[str, Any]:
    """A body beside its readable form."""
    return {"body": msgpack.packb(value).hex(), "json": plain(value)}


def good(name: str, about: str, kind: str, **fields: Any) -> dict[str, Any]:
    """A vector that is taken."""
    vector = {"name": name, "about": about, "kind": kind, **fields}
    found = judged(vector)
    assert "expect" in found, (name, found)
    return vector | found


def bad(name: str, code: str, kind: str, **fields: Any) -> dict[str, Any]:
    """A vector that is refused."""
    vector = {"name": name, "kind": kind, **fields}
    found = judged(vector)
    assert found == {"refused": code}, (name, found)
    return vector | found


def document(name: str, about: str, vectors: Iterable[dict[str, Any]], **context: Any) -> dict[str, Any]:
    """A file of vectors."""
    return {"format": FORMAT, "name": name, "about": about, **context, "vectors": list(vectors)}


# Subsets

SUBSETS: Final[tuple[tuple[str, list[int], int], ...]] = (
    ("nothing", [], 10),
    ("nothing-of-nothing", [], 0),
    ("everything", [0, 1, 2], 3),
    ("one-of-ten", [3], 10),
    ("half", [0, 1], 4),
    ("more-than-half", [0, 1, 2, 4], 5),
    ("two-of-many", [5, 90_000], 100_000),
    ("a-run", list(range(40, 60)), 1000),
    ("every-third", list(range(0, 99, 3)), 100),
)


def subsets() -> dict[str, Any]:
    """Which of N things."""
    found = []
    for name, members, universe in SUBSETS:
        body = encode_subset(members, universe).hex()
        found.append(good(name, "", "subset", count=len(members), universe=universe, body=body))
    three = encode_subset([5, 90_000], 100_000)
    for name, count, universe, data in (
        ("empty-subset", 0, 10, b""),
        ("truncated-subset", 2, 100_000, three[:-1]),
        ("subset-with-a-byte-too-many", 2, 100_000, three + b"\0"),
        ("subset-with-padding-that-is-not-zero", 1, 10, bytes([1, 0b1101_0000 | 1])),
        ("subset-with-another-parameter", 1, 10, bytes([3, 0b0011_0000])),
        ("subset-with-a-parameter-of-40", 1, 10, bytes([40]) + bytes(8)),
        ("subset-with-a-member-beyond-its-universe", 1, 3, encode_subset([3], 10)),
        ("subset-with-more-members-than-there-are", 4, 3, b"\0"),
        ("members-where-the-others-are-fewer", 4, 5, bytes([0, 0b0001_0000])),
    ):
        found.append(bad(name, "subset", "subset", count=count, universe=universe, body=data.hex()))
    return document("subsets", "Subsets of 0 to universe - 1; the body is the encoding itself.", found)


# Packs


def _tables() -> tuple[Records, Records]:
    """A small graph with every table, and a small overlay."""
    state = ledger(later=False)
    made = Builder(LEDGER)
    keep = {"", "Entry", "Entry.total", "post_0", "post_1"}
    made.records.nodes = [one for one in state.source.nodes if one.kind == "external" or one.name in keep]
    hashes = {node_hash(*one) for one in made.records.nodes}
    records = Records(
        nodes=made.records.nodes,
        edges=[one for one in state.source.edges if {one.source, one.target} <= hashes],
        aliases=state.source.aliases,
        members=state.source.members,
        facts=state.source.facts,
        files=state.source.files,
        coverage=state.source.coverage,
    )
    return records, state.overlay


def _pack_defects(whole: Any) -> Iterable[tuple[str, str, Any]]:
    def changed(*place: int, to: Any) -> Any:
        made = copy.deepcopy(whole)
        inner = made
        for one in place[:-1]:
            inner = inner[one]
        inner[place[-1]] = to
        return made

    external = whole[1][2].index(11)
    yield "pack-with-nine-tables", "pack", whole[:9]
    yield "columns-of-different-length", "pack", changed(4, 1, to=whole[4][1][:-1])
    yield "numbers-as-texts", "pack", changed(4, 2, to=["0"] * len(whole[4][2]))
    yield "numbers-as-bytes", "pack", changed(4, 2, to=bytes(whole[4][2]))
    yield "truth-value-for-a-number", "pack", changed(4, 2, 0, to=True)
    yield "number-beyond-2-to-the-53", "pack", changed(4, 2, 0, to=1 << 53)
    yield "place-of-an-edge-out-of-range", "pack", changed(4, 1, 0, to=99)
    yield "place-of-a-package-out-of-range", "pack", changed(1, 0, 0, to=9)
    yield "kind-out-of-range", "pack", changed(1, 2, to=b"\x0e" + whole[1][2][1:])
    yield "way-out-of-range", "pack", changed(3, 0, to=38 * 16)
    yield "edge-of-the-other-graph", "pack", changed(3, 0, to=1)
    yield "edge-that-starts-at-a-name-from-outside", "pack", changed(4, 0, 0, to=external)
    yield "external-with-a-package", "pack", changed(1, 0, external, to=1)
    yield "external-that-is-no-path", "invalid-name", changed(1, 1, external, to="hashlib.sha256")
    yield "width-of-9", "pack", changed(2, to=[9, b""])
    yield "width-as-a-fraction", "pack", changed(2, to=[8.0, b""])
    yield "references-cut-off", "pack", changed(2, to=[8, bytes(7)])
    yield "reference-to-a-node-that-is-not-there", "unknown-node", changed(2, to=[8, bytes(8)])
    yield "alias-that-shares-more-than-there-is", "pack", changed(5, 0, 0, to=1)
    yield "alias-with-a-call", "pack", changed(5, 1, 0, to="python://ledger()")
    yield "alias-of-the-standard-library-claimed", "pack", changed(5, 1, 0, to="python://os")
    yield "claim-of-2", "pack", changed(5, 3, to=b"\x02" + whole[5][3][1:])
    yield "facts-in-another-order", "not-canonical", changed(7, 1, 0, to=_swapped(whole[7][1][0]))
    yield "facts-with-an-unknown-field", "unknown-field", changed(7, 1, 0, to=whole[7][1][0][:-1] + ',"x":1}')
    yield "content-hash-of-31-bytes", "pack", changed(8, 0, 1, to=bytes(31))
    yield "call-site-of-a-way-that-is-not-there", "pack", changed(8, 0, 3, 2, 0, to=9)
    yield "arity-beyond-its-limit", "pack", changed(8, 0, 3, 6, 0, to=65_536)
    yield "reason-out-of-range", "pack", changed(9, 1, to=b"\x0b" + whole[9][1][1:])
    yield "facts-of-a-node-twice", "pack", changed(7, to=[column * 2 for column in whole[7]])
    yield "file-twice", "pack", changed(8, to=whole[8] * 2)
    yield "coverage-of-a-path-twice", "pack", changed(9, to=[column * 2 for column in whole[9]])
    yield "text-with-nul", "invalid-name", changed(9, 0, 0, to="docs\0logo.png")


def _swapped(text: str) -> str:
    one, two = '"python://builtins.int"', '["ledger/book","Entry","type"]'
    return text.replace(one, "@").replace(two, one).replace("@", two)


def packs() -> dict[str, Any]:
    """Records in columns."""
    source, overlay = _tables()
    known = [list(one) for one in source.nodes]
    about = {"repository": LEDGER, "graph": 0, "known": list[Any]()}
    nothing = pack_records(Records())
    whole = pack_records(source)
    part = Records(edges=source.edges[:2], files=source.files)
    found = [
        good("no-records", "Ten empty tables.", "pack", **about, **packed(nothing)),
        good("every-table", "All ten tables; a call site above its declaration.", "pack", **about, **packed(whole)),
        good("overlay", "An edge of the overlay.", "pack", **about | {"graph": 1}, **packed(pack_records(overlay))),
        good("nodes-that-the-receiver-has", "Nodes by 8 bytes; call sites of edges that are not sent.", "pack",
             **about | {"known": known}, **packed(pack_records(part, source.edges))),
        good("nodes-by-16-bytes", "The same with half of each hash, as in descents.", "pack",
             **about | {"known": known}, **packed(pack_records(part, source.edges, MIDDLE))),
        good("nodes-by-32-bytes", "The same with whole hashes.", "pack",
             **about | {"known": known}, **packed(pack_records(part, source.edges, WHOLE))),
    ]  # fmt: skip
    found += [bad(name, code, "pack", **about, **packed(value)) for name, code, value in _pack_defects(whole)]
    return document("packs", "Records of one graph of a repository, in columns.", found + _withdrawals(source, known))


def _withdrawals(source: Records, known: list[list[str]]) -> list[dict[str, Any]]:
    hashes = [node_hash(*one) for one in source.nodes]
    gone = Withdrawn(
        nodes=hashes[:2],
        branches=[Branch("ledger/book", "calls", 2, encode_subset([0, 2], 5))],
        aliases=[("python://ledger", hashes[0])],
        members=[(hashes[1], "total", hashes[2])],
        facts=hashes[2:3],
        files=["ledger/book.py"],
        coverage=["docs/logo.png", "ledger/old.py"],
    )
    whole = pack_withdrawn(gone)
    about = {"known": known}
    found = [
        good("nothing-withdrawn", "", "withdrawn", **about, **packed(pack_withdrawn(Withdrawn()))),
        good("something-of-every-table", "", "withdrawn", **about, **packed(whole)),
        good("something-by-16-bytes", "", "withdrawn", **about, **packed(pack_withdrawn(gone, MIDDLE))),
        good("something-by-32-bytes", "", "withdrawn", **about, **packed(pack_withdrawn(gone, WHOLE))),
    ]
    for name, code, value in (
        ("withdrawn-with-seven-parts", "pack", whole[:7]),
        ("withdrawn-with-a-width-of-24", "pack", [24, *whole[1:]]),
        ("withdrawn-columns-of-different-length", "pack", [*whole[:3], [[], whole[3][1]], *whole[4:]]),
        ("withdrawn-nodes-cut-off", "pack", [8, whole[1][:-1], *whole[2:]]),
        ("withdrawn-node-that-is-not-there", "unknown-node", [8, bytes(8), *whole[2:]]),
        ("branch-of-an-unknown-type", "pack", [*whole[:2], [["ledger", 38, 1, b"\0"]], *whole[3:]]),
        ("branch-with-a-negative-count", "integer-range", [*whole[:2], [["ledger", 0, -1, b"\0"]], *whole[3:]]),
        ("branch-with-places-as-numbers", "pack", [*whole[:2], [["ledger", 0, 1, [0]]], *whole[3:]]),
    ):
        found.append(bad(name, code, "withdrawn", **about, **packed(value)))
    return found


# Notes: access lists, hello, invitations


def _node_note(text: str, key: str = "hub") -> str:
    return sign_note(text, [SigningKey(node_name(HUB.origin), seed(key))])


def access() -> dict[str, Any]:
    """Access lists."""
    shop, stranger = Node("shop"), Node("stranger")
    readers = [reader_tag(HUB.origin, LEDGER, one) for one in (READER.origin, shop.origin)]
    relays = (relay_tag(HUB.origin, LEDGER, shop.origin),)
    text = access_text(Access(HUB.origin, LEDGER, 3, tuple(readers), relays))
    nobody = access_text(Access(HUB.origin, LEDGER, 4, (), ()))
    over = access_text(Access(HUB.origin, LEDGER, 5, tuple(readers), ()))
    pairs = [(READER, shop), (shop, shop), (READER, READER), (stranger, shop)]
    about = {"key": HUB.first_key.hex(), "asked": [[one.origin.hex(), two.origin.hex()] for one, two in pairs]}
    lines = text.splitlines()
    tag = relays[0].hex()
    found = [
        good("two-readers-and-a-relay", "`asked` are pairs: a reader, and the node that it asks.", "access",
             **about, text=_node_note(text)),
        good("no-relays", "Readers alone: nobody passes it on.", "access", **about, text=_node_note(over)),
        good("nobody", "An empty list allows nobody.", "access", **about, text=_node_note(nobody)),
    ]  # fmt: skip
    for name, code, changed in (
        ("access-list-unsorted", "access", [*lines[:4], lines[5], lines[4], lines[6]]),
        ("access-list-with-a-reader-twice", "access", [*lines[:6], lines[5], lines[6]]),
        ("access-list-with-a-relay-twice", "access", [*lines, lines[6]]),
        ("access-list-with-a-relay-before-its-readers", "access", [*lines[:4], lines[6], *lines[4:6]]),
        ("access-list-with-an-unknown-line", "access", [*lines, f"writer {tag}"]),
        ("access-list-without-a-serial", "access", [*lines[:3], *lines[4:]]),
        ("access-list-with-a-serial-of-007", "access", [*lines[:3], "serial 007", *lines[4:]]),
        ("access-list-with-another-title", "access", ["knowing-access/v2", *lines[1:]]),
        ("access-list-with-upper-case-hex", "not-canonical-hex", [*lines[:6], "relay " + tag.upper()]),
        ("access-list-of-another-spelling-of-a-url", "not-canonical-url",
         [*lines[:2], "repository https://github.com/acme/ledger", *lines[3:]]),
        ("access-list-with-too-many-nodes", "access",
         [*lines[:4], *(f"reader {n:064x}" for n in range(800)), f"relay {tag}"]),
    ):  # fmt: skip
        found.append(bad(name, code, "access", **about, text=_node_note("\n".join(changed) + "\n")))
    found.append(bad("access-list-signed-by-another", "unsigned", "access", **about, text=_node_note(text, "shop")))
    later = _node_note(text).replace("serial 3", "serial 9")
    found.append(bad("access-list-changed-after-signing", "bad-signature", "access", **about, text=later))
    return document("access", "Access lists: signed notes of an origin.", found)


def meeting() -> dict[str, Any]:
    """Hello, invitations, and the bodies of join, knock and keys."""
    nonce = "00112233445566778899aabbccddeeff"

    def hello(protocols: str, said: list[int], nonce: str = nonce, key: str = "hub") -> dict[str, Any]:
        text = f"knowing-hello/v1\norigin {HUB.origin.hex()}\nnonce {nonce}\nprotocols {protocols}\n"
        about = {"origin": HUB.origin.hex(), "first_key": HUB.first_key.hex(), "key_notes": list[str]()}
        return {"json": {**about, "protocols": said, "note": _node_note(text, key)}}

    about: dict[str, Any] = {"nonce": nonce, "expected": HUB.origin.hex()}
    found = [
        good("hello", "The answer of GET /v1/node?nonce=…", "hello", **about, **hello("1", [1])),
        good("hello-of-two-versions", "A later node that still speaks 1.", "hello", **about, **hello("1 2", [1, 2])),
        bad("downgrade", "downgrade", "hello", **about, **hello("1 2", [1])),
        bad("hello-with-an-old-nonce", "downgrade", "hello", **about, **hello("1", [1], "ffff")),
        bad("hello-signed-by-another", "unsigned", "hello", **about, **hello("1", [1], key="shop")),
        bad("no-common-version", "protocol-version", "hello", **about, **hello("2", [2])),
        bad("another-node", "wrong-node", "hello", nonce=nonce, expected=READER.origin.hex(), **hello("1", [1])),
        bad("not-a-node", "not-a-node", "hello", **about, json={"hello": "world"}),
    ]
    me = {"first_key": READER.first_key, "key_notes": list[str](), "url": "http://reader.example"}
    bodies: dict[str, dict[str, Any]] = {
        "join": {**me, "code": bytes(range(16))},
        "knock": me,
        "keys": {"first_key": READER.first_key, "key_notes": []},
        "join-answer": {"state": "accepted"},
        "knock-answer": {"state": "pending"},
        "keys-answer": {},
    }
    for name, value in bodies.items():
        found.append(
            good(name, f"A body of POST /v1/{name.partition('-')[0]}.", "body", media_type=MEDIA_TYPE, **packed(value))
        )
    return document("meeting", "How nodes come to know each other.", found + _invitations())


def _invitations() -> list[dict[str, Any]]:
    plain_text = invite_text(Invite("http://hub.example:7420", HUB.first_key, None, bytes(range(16))))
    pinned = invite_text(Invite("https://hub.example", HUB.first_key, bytes(32), bytes(range(16))))
    other = invite_text(Invite("http://hub.example:7420", READER.first_key, None, bytes(range(16))))
    return [
        good("invitation", "", "invitation", text=plain_text),
        good("invitation-with-a-certificate", "", "invitation", text=pinned),
        good("invitation-with-spaces-around-it", "Pasting adds them.", "invitation", text=f"  {plain_text}\n"),
        bad("invitation-cut-off", "invite-truncated", "invitation", text=plain_text[:200]),
        bad("invitation-mistyped", "invite-mistyped", "invitation", text=plain_text[:-9] + "A" + plain_text[-8:]),
        bad("invitation-of-two-lines", "invite-mistyped", "invitation", text=plain_text[:90] + "\n" + plain_text[90:]),
        bad("invitation-of-version-2", "invite-version", "invitation", text=plain_text.replace("-1.", "-2.")),
        bad("invitation-whose-checksum-is-of-another", "invite-mistyped", "invitation", text=_mixed(plain_text, other)),
        bad("no-invitation", "not-an-invitation", "invitation", text="https://hub.example"),
    ]


def _mixed(one: str, other: str) -> str:
    """The beginning of one line and the end of another."""
    return one[:100] + other[100:]


# Transport and signatures


def transport() -> dict[str, Any]:
    """Bodies and their media types."""
    value: dict[str, Any] = {"view": None, "logs": []}
    data = msgpack.packb(value)
    # One raw block: a frame that every compressor may write, and no version of one decides on.
    frame = bytes.fromhex("28b52ffd20") + bytes([len(data)]) + (len(data) << 3 | 1).to_bytes(3, "little") + data
    unsized = bytes.fromhex("28b52ffd0000") + (len(data) << 3 | 1).to_bytes(3, "little") + data
    about = {"media_type": MEDIA_TYPE}
    lists = bytes.fromhex("dd0003d090")  # an array of 250,000 empty ones, which are two blocks of one repeated byte
    many = bytes.fromhex("28b52ffda0") + (5 + 250_000).to_bytes(4, "little") + (5 << 3).to_bytes(3, "little") + lists
    many += (131_072 << 3 | 2).to_bytes(3, "little") + b"\x90" + (118_928 << 3 | 3).to_bytes(3, "little") + b"\x90"
    zstd = {"media_type": MEDIA_TYPE + "+zstd"}
    return document(
        "transport",
        "Bodies of requests and answers, as they travel.",
        [
            good("plain", "", "body", **about, body=data.hex()),
            good("compressed", "A zstd frame that says its size.", "body", **zstd, body=frame.hex()),
            bad("another-media-type", "media-type", "body", media_type="application/json", body=data.hex()),
            bad("compressed-but-not-said", "not-msgpack", "body", **about, body=frame.hex()),
            bad("not-compressed-but-said", "not-zstd", "body", **zstd, body=data.hex()),
            bad("frame-without-its-size", "too-large", "body", **zstd, body=unsized.hex()),
            bad("frame-with-more-behind-it", "not-zstd", "body", **zstd, body=(frame + b"\0").hex()),
            bad("frame-cut-off", "not-zstd", "body", **zstd, body=frame[:-1].hex()),
            bad("unpacks-to-more-than-the-limit", "too-large", "body", **zstd, limit=8, body=frame.hex()),
            bad("more-than-the-limit", "too-large", "body", **about, limit=8, body=data.hex()),
            bad("message-cut-off", "not-msgpack", "body", **about, body=data[:-1].hex()),
            bad("message-with-more-behind-it", "not-msgpack", "body", **about, body=(data + b"\0").hex()),
            bad("map-with-a-number-for-a-key", "not-msgpack", "body", **about, body=msgpack.packb({1: 2}).hex()),
            bad("250001-lists", "too-large", "body", **zstd, body=many.hex()),
            bad("extension-type", "not-msgpack", "body", **about, body="d40100"),
            bad("text-that-is-not-utf8", "not-msgpack", "body", **about, body="a1ff"),
        ],
    )


def signatures() -> dict[str, Any]:
    """Signed requests."""
    signer = SigningKey("", seed("reader"))
    body = msgpack.packb({"view": None, "logs": []})
    path = "/v1/roster"

    def request(**changes: Any) -> dict[str, Any]:
        fields = sign("POST", path, "", body, HUB.origin, READER.first_key, signer.sign, START, NONCE)
        made: dict[str, Any] = {
            "method": "POST",
            "path": path,
            "query": "",
            "body": body.hex(),
            "reader": HUB.origin.hex(),
            "clock": START + 5,
            "headers": [[name, value] for name, value in fields.items()],
        }
        return made | changes

    rows = request()["headers"]

    def edited(name: str, old: str, new: str) -> dict[str, Any]:
        found = [[key, value.replace(old, new) if key == name else value] for key, value in rows]
        assert found != rows, name
        return request(headers=found)

    base = signature_base(
        "POST", path, "", content_digest(body), HUB.origin.hex(), parameters(START, NONCE, READER.first_key)
    )
    empty = sign("GET", "/v1/events", "", b"", HUB.origin, READER.first_key, signer.sign, START, NONCE)
    events = {"method": "GET", "path": "/v1/events", "body": "", "headers": [list(one) for one in empty.items()]}
    found = [
        good("signed-request", "The signature base is what is signed.", "signature", base=base.decode(), **request()),
        good("signed-request-without-a-body", "The digest of no bytes.", "signature", **request(**events)),
        good("read-300-seconds-late", "", "signature", **request(clock=START + 300)),
        good("field-names-in-lower-case", "", "signature", **request(headers=[[k.lower(), v] for k, v in rows])),
    ]
    for name, code, changed in (
        ("not-signed", "signature-missing", request(headers=rows[:2])),
        ("wrong-recipient", "wrong-recipient", request(reader=READER.origin.hex())),
        ("clock-skew-late", "clock-skew", request(clock=START + 301)),
        ("clock-skew-early", "clock-skew", request(clock=START - 301)),
        ("body-changed", "digest-mismatch", request(body=body.hex() + "00")),
        ("path-changed", "signature-invalid", request(path="/v1/pull")),
        ("query-added", "signature-invalid", request(query="a=b")),
        ("method-changed", "signature-invalid", request(method="PUT")),
        ("recipient-changed", "signature-invalid", edited("Knowing-Recipient", HUB.origin.hex(), READER.origin.hex())
         | {"reader": READER.origin.hex()}),
        ("nonce-changed", "signature-invalid", edited("Signature-Input", 'nonce="AAE', 'nonce="BAE')),
        ("nonce-not-canonical", "signature-malformed", edited("Signature-Input", 'Dw"', 'Dx"')),
        ("key-changed", "signature-invalid", edited("Signature-Input", READER.first_key.hex(), HUB.first_key.hex())),
        ("component-left-out", "signature-malformed", edited("Signature-Input", ' "@query"', "")),
        ("parameter-added", "signature-malformed", edited("Signature-Input", ";created", ";expires=1;created")),
        ("parameters-in-another-order", "signature-malformed",
         edited("Signature-Input", ';alg="ed25519";tag="knowing-v1"', ';tag="knowing-v1";alg="ed25519"')),
        ("another-label", "signature-malformed", edited("Signature-Input", "knowing=", "sig1=")),
        ("created-with-a-leading-zero", "signature-malformed", edited("Signature-Input", "created=", "created=0")),
        ("field-twice", "signature-malformed", request(headers=[*rows, rows[0]])),
        ("digest-missing", "signature-malformed", request(headers=rows[1:])),
        ("digest-of-another-algorithm", "signature-malformed", edited("Content-Digest", "sha-256", "sha-512")),
        ("recipient-in-upper-case", "signature-malformed",
         edited("Knowing-Recipient", HUB.origin.hex(), HUB.origin.hex().upper())),
        ("newline-in-the-path", "signature-malformed", request(path="/v1/roster\n")),
    ):  # fmt: skip
        found.append(bad(name, code, "signature", **changed))
    return document("signatures", "Signed requests; `reader` is the node that reads them, at `clock`.", found,
                    seed=seed("reader").hex())  # fmt: skip


def documents() -> list[dict[str, Any]]:
    """All files but those of conversations."""
    return [subsets(), packs(), access(), meeting(), transport(), signatures()]
