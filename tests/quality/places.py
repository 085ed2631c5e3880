"""Finds the call expressions of a Python file, and turns the oracle's columns into ours.

A place is (line from 1, column from 0 in UTF-8 bytes) of the callee's identifier: `get` in `a.b.get(…)`.
"""

import re
from dataclasses import dataclass

import tree_sitter
import tree_sitter_python

_LANGUAGE = tree_sitter.Language(tree_sitter_python.language())
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class CallPlace:
    """One call expression, by the identifier that is called."""

    line: int
    col: int
    name: str
    root: str | None  # `a` in `a.b.f(…)`, empty where that is no name; None for a bare `f(…)`
    in_class_body: bool = False  # a bare name can reach the members of the class only there

    @property
    def bare(self) -> bool:
        """`f(…)` rather than `a.f(…)`."""
        return self.root is None


def parse(source: bytes) -> tree_sitter.Tree:
    """The syntax tree of one file."""
    return tree_sitter.Parser(_LANGUAGE).parse(source)


def _callee(function: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """The identifier that names what is called; None where it is the result of another expression."""
    while function is not None and function.type == "parenthesized_expression":
        inner = function.named_children
        function = inner[0] if len(inner) == 1 else None
    if function is None:
        return None
    if function.type == "identifier":
        return function
    return function.child_by_field_name("attribute") if function.type == "attribute" else None


def _root(callee: tree_sitter.Node) -> str | None:
    node = callee.parent
    if node is None or node.type != "attribute":
        return None
    while node is not None and node.type == "attribute":
        node = node.child_by_field_name("object")
    return node.text.decode(errors="replace") if node is not None and node.type == "identifier" and node.text else ""


def _in_class_body(callee: tree_sitter.Node) -> bool:
    """True where the innermost scope is a class; default values belong to the scope around their function."""
    child, node = callee, callee.parent
    while node is not None:
        if node.type == "class_definition":
            return child.type == "block"
        if node.type in {"function_definition", "lambda"} and child.type not in {"parameters", "lambda_parameters"}:
            return False
        child, node = node, node.parent
    return False


def calls(source: bytes) -> dict[int, CallPlace]:
    """Byte offset of the callee's identifier => its place, for each call expression of the file."""
    found: dict[int, CallPlace] = {}
    pending = [parse(source).root_node]
    while pending:
        node = pending.pop()
        pending.extend(node.children)
        if node.type != "call":
            continue
        callee = _callee(node.child_by_field_name("function"))
        if callee is not None and callee.text is not None:
            row, column = callee.start_point
            name = callee.text.decode(errors="replace")
            found[callee.start_byte] = CallPlace(row + 1, column, name, _root(callee), _in_class_body(callee))
    return found


@dataclass(frozen=True, slots=True)
class Imports:
    """What the import statements of a file bind, at any depth."""

    aliases: frozenset[tuple[str, str]]  # (last name of the original, new name) of each `… as …`
    names: frozenset[str]
    star: bool


def _bound(node: tree_sitter.Node) -> tuple[str, str]:
    """(last name of the original, name that is bound) of one imported name."""
    name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
    original = ((name or node).text or b"").decode(errors="replace")
    if alias is not None and alias.text is not None:
        return original.rsplit(".", 1)[-1], alias.text.decode(errors="replace")
    return original.rsplit(".", 1)[-1], original.split(".", 1)[0]


def imports(source: bytes) -> Imports:
    """The imported names of a file."""
    aliases, names, star = set(), set(), False
    pending = [parse(source).root_node]
    while pending:
        node = pending.pop()
        if node.type not in {"import_statement", "import_from_statement"}:
            pending.extend(node.children)
            continue
        star = star or any(child.type == "wildcard_import" for child in node.children)
        for child in node.children_by_field_name("name"):
            original, bound = _bound(child)
            names.add(bound)
            if child.type == "aliased_import":
                aliases.add((original, bound))
    return Imports(frozenset(aliases), frozenset(names), star)


class Columns:
    """Converts (line, column in UTF-16 code units), both from 0, into a byte offset of the same file."""

    def __init__(self, source: bytes) -> None:
        text = source.decode(errors="replace")
        self._lines: list[tuple[int, str]] = []
        start = offset = 0
        for match in _LINE_END.finditer(text):
            self._lines.append((offset, text[start : match.start()]))
            offset += len(text[start : match.end()].encode())
            start = match.end()
        self._lines.append((offset, text[start:]))

    def offset(self, line: int, column: int) -> int | None:
        """The byte offset, or None outside of the file."""
        if not 0 <= line < len(self._lines):
            return None
        start, text = self._lines[line]
        if text.isascii():
            return start + column if column <= len(text) else None
        units = text.encode("utf-16-le")
        if column * 2 > len(units):
            return None
        return start + len(units[: column * 2].decode("utf-16-le", errors="replace").encode())
