"""What a person means by a symbol: a simple name, a dotted path, an import name, a qualified name, or a hash."""

from __future__ import annotations

import re
from typing import Final

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.hashing import NodeId, external, node_hash
from knowing_protocol.paths import Path, is_path, is_plain, parse_path
from knowing_protocol.standard_library import in_standard_library
from knowing_protocol.vocabulary import NodeKind
from knowing_protocol.walk import UNPUBLISHED, walk

from knowingd.errors import NotFoundError, UsageError
from knowingd.query.scope import Repository, Scope

_HASH: Final = re.compile(r"[0-9a-f]{8,64}")
_SCHEMES: Final = ("python", "npm", "go", "java", "rust", "csharp")
MAX_CHOICES: Final = 50


def meant(text: str, scope: Scope) -> tuple[NodeId, ...]:
    """All symbols that a text may mean, the most literal reading first; several only where they are equally literal."""
    refuse_bytes(text)
    for read in (_by_hash, _by_path, _by_import_name, _by_qualified_name, _by_name):
        found = read(text, scope)
        if found:
            return tuple(sorted(set(found)))
    raise NotFoundError(
        f"no symbol is called {text!r}", hint="`knowing search` finds symbols by words; names are case-sensitive"
    )


def refuse_bytes(text: str) -> None:
    """Refuse an argument that is no text; names and refs are, file names need not be."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!a} is not UTF-8", hint="names are text") from error


def _by_hash(text: str, scope: Scope) -> list[NodeId]:
    if not _HASH.fullmatch(text) or len(text) != 64:
        return []
    found = []
    for one in scope.repositories:
        with one.graph.reading() as session:
            number = session.node_id(bytes.fromhex(text))
            if number is not None:
                found.append(session.node(number).node)
    return found


def _by_path(text: str, scope: Scope) -> list[NodeId]:
    """A canonical name with its scheme: what it leads to, or the name itself where nobody should define it."""
    if not is_path(text) or not is_plain(parse_path(text)):
        return []
    outcome = walk(text, scope.graphs)
    if outcome.definitions:
        return sorted(outcome.definitions)
    if outcome.open - {UNPUBLISHED}:
        raise NotFoundError(
            f"a registered repository should define {text} and does not", hint="check the spelling, or index it again"
        )
    return [external(text)]


def _by_import_name(text: str, scope: Scope) -> list[NodeId]:
    """A name as it is written in an import, in any language whose names look like it."""
    found: set[NodeId] = set()
    outside: list[NodeId] = []
    for scheme in _SCHEMES:
        name = f"{scheme}://{text}"
        try:
            path = parse_path(name)
            outcome = walk(path, scope.graphs) if is_plain(path) else None
        except InvalidNameError:
            continue
        if outcome is not None:
            found |= outcome.definitions
            if in_standard_library(path) and not outcome.definitions and _can_be_used(path):
                outside.append(external(name))
    if found or "." not in text:
        return sorted(found)
    # Of several languages, those are meant that somebody here speaks.
    return [one for one in outside if any(graph.has_node(one) for graph in scope.graphs)] or outside


def _can_be_used(path: Path) -> bool:
    """Whether code elsewhere may use a name of the standard library: in Go its first letter decides."""
    first = path.steps[0] if path.steps else ""
    return path.scheme != "go" or not isinstance(first, str) or not first or first[0].isupper()


def _by_qualified_name(text: str, scope: Scope) -> list[NodeId]:
    """`package:name`, as answers show it, or a dotted tail of package and name."""
    package, colon, name = text.rpartition(":")
    wanted = text.replace("::", ".")
    if not colon and "." not in wanted:
        return []
    found = []
    for one in scope.defining(wanted if text.count("::") else name):
        for node in _hits(one, name if colon else wanted):
            if colon and not text.count("::"):
                same = (node.package, node.name) == (package, name)
            else:
                dotted = f"{node.package.replace('/', '.')}.{node.name}"
                same = "." in wanted and (dotted == wanted or dotted.endswith("." + wanted))
            if same:
                found.append(node)
    return found


def _by_name(text: str, scope: Scope) -> list[NodeId]:
    """A simple name: the last part of a symbol's."""
    found: list[NodeId] = []
    for one in scope.defining(text):
        found += (node for node in _hits(one, text) if node.name == text or node.name.endswith("." + text))
    return found


def _hits(repository: Repository, text: str) -> list[NodeId]:
    """What a search in a repository finds first."""
    with repository.graph.reading() as session:
        return [session.node(hit.node).node for hit in session.search(text, MAX_CHOICES * 4)]


def symbol_json(node: NodeId) -> dict[str, str]:
    """A symbol as every JSON answer shows it."""
    return {
        "repo": node.repo,
        "package": node.package,
        "name": node.name,
        "kind": node.kind,
        "hash": node_hash(*node).hex(),
    }


def label(node: NodeId) -> str:
    """A symbol as people read it."""
    return node.name if node.kind == NodeKind.EXTERNAL else f"{node.package}:{node.name}"
