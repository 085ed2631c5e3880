"""Vectors of the kernel's parts: names, hashes, maps, proofs, logs, notes, headers and graphs."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from knowing_protocol import critbit, graph, hashing, tlog
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import KnowingError
from knowing_protocol.history import checkpoint_of, log_name, origin_id, roster_key
from knowing_protocol.keys import Attestation, NewEpoch, attestation_text, epoch_text
from knowing_protocol.mapproof import prove_map
from knowing_protocol.note import checkpoint_text, format_verifier_key, sign_note
from knowing_protocol.paths import CALL, WILDCARD, Path, last_segments, local_last_segment, parse_path, plain_prefixes
from knowing_protocol.records import facts_to_json
from knowing_protocol.urls import canonical_url, local_name, matches
from knowing_protocol.walk import walk
from positive import AUDIT, CHARGE, rotation
from world import PAYMENTS, START, Node, payments, seed, shop, tools, world

from knowingd.keys import SigningKey, public_key_of

URLS = (
    "https://github.com/Org/Repo.git",
    "git@github.com:org/repo",
    "ssh://git@github.com:22/org/repo/",
    "github.com/org/repo",
    "https://git.example.org/Team/Repo",
    "https://git.example.org:8443/Team/Repo.git",
    "ssh://git@ssh.github.com:443/org/repo.git",
    "https://user:secret@github.com/org/repo?x=1#y",
    "git@git.example.org:~me/Repo.git",
    "https://example.org/a%7eb/c%2fd",
    "local/my-project",
    "file:///srv/repo",
    "/srv/repo",
    "https://github.com/a/../b",
    "https://exa mple.org/x",
    "",
)
PATHS = (
    "python://flask.app.Flask().route",
    "python://hashlib.md5",
    "python://{a.B|c.D}().m",
    "python://x.*",
    "npm://@scope/pkg/sub#default",
    "npm://pkg#=().k",
    "go://gopkg.in/yaml%2Ev3.Unmarshal",
    "java://p.Outer.Inner.m",
    "rust://lib::de::T::m",
    "csharp://Ns.Foo`1.M",
    "unresolved://python/get",
    "python://a.b%2Ec",
    "python://a.b%2ec",
    "python://a..b",
    "python://{a.B}().m",
    "python://a.*.b",
    "cobol://a.b",
    "python://",
)
LOCAL_NAMES = ("C.m", "f.<locals>.g", "<T as a.Tr<A.B>>.m", "Foo`1.M", "m!", "make().k", "operator<")
GLOBS = (("github.com/acme/*", "github.com/acme/a/b"), ("github.com/acme", "github.com/acme/a"), ("*/a?c", "x/y/abc"))


def attempt(work: Any, *arguments: Any) -> Any:
    """The result of a function, or that it refuses."""
    try:
        return work(*arguments)
    except KnowingError as error:
        return {"refused": error.code}


def path_parts(text: str) -> Any:
    """A path taken apart."""

    def plain(steps: Any) -> list[str]:
        return ["()" if one is CALL else "*" if one is WILDCARD else f".{one}" for one in steps]

    def parts(path: Path) -> Any:
        return {
            "scheme": path.scheme,
            "heads": [[head.module, *plain(head.steps)] for head in path.heads],
            "steps": plain(path.steps),
            "last_segments": sorted(last_segments(path)),
            "prefixes": [list(one) for one in plain_prefixes(path)] if len(path.heads) == 1 else None,
        }

    found = attempt(parse_path, text)
    return parts(found) if isinstance(found, Path) else found


def names() -> dict[str, Any]:
    """Canonical URLs, patterns and paths."""
    return {
        "urls": [[text, attempt(canonical_url, text)] for text in URLS],
        "local_names": [[text, attempt(local_name, text)] for text in ("My project", "a/b", "../x")],
        "patterns": [[pattern, url, matches(pattern, url)] for pattern, url in GLOBS],
        "paths": [[text, path_parts(text)] for text in PATHS],
        "last_segments_of_local_names": [[text, local_last_segment(text)] for text in LOCAL_NAMES],
    }


def hashes() -> dict[str, Any]:
    """Every formula of the identity layer on small input."""
    source, target = hashing.node_hash(*CHARGE), hashing.node_hash(*AUDIT)
    edge = hashing.edge_hash(source, target, "calls", "ast_resolved")
    repo = hashing.repo_hash(PAYMENTS)
    content = hashing.content_hash(b"print()\n")
    return {
        "tagged": [[tag, list(parts), hashing.tagged(tag, *parts).hex()] for tag, *parts in TAGGED],
        "node": [[*CHARGE, source.hex()], [*AUDIT, target.hex()]],
        "external": ["python://hashlib.md5", hashing.external_hash("python://hashlib.md5").hex()],
        "edge": [source.hex(), target.hex(), "calls", "ast_resolved", edge.hex()],
        "relation": [source.hex(), target.hex(), "calls", hashing.relation_hash(source, target, "calls").hex()],
        "relation_digest": [[edge.hex()], hashing.relation_digest([edge]).hex()],
        "repo": [PAYMENTS, repo.hex()],
        "file": [PAYMENTS, "a/b.py", content.hex(), hashing.file_hash(repo, "a/b.py", content).hex()],
        "snapshot": [bytes(32).hex(), hashing.snapshot_hash(bytes(32)).hex()],
        "set": [bytes(32).hex(), 3, hashing.set_digest(bytes(32), 3).hex()],
        "keys": {
            "map": ["edges", graph.map_key("edges").hex()],
            "package": ["payments/api", graph.package_key("payments/api").hex()],
            "type": ["calls", graph.edge_type_key("calls").hex()],
            "inbound": ["calls", target.hex(), graph.inbound_key("calls", target).hex()],
            "name": ["calls", "audit", graph.names_key("calls", "audit").hex()],
            "member": [source.hex(), "x", graph.member_key(source, "x").hex()],
            "path": ["a/b.py", graph.path_key("a/b.py").hex()],
            "roster": [PAYMENTS, "HEAD", roster_key(PAYMENTS, "HEAD").hex()],
        },
        "empty_maps": {level.name.lower(): [int(level), critbit.empty_hash(level).hex()] for level in graph.Level},
    }


TAGGED = (("package", "a"), ("inbound", "a:b", "c"), ("inbound", "a", "b:c"), ("map", ""), ("name", "", "é"))


def content(count: int) -> dict[bytes, bytes]:
    """A map's content from nothing but a number."""
    return {sha256(b"key %d" % one).digest(): sha256(b"value %d" % one).digest() for one in range(count)}


