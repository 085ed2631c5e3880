"""Graphs like those of real repositories, made from a seed: the same seed gives the same records everywhere.

Shaped after measured code: most functions are called by few others and some by thousands; packages have a handful to
hundreds of symbols; a third of the calls leave the repository, most of those to a small number of names; one edge in
five was inferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from knowing_protocol.hashing import NodeId, content_hash, external, node_hash
from knowing_protocol.records import Alias, Declaration, Edge, Facts, File, LocalType, Member, Records, Site
from knowing_protocol.vocabulary import Coverage

_VERBS = "get set make load save parse build find check open close read write send update delete run start".split()  # noqa: SIM905
_NOUNS = "user order cart token cache graph node edge file path client server request session query index".split()  # noqa: SIM905
_OUTSIDE = (
    "python://requests.get",
    "python://requests.Session().post",
    "python://os.environ.get",
    "python://os.path.join",
    "python://json.dumps",
    "python://hashlib.sha256",
    "python://logging.getLogger().info",
    "python://builtins.dict().get",
    "python://flask.Flask().route",
    "python://sqlalchemy.orm.Session().query",
    "unresolved://python/get",
    "unresolved://python/append",
    "unresolved://python/close",
    "unresolved://python/items",
)


@dataclass(frozen=True)
class Size:
    """How large a repository is."""

    packages: int
    nodes: int
    edges: int


def generate(seed: int, size: Size, repo: str | None = None) -> tuple[str, Records]:
    """The records of a repository, and its canonical URL."""
    random = Random(seed)
    repo = repo or f"github.com/generated/repo-{seed}"
    records = Records()
    packages = [_package(random, number) for number in range(size.packages)]
    definitions = _define(random, repo, packages, size.nodes, records)
    outside = [external(path) for path in _OUTSIDE]
    outside += [
        external(f"python://lib{number}.api.{random.choice(_VERBS)}_{number}") for number in range(size.packages)
    ]
    records.nodes += outside
    _relate(random, definitions, outside, size.edges, records)
    _publish(random, packages, definitions, records)
    records.coverage["docs/logo.png"] = Coverage.BINARY
    return repo, records


def _package(random: Random, number: int) -> str:
    return f"src/acme_{random.choice(_NOUNS)}/{random.choice(_NOUNS)}_{number}"


def _define(random: Random, repo: str, packages: list[str], count: int, records: Records) -> list[NodeId]:
    """Functions, types and methods, more of them in some packages than in others."""
    weights = [random.paretovariate(1.2) for _ in packages]
    found: list[NodeId] = []
    for number, package in enumerate(random.choices(packages, weights, k=count)):
        verb, noun = random.choice(_VERBS), random.choice(_NOUNS)
        draw = random.random()
        if draw < 0.15:
            found.append(NodeId(repo, package, f"{noun.title()}{number}", "type"))
        elif draw < 0.6:
            found.append(NodeId(repo, package, f"{noun.title()}{number % 97}.{verb}_{number}", "method"))
        else:
            found.append(NodeId(repo, package, f"{verb}_{noun}_{number}", "function"))
    records.nodes += found
    return found


def _relate(random: Random, definitions: list[NodeId], outside: list[NodeId], count: int, records: Records) -> None:
    """Calls and other relations; fan-in has a long tail, and callers tend to stay near."""
    hashes = [node_hash(*node) for node in definitions]
    foreign = [node_hash(*node) for node in outside]
    total = len(hashes)
    seen: set[tuple[bytes, bytes, str]] = set()
    kinds = ["calls"] * 12 + ["references"] * 4 + ["imports", "contains", "extends", "type_hint_of"]
    while len(records.edges) < count:
        source = random.randrange(total)
        draw = random.random()
        if draw < 0.3:
            target = foreign[min(int(random.paretovariate(0.7)) - 1, len(foreign) - 1)]
        elif draw < 0.65:
            target = hashes[(source + int(random.gauss(0, 40))) % total]
        else:
            target = hashes[min(int(total * random.random() ** 3), total - 1)]
        kind = random.choice(kinds)
        if (hashes[source], target, kind) in seen:
            continue
        seen.add((hashes[source], target, kind))
        how = "ast_inferred" if random.random() < 0.2 else "ast_resolved"
        records.edges.append(Edge(hashes[source], target, kind, how))


def _publish(random: Random, packages: list[str], definitions: list[NodeId], records: Records) -> None:
    """Aliases of what is at module level, members of types, facts, and one file a package."""
    by_package: dict[str, list[NodeId]] = {package: [] for package in packages}
    for node in definitions:
        by_package[node.package].append(node)
    sites: dict[bytes, list[Site]] = {}
    for edge in records.edges:
        places = sites.setdefault(edge.source, [])
        places.append(Site(edge.hash, 0, random.randrange(1, 40), random.randrange(4, 60), random.randrange(4)))
    for package, nodes in by_package.items():
        module = package.removeprefix("src/").replace("/", ".")
        types = [node for node in nodes if node.kind == "type"]
        declarations = []
        for line, node in enumerate(nodes, 1):
            key = node_hash(*node)
            if line == 1:
                records.aliases.append(Alias(f"python://{module.split('.')[0]}", key, claimed=True))
            if "." not in node.name:
                records.aliases.append(Alias(f"python://{module}.{node.name}", key, claimed=True))
            elif types:
                owner = random.choice(types)
                records.members.append(Member(node_hash(*owner), node.name.rpartition(".")[2], key))
            if types and random.random() < 0.2:
                records.facts[key] = Facts(returns=(LocalType(*random.choice(types)[1:]),))
            declarations.append(Declaration(key, 10 * line, 10 * line + 8, f"def {node.name}()", ""))
        records.files.append(
            File(
                f"{package}.py",
                content_hash(package.encode()),
                tuple(declarations),
                tuple(site for node in nodes for site in sites.get(node_hash(*node), ())),
            )
        )
