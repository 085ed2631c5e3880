"""Repositories that somebody works on: an edited copy of records, and what turns one set of records into another."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from knowing_protocol.hashing import NodeId, node_hash
from knowing_protocol.records import Alias, Edge, Facts, LocalType, Member, Records
from knowing_protocol.vocabulary import Coverage

from knowingd.store.rows import Changes


def difference(old: Records, new: Records) -> Changes:
    """What turns one set of records into another."""

    def minus(a: Records, b: Records) -> Records:
        return Records(
            nodes=sorted(set(a.nodes) - set(b.nodes)),
            edges=sorted(set(a.edges) - set(b.edges)),
            aliases=sorted(set(a.aliases) - set(b.aliases)),
            members=sorted(set(a.members) - set(b.members)),
            facts={key: facts for key, facts in a.facts.items() if b.facts.get(key) != facts},
            files=[file for file in a.files if file not in b.files],
            coverage={path: reason for path, reason in a.coverage.items() if b.coverage.get(path) != reason},
        )

    return Changes(0, minus(new, old), minus(old, new))


def edited(records: Records, repo: str, random: Random) -> Records:
    """A repository after somebody worked on it: symbols, calls, names and facts come and go."""
    new = replace(records, edges=list(records.edges), nodes=list(records.nodes), facts=dict(records.facts))
    local = [node for node in new.nodes if node.repo]
    gone = set(random.sample(new.edges, min(len(new.edges), random.randrange(1, 12))))
    new.edges = [edge for edge in new.edges if edge not in gone]
    fresh = NodeId(repo, random.choice(local).package, f"fresh_{random.randrange(10**6)}", "function")
    outside = NodeId("", "", f"python://lib{random.randrange(9)}.x.get", "external")
    new.nodes += [one for one in (fresh, outside) if one not in new.nodes]
    for target in (random.choice(local), outside):
        kind = random.choice(["calls", "references", "imports"])
        new.edges.append(
            Edge(node_hash(*fresh), node_hash(*target), kind, random.choice(["ast_resolved", "ast_inferred"]))
        )
    new.aliases = [
        *(alias for alias in records.aliases if random.random() > 0.02 or alias.name.count(".") == 0),
        Alias("python://own", node_hash(*fresh), claimed=True),
        Alias(f"python://own.{random.choice('abc')}", node_hash(*random.choice([fresh, outside])), claimed=True),
    ]
    owner = random.choice(local)
    new.members = [
        *(member for member in records.members if random.random() > 0.02),
        Member(node_hash(*owner), random.choice(["get", "other"]), node_hash(*random.choice([fresh, outside]))),
    ]
    new.facts[node_hash(*fresh)] = Facts(returns=(LocalType(*owner[1:]),))
    new.facts = {key: facts for key, facts in new.facts.items() if random.random() > 0.02}
    new.files = [file for file in records.files if not file.sites][:3]
    new.coverage = {f"x{random.randrange(4)}.py": random.choice(list(Coverage))}
    used = {edge.source for edge in new.edges} | {edge.target for edge in new.edges} | set(new.facts)
    used |= {alias.target for alias in new.aliases} | {key for one in new.members for key in (one.owner, one.target)}
    used |= {declaration.node for file in new.files for declaration in file.declarations}
    new.nodes = [one for one in dict.fromkeys(new.nodes) if node_hash(*one) in used or random.random() > 0.1]
    return new
