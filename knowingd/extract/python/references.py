"""Every place of a file where something is used: calls, names that are read, types, bases, decorators, exceptions.

A reference is (scope whose symbol uses it, code, entry of the table of expressions) with all its sites. Codes: `c` a
call and `r` a read of a dotted name, whose site is that of its first name; `C` and `R` the same of any other
expression, at the last name; `t` a type in an annotation, `b` a base, `d` a decorator, `x` an exception that is raised.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from tree_sitter import Node

from knowingd.extract.python.expressions import Expressions
from knowingd.extract.python.scopes import CLASS, FUNCTION, Scopes
from knowingd.extract.python.syntax import CHAIN, Regions, first_child, word

_QUOTED: Final = re.compile(r"""(["'])((?:(?!\1).)*)\1""")
_PLAIN: Final = frozenset("=?:eskp")  # bindings that make a name a mere variable


class References:
    """Collects the references of one file."""

    def __init__(self, scopes: Scopes, expressions: Expressions) -> None:
        self.scopes = scopes
        self.expressions = expressions
        self.text = scopes.source.text
        self.lines = scopes.source.lines
        self.found: dict[tuple[int, str, int], list[int]] = {}
        captures = scopes.captures
        types = captures.get("type", ())
        self.types = Regions(((node.start_byte, node.end_byte, 1) for node in types), 0) if types else None
        headers = [
            (scope.start, scope.body.start_byte, number)
            for number, scope in enumerate(scopes.all)
            if types and scope.kind == FUNCTION and scope.body is not None
        ]
        self.headers = Regions(headers, -1)
        self._definitions()
        self._calls(captures)
        self._raises(captures.get("raise", ()))
        self._heads(captures.get("head", ()))
        self._reads(captures.get("read", ()))
        for node in types:
            self._quoted(node)

    def _add(self, owner: int, code: str, number: int, position: int, arity: int = -1) -> None:
        line = bisect_right(self.lines, position)
        self.found.setdefault((owner, code, number), []).extend((line, position - self.lines[line - 1], arity))

    def _last_name(self, node: Node) -> int:
        """Where the last name of an expression starts, and the expression itself where it has none."""
        for _ in range(8):
            if node.type == "attribute":
                return (node.child_by_field_name("attribute") or node).start_byte
            inside = None
            if node.type in {"subscript", "generic_type"}:
                inside = node.child_by_field_name("value") or first_child(node)
            elif node.type == "call":
                inside = node.child_by_field_name("function")
            elif node.type == "parenthesized_expression":
                inside = first_child(node)
            if inside is None:
                break
            node = inside
        return node.start_byte

    def _definitions(self) -> None:
        expressions = self.expressions
        for number, scope in enumerate(self.scopes.all):
            for decorator in scope.decorators:
                value = first_child(decorator)
                if value is not None:
                    if value.type == "call":
                        value = value.child_by_field_name("function") or value
                    else:
                        self.expressions.consumed.add(value.start_byte)
                    self._add(number, "d", expressions.of(value), self._last_name(value))
            if scope.kind == CLASS and scope.node is not None:
                for base in bases_of(scope.node):
                    if base.type != "call":
                        expressions.consumed.add(base.start_byte)
                        self._add(number, "b", expressions.of(base), self._last_name(base))

    def _calls(self, captures: dict[str, list[Node]]) -> None:
        """The hot loop: most callees are dotted names, which need nothing but their text."""
        text, lines, found = self.text, self.lines, self.found
        scopes, expressions = self.scopes, self.expressions
        starts, labels, owners = scopes.regions.starts, scopes.regions.labels, [one.owner for one in scopes.all]
        consumed, chains, fullmatch = expressions.consumed, expressions._chains, CHAIN.fullmatch  # noqa: SLF001
        splats = {node.parent.start_byte for node in captures.get("splat", ()) if node.parent is not None}
        arities = {node.start_byte: node.named_child_count for node in captures.get("arguments", ())}
        for start in splats:
            arities[start] = -1
        for node in captures.get("callee", ()):
            start, end = node.start_byte, node.end_byte
            callee = text[start:end] if end - start < 200 else ""
            arity = arities.get(end, 1)
            if fullmatch(callee):
                consumed.add(start)
                scope = labels[bisect_right(starts, start) - 1]
                number = chains.get((scope, callee))
                if number is None:
                    if callee == "super":
                        continue
                    number = expressions.chain(callee, scope, start)
                line = bisect_right(lines, start)
                key = (owners[scope], "c", number)
                sites = found.get(key)
                if sites is None:
                    found[key] = [line, start - lines[line - 1], arity]
                else:
                    sites += (line, start - lines[line - 1], arity)
            else:
                number = expressions.of(node)
                # What a call or subscript gives has no name of its own: its place is where it ends.
                position = self._last_name(node) if node.type == "attribute" else end
                self._add(owners[scopes.at(start)], "C", number, position, arity)

    def _raises(self, nodes: list[Node] | tuple[Node, ...]) -> None:
        for node in nodes:
            value = first_child(node)
            if value is None:
                continue
            if value.type == "call":
                value = value.child_by_field_name("function") or value
            elif value.type in {"identifier", "attribute"}:
                if self._is_variable(value):
                    continue
                self.expressions.consumed.add(value.start_byte)
            else:
                continue
            owner = self.scopes.all[self.scopes.at(node.start_byte)].owner
            self._add(owner, "x", self.expressions.of(value), self._last_name(value))

    def _is_variable(self, node: Node) -> bool:
        """Whether an expression starts at a local variable, which is no exception class."""
        match = CHAIN.match(self.text, node.start_byte)
        if match is None:
            return True
        name = match[0].partition(".")[0]
        scope = self.scopes.at(node.start_byte)
        home = self.scopes.home(scope, name)
        bindings = self.scopes.all[home].bindings.get(name, ())
        return home != 0 and all(one.kind in _PLAIN for one in bindings)

    def _owner(self, position: int, scope: int) -> tuple[int, str]:
        """Whose reference it is; a type belongs to the function in whose signature it stands."""
        if self.types is not None and self.types.at(position):
            header = self.headers.at(position)
            return (header if header >= 0 else self.scopes.all[scope].owner), "t"
        return self.scopes.all[scope].owner, "r"

    def _heads(self, nodes: list[Node] | tuple[Node, ...]) -> None:
        consumed, chain, match = self.expressions.consumed, self.expressions.chain, CHAIN.match
        text, lines, at, found = self.text, self.lines, self.scopes.at, self.found
        for node in nodes:
            start = node.start_byte
            if start in consumed:
                continue
            consumed.add(start)
            chained = match(text, start)
            if chained is None:
                continue
            scope = at(start)
            owner, code = self._owner(start, scope)
            number = chain(chained[0], scope, start)
            line = bisect_right(lines, start)
            found.setdefault((owner, code, number), []).extend((line, start - lines[line - 1], -1))

    def _reads(self, nodes: list[Node] | tuple[Node, ...]) -> None:
        """Bare names. Reading a mere local variable is no reference to anything."""
        variables: set[str] = set()
        others: set[str] = set(self.scopes.all[0].bindings)
        for number, each in enumerate(self.scopes.all):
            for name, bindings in each.bindings.items():
                if number and all(one.kind in _PLAIN for one in bindings):
                    variables.add(name)
                else:
                    others.add(name)
        variables -= others
        text, consumed, at, home = self.text, self.expressions.consumed, self.scopes.at, self.scopes.home
        all_scopes = self.scopes.all
        for node in nodes:
            start = node.start_byte
            name = text[start : node.end_byte]
            if name in variables or start in consumed:
                continue
            if not name.isascii():
                name = word(name)
            consumed.add(start)
            scope = at(start)
            where = home(scope, name)
            if where and all(one.kind in _PLAIN for one in all_scopes[where].bindings[name]):
                continue
            owner, code = self._owner(start, scope)
            self._add(owner, code, self.expressions.chain(name, scope, start), start)

    def _quoted(self, node: Node) -> None:
        """Names inside of annotations that are written as strings."""
        start, end = node.start_byte, node.end_byte
        written = self.text[start : min(end, start + 400)]
        if ('"' not in written and "'" not in written) or "Literal" in written:
            return
        scope = self.scopes.at(start)
        owner, _ = self._owner(start, scope)
        for quoted in _QUOTED.finditer(written):
            for name in CHAIN.finditer(quoted[2]):
                position = start + quoted.start(2) + name.start()
                self._add(owner, "t", self.expressions.chain(name[0], scope, position), position)


def written_bases(node: Node) -> list[Node]:
    """The bases of a class, with their own arguments."""
    arguments = node.child_by_field_name("superclasses")
    if arguments is None:
        return []
    skipped = {"keyword_argument", "comment", "list_splat", "dictionary_splat"}
    return [one for one in arguments.named_children if one.type not in skipped]


def bases_of(node: Node) -> list[Node]:
    """The expressions that a class names as its bases."""
    bases = written_bases(node)
    return [(one.child_by_field_name("value") or one) if one.type == "subscript" else one for one in bases]