def maps() -> list[dict[str, Any]]:
    """Maps of several sizes: roots, prefix roots, and proofs of keys that are there and that are not."""
    found = []
    for count in (0, 1, 2, 3, 16, 300):
        tree = MerkleMap.of(graph.Level.NODES, content(count))
        asked = [sha256(b"key %d" % one).digest() for one in (0, 1, 999)]
        values = [tree.get(key) for key in asked]
        found.append(
            {
                "content": f"SHA-256 of 'key N' to SHA-256 of 'value N' in ASCII, for N below {count}",
                "level": int(graph.Level.NODES),
                "root": tree.root.hex(),
                "prefix": asked[0].hex(),
                "prefix_roots": [[bits, tree.prefix_root(asked[0], bits).hex()] for bits in (0, 1, 4, 8, 256)],
                "asked": [key.hex() for key in asked],
                "values": [None if value is None else value.hex() for value in values],
                "proof": prove_map(tree, asked).hex(),
                "single_proofs": [prove_map(tree, [key]).hex() for key in asked],
            }
        )
    return found


def logs() -> dict[str, Any]:
    """An RFC 6962 log of eight leaves."""
    leaves = [tlog.leaf_hash(b"leaf %d" % one) for one in range(8)]
    log = tlog.Log(leaves)
    return {
        "leaves": "the ASCII texts 'leaf N' for N below 8",
        "roots": [log.root(size).hex() for size in range(9)],
        "inclusion": [
            [index, size, [one.hex() for one in log.inclusion_proof(index, size)]]
            for index, size in ((0, 1), (0, 8), (5, 8), (6, 7), (2, 3))
        ],
        "consistency": [
            [old, new, [one.hex() for one in log.consistency_proof(old, new)]]
            for old, new in ((1, 8), (6, 8), (2, 5), (8, 8), (3, 7))
        ],
    }


