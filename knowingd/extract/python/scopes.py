"""The scopes of a file, and what is bound in each: by definitions, imports, parameters, assignments and the rest.

Promises: a name is looked for as Python does (the class scope is not seen from functions inside, comprehensions and
lambdas have their own names, `global` and `nonlocal` are obeyed). Bindings keep the nodes they came from; turning them
into expressions is left to whoever needs one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tree_sitter import Node

from knowingd.extract.limits import MAX_ANNOTATION_BYTES, MAX_DEPTH, MAX_QUALIFIED_BYTES, MAX_SCOPES
from knowingd.extract.python.syntax import Regions, Source, decoded, first_child, word

MODULE: Final = "m"
CLASS: Final = "c"
FUNCTION: Final = "f"
INNER: Final = "i"  # lambdas and comprehensions: names of their own, but no symbol

_PLAIN_PARAMETERS: Final = re.compile(r"\(\s*(?:[A-Za-z_]\w*\s*(?:,\s*[A-Za-z_]\w*\s*)*,?\s*)?\)", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_IMPLICIT_CLASS_LEVEL: Final = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})


class Binding(NamedTuple):
    """One way in which a name gets a value.

    `kind`: `=` the value of `node` after `ops`; `:` declared with the annotation `text`; `d`, `c` the definition of
    scope `number`; `i` an import of `text` (level `number`) and, if not empty, the name `more` in it; `s`, `k` the
    first parameter of a method or class method of class `number`; `p` another parameter (`text`) of the method of scope
    `number`, which a base may declare, with the default `node`; `n` the same value as before, now known to be
    `node`; `?` something unknown.
    """

    position: int
    kind: str
    node: Node | None = None
    ops: tuple[str, ...] = ()
    text: str = ""
    more: str = ""
    number: int = 0
    ends: int = 0  # where a narrowing stops to hold


@dataclass(slots=True)
class Scope:
    """A module, class, function, or the inside of a lambda or comprehension."""

    kind: str
    name: str
    qualified: str
    parent: int
    owner: int  # the innermost scope around it that is a symbol (itself, unless it is INNER)
    start: int
    end: int
    node: Node | None = None
    body: Node | None = None
    method_of: int = -1  # the class that a function is a method of
    level: str = ""  # of a method: "s" static, "k" class, "i" instance
    decorators: list[Node] = field(default_factory=list)
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    attributes: dict[str, list[tuple[int, Binding]]] = field(default_factory=dict)  # of a class: set on self in a scope
    elsewhere: dict[str, bool] = field(default_factory=dict)  # global (True) and nonlocal (False) names
    first: str = ""  # name of the first parameter
    annotations: dict[str, str] = field(default_factory=dict)  # of the parameters of a method
    returns: list[tuple[Node, int]] = field(default_factory=list)
    yields: list[tuple[Node | None, int, bool]] = field(default_factory=list)


class Scopes:
    """All scopes of one file."""

    def __init__(self, source: Source, captures: dict[str, list[Node]]) -> None:
        self.source = source
        self.captures = captures
        self.partial = False
        self.all: list[Scope] = [Scope(MODULE, "", "", -1, 0, 0, len(source.content))]
        self._homes: dict[tuple[int, str], int] = {}
        decorators = self._decorators()
        found = [(node.start_byte, -node.end_byte, index, node) for index, node in enumerate(captures.get("def", ()))]
        inner = captures.get("lambda", []) + captures.get("comprehension", [])
        found += [(node.start_byte, -node.end_byte, -1, node) for node in inner]
        found.sort(key=lambda one: one[:3])
        if len(found) > MAX_SCOPES:
            self.partial = True
            del found[MAX_SCOPES:]
        intervals: list[tuple[int, int, int]] = []
        stack = [0]
        for start, negative_end, index, node in found:
            end = -negative_end
            while stack[-1] and self.all[stack[-1]].end <= start:
                stack.pop()
            parent = stack[-1]
            if len(stack) > MAX_DEPTH:
                self.partial = True
                continue
            number = len(self.all)
            if index >= 0:
                scope = self._definition(node, parent, start, end, decorators)
                if scope is None:
                    continue
                if scope.body is not None:
                    intervals.append((scope.body.start_byte, end, number))
                scope.owner = number
                self.all.append(scope)
            else:
                self.all.append(Scope(INNER, "", "", parent, self.all[parent].owner, start, end, node))
                intervals += self._inner_intervals(node, number, parent)
            stack.append(number)
        self.regions = Regions(intervals, 0)

    def _decorators(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in self.captures.get("decorated", ()):
            definition = node.child_by_field_name("definition")
            if definition is not None:
                found[definition.start_byte] = [one for one in node.named_children if one.type == "decorator"]
        return found

    def _definition(
        self, node: Node, parent: int, start: int, end: int, decorators: dict[int, list[Node]]
    ) -> Scope | None:
        named = node.child_by_field_name("name")
        if named is None:
            return None
        text = self.source.text
        name = word(text[named.start_byte : named.end_byte])
        outer = self.all[self.all[parent].owner]
        kind = CLASS if text.startswith("class", start) else FUNCTION
        if outer.kind == MODULE:
            qualified = name
        else:
            qualified = f"{outer.qualified}.{name}" if outer.kind == CLASS else f"{outer.qualified}.<locals>.{name}"
        if not name or len(qualified) > MAX_QUALIFIED_BYTES:
            self.partial = True
            return None
        scope = Scope(kind, name, qualified, parent, 0, start, end, node, node.child_by_field_name("body"))
        scope.decorators = decorators.get(start, [])
        if kind == FUNCTION and self.all[parent].kind == CLASS:
            scope.method_of = parent
            scope.level = "k" if name in _IMPLICIT_CLASS_LEVEL else "i"
            for mark in [self.decorator_name(one) for one in scope.decorators]:
                scope.level = {"staticmethod": "s", "classmethod": "k"}.get(mark, scope.level)
        return scope

    def decorator_name(self, decorator: Node) -> str:
        """The last name of a decorator, without its arguments."""
        text = self.source.text[decorator.start_byte + 1 : min(decorator.end_byte, decorator.start_byte + 200)]
        return text.partition("(")[0].strip().rpartition(".")[2]

    def _inner_intervals(self, node: Node, number: int, parent: int) -> Iterator[tuple[int, int, int]]:
        if node.type == "lambda":
            body = node.child_by_field_name("body")
            if body is not None:
                yield body.start_byte, node.end_byte, number
            return
        yield node.start_byte, node.end_byte, number
        for child in node.named_children:
            if child.type == "for_in_clause":
                # The first iterable is evaluated outside.
                right = child.child_by_field_name("right")
                if right is not None:
                    yield right.start_byte, right.end_byte, parent
                return

    def at(self, position: int) -> int:
        """The scope whose names are seen at a position."""
        return self.regions.at(position)

    def home(self, scope: int, name: str) -> int:
        """The scope in which a name, read in a scope, is bound; the module where it is bound nowhere."""
        key = (scope, name)
        found = self._homes.get(key)
        if found is None:
            found = self._homes[key] = self._home(scope, name)
        return found

    def _home(self, scope: int, name: str) -> int:
        number = scope
        skip_nonlocal = False
        while number > 0:
            current = self.all[number]
            if current.kind != CLASS or number == scope:
                declared = current.elsewhere.get(name)
                if declared is True:
                    return 0
                if declared is False:
                    skip_nonlocal = True
                elif name in current.bindings and not (skip_nonlocal and number == scope):
                    return number
            number = current.parent
        return 0

    def bind(self, scope: int, name: str, binding: Binding) -> None:
        """Bind a name where Python would: `global` and `nonlocal` send it elsewhere."""
        if not name:
            self.partial = True
            return
        current = self.all[scope]
        if current.elsewhere:
            declared = current.elsewhere.get(name)
            if declared is True:
                current = self.all[0]
            elif declared is False:
                number = current.parent
                while number > 0 and (self.all[number].kind == CLASS or name not in self.all[number].bindings):
                    number = self.all[number].parent
                current = self.all[number] if number > 0 else current
        current.bindings.setdefault(name, []).append(binding)


def bind_parameters(scopes: Scopes) -> None:
    """Bind the parameters of every function and lambda."""
    for number, scope in enumerate(scopes.all):
        if scope.node is None or scope.kind == CLASS or (scope.kind == INNER and scope.node.type != "lambda"):
            continue
        parameters = scope.node.child_by_field_name("parameters")
        if parameters is None:
            continue
        text = scopes.source.text[parameters.start_byte : parameters.end_byte]
        if scope.kind == FUNCTION and len(text) < 2000 and _PLAIN_PARAMETERS.fullmatch(text):
            for index, name in enumerate(_NAME.findall(text)):
                _bind_parameter(scope, number, index, name, None, None, "")
        else:
            _bind_each(scopes, scope, number, parameters)


def _bind_each(scopes: Scopes, scope: Scope, number: int, parameters: Node) -> None:
    text = scopes.source.text
    children = [one for one in parameters.named_children if one.type != "comment"]
    for index, child in enumerate(children):
        annotation = child.child_by_field_name("type")
        value = child.child_by_field_name("value")
        named: Node | None = child.child_by_field_name("name") or child
        wrap = ""
        if child.type in {"typed_parameter", "list_splat_pattern", "dictionary_splat_pattern"}:
            inside = child if child.type != "typed_parameter" else first_child(child)
            named = inside
            if inside is not None and inside.type in {"list_splat_pattern", "dictionary_splat_pattern"}:
                wrap = "*" if inside.type == "list_splat_pattern" else "**"
                named = first_child(inside)
        if named is not None and named.type == "identifier":
            name = word(text[named.start_byte : named.end_byte])
            written = annotation_text(scopes.source, annotation)
            _bind_parameter(scope, number, index, name, value, written, wrap)
        elif named is not None and named.type == "tuple_pattern":
            for one in named.named_children:
                if one.type == "identifier":
                    _bind_parameter(scope, number, 1, word(text[one.start_byte : one.end_byte]), None, None, "")


def annotation_text(source: Source, node: Node | None) -> str | None:
    """The text of an annotation, if it is not absurdly long."""
    if node is None or node.end_byte - node.start_byte > MAX_ANNOTATION_BYTES:
        return None
    return decoded(source.text[node.start_byte : node.end_byte])


def _bind_parameter(
    scope: Scope, number: int, index: int, name: str, value: Node | None, written: str | None, wrap: str
) -> None:
    if not name:
        return
    bound = scope.bindings.setdefault(name, [])
    if index == 0 and not wrap:
        scope.first = name
        if scope.level in {"i", "k"}:
            bound.append(Binding(0, "s" if scope.level == "i" else "k", number=scope.method_of, text=written or ""))
            return
    if written is not None:
        if scope.method_of >= 0:
            scope.annotations[name] = written
        bound.append(Binding(0, ":", text=written, more=wrap, number=scope.parent))
    elif wrap:
        bound.append(Binding(0, ":", text="object", more=wrap, number=scope.parent))
    elif scope.method_of >= 0:
        bound.append(Binding(0, "p", node=value, text=name, number=number))
    elif value is not None:
        bound.append(Binding(0, "=", node=value))  # a guess, as good as the default is
    else:
        bound.append(Binding(0, "?"))
