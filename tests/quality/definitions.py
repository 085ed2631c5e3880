"""What the sources of the registered packages define, by dotted name, read with tree-sitter alone.

The oracle names targets; this says what stands there: a class, a function, a property, or nothing (a stub of another
version, a generated module). It is used to normalise the oracle's answers, never to make them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import tree_sitter

from quality.places import parse

_PROPERTY_NAMES = frozenset({"property", "cached_property", "abstractproperty", "classproperty", "reify"})


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition; `kind` is class, function, method or property."""

    name: str
    kind: str


def module_name(path: str) -> str:
    """The dotted module of an import path such as `flask/json/__init__.py`."""
    parts = path.rsplit(".", 1)[0].split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def _text(node: tree_sitter.Node | None) -> str:
    return node.text.decode(errors="replace") if node is not None and node.text is not None else ""


def _is_property(decorators: Iterable[tree_sitter.Node]) -> bool:
    for decorator in decorators:
        expression = decorator.named_children[0] if decorator.named_children else None
        if expression is not None and expression.type == "call":
            expression = expression.child_by_field_name("function")
        last = _text(expression).rsplit(".", 1)[-1]
        if last in _PROPERTY_NAMES or last in {"setter", "getter", "deleter"}:
            return True
    return False


def _walk(node: tree_sitter.Node, prefix: str, function_kind: str) -> Iterator[Definition]:
    """Definitions of one scope; statements that only group others are looked through, function bodies are not."""
    for child in node.children:
        decorators: list[tree_sitter.Node] = []
        if child.type == "decorated_definition":
            decorators = [part for part in child.children if part.type == "decorator"]
            inner = child.child_by_field_name("definition")
            if inner is None:
                continue
            child = inner
        if child.type == "class_definition":
            name = f"{prefix}.{_text(child.child_by_field_name('name'))}"
            yield Definition(name, "class")
            body = child.child_by_field_name("body")
            if body is not None:
                yield from _walk(body, name, "method")
        elif child.type == "function_definition":
            name = f"{prefix}.{_text(child.child_by_field_name('name'))}"
            yield Definition(name, "property" if _is_property(decorators) else function_kind)
        elif child.child_count and not child.type.endswith("expression"):
            yield from _walk(child, prefix, function_kind)


def of_source(module: str, source: bytes) -> Iterator[Definition]:
    """The importable definitions of one module."""
    return _walk(parse(source).root_node, module, "function")


def of_files(root: Path, layout: Mapping[str, str]) -> dict[str, str]:
    """Dotted name => kind over a package's importable files. A name defined twice is a property if one of them is."""
    found: dict[str, str] = {}
    for imported, published in layout.items():
        for item in of_source(module_name(imported), (root / published).read_bytes()):
            if found.get(item.name) != "property":
                found[item.name] = item.kind
    return found