def notes() -> dict[str, Any]:
    """Signed notes of every kind, by keys whose seeds are public."""
    key = public_key_of(seed("hub"))
    origin = origin_id(key)
    node = Node("hub")
    signer = SigningKey(log_name(origin, 0), seed("hub"))
    stated = checkpoint_of(origin, 0, 3, sha256(b"root").digest(), START)
    attested = Attestation("reproduced", origin, 0, 3, bytes(32), bytes(32))
    return {
        "seed": seed("hub").hex(),
        "public_key": key.hex(),
        "origin": origin.hex(),
        "verifier_key": format_verifier_key(log_name(origin, 0), key),
        "checkpoint": sign_note(checkpoint_text(stated), [signer]),
        "rotation": rotation(node, "hub", "hub two", 2),
        "epoch": epoch_text(NewEpoch(origin, 1, 3, bytes(32))),
        "attestation": attestation_text(attested),
    }


def histories() -> dict[str, Any]:
    """Headers as they are hashed, with their leaves, digests and rosters."""
    node = world()
    return {
        "headers": [
            [canonical_json(header.as_json()).decode(), header.leaf.hex(), header.digest.hex()]
            for header in node.headers
        ],
        "log_roots": [node.log.root(size).hex() for size in range(1, 5)],
    }


def graphs() -> list[dict[str, Any]]:
    """Graphs as records, and the roots of all their maps."""
    found = []
    for builder in (payments(), tools(), shop()):
        records = builder.records
        made = graph.Graph(builder.repo, records)
        ids = {hashing.node_hash(*node).hex(): list(node) for node in records.nodes}
        found.append(
            {
                "repository": builder.repo,
                "nodes": ids,
                "edges": [[one.source.hex(), one.target.hex(), one.type, one.provenance] for one in records.edges],
                "aliases": [[one.name, one.target.hex(), one.claimed] for one in records.aliases],
                "members": [[one.owner.hex(), one.name, one.target.hex()] for one in records.members],
                "facts": {key.hex(): facts_to_json(facts) for key, facts in records.facts.items()},
                "files": [
                    {
                        "path": file.path,
                        "content": file.content.hex(),
                        "declarations": [[one.node.hex(), *one[1:]] for one in file.declarations],
                        "sites": [[one.edge.hex(), *one[1:]] for one in file.sites],
                    }
                    for file in records.files
                ],
                "coverage": {path: reason.value for path, reason in records.coverage.items()},
                "roots": {name: tree.root.hex() for name, tree in made.maps.items()},
                "root": made.root.hex(),
                "snapshot": hashing.snapshot_hash(made.root).hex(),
            }
        )
    return found


WALKED = (
    "python://payments.charge",
    "python://tools.pay",
    "python://payments.make_client().send",
    "python://payments.make_client().submit",
    "python://payments.make_client().close",
    "python://payments.Client().missing",
    "python://payments.missing",
    "python://elsewhere.name",
    "python://os.environ.get",
    "python://builtins.next().get",
    "python://builtins.dict().get",
    "python://{elsewhere.name|payments.charge}",
    "unresolved://python/get",
)


def walks() -> list[list[Any]]:
    """Where paths lead over the graphs above."""
    readers = [graph.Graph(one.repo, one.records) for one in (payments(), shop(), tools())]
    rows: list[list[Any]] = []
    for text in WALKED:
        outcome = walk(text, readers)
        found = sorted(list(node) for node in outcome.definitions)
        rows.append([text, found, sorted(outcome.names), outcome.standard, sorted(outcome.open)])
    return rows


def vectors() -> dict[str, Any]:
    """All of them."""
    return {
        "format": "knowing-kernel-vectors/v1",
        "names": names(),
        "hashes": hashes(),
        "maps": maps(),
        "logs": logs(),
        "notes": notes(),
        "histories": histories(),
        "graphs": graphs(),
        "walks": walks(),
    }
