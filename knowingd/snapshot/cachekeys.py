"""Keys for answers about parts of a graph: the root of any set of packages, in microseconds, from kept roots.

An answer that was made from some packages is kept in the notes under the key of those packages. When one of them
changes, its key is another one, and the next snapshot drops the answers of keys that no longer are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from knowing_protocol.critbit import MerkleMap
from knowing_protocol.graph import Level, edge_type_key, package_key
from knowing_protocol.hashing import tagged

from knowingd.store.codes import EDGE_TYPES, LAYERS
from knowingd.store.interface import GraphSession

PREFIX = "answer:"


def package_roots(session: GraphSession, names: Collection[str]) -> dict[str, bytes]:
    """The root of everything that each package's symbols do, in both graphs."""
    ids = {name: package for package, name in session.packages().items() if name in names}
    parts: dict[str, list[bytes]] = {name: [] for name in names}
    for layer in LAYERS:
        branches: dict[int, dict[bytes, bytes]] = {}
        for package, code, root in session.caches.branches(layer, ids.values()):
            branches.setdefault(package, {})[edge_type_key(EDGE_TYPES[code])] = root
        for name in names:
            parts[name].append(MerkleMap.of(Level.EDGE_TYPES, branches.get(ids.get(name, 0), {})).root)
    return {name: tagged("package", *found) for name, found in parts.items()}


def subgraph_key(roots: dict[str, bytes], names: Iterable[str]) -> bytes:
    """The key of a set of packages."""
    return MerkleMap.of(Level.PACKAGES, {package_key(name): roots[name] for name in set(names)}).root


def remember(session: GraphSession, question: str, packages: Collection[str], answer: Any, now: int) -> None:
    """Keep an answer that depends on nothing but these packages."""
    key = subgraph_key(package_roots(session, packages), packages)
    value = json.dumps({"packages": sorted(packages), "key": key.hex(), "answer": answer})
    session.put_note(PREFIX + question, value, now)


def recall(session: GraphSession, question: str) -> Any:
    """A kept answer, if its packages are as they were; else None."""
    text = session.note(PREFIX + question)
    if text is None:
        return None
    kept = json.loads(text)
    key = subgraph_key(package_roots(session, kept["packages"]), kept["packages"])
    return kept["answer"] if key.hex() == kept["key"] else None


def forget_stale(session: GraphSession) -> None:
    """Drop exactly the answers of which a package changed."""
    session.drop_notes(lambda key: recall(session, key.removeprefix(PREFIX)) is not None, PREFIX)
