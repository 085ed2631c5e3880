"""The summary of one Python file: everything about it that linking needs, from its path and bytes alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final

from knowing_protocol.hashing import content_hash
from tree_sitter import Node

from knowingd.extract.interface import Summary
from knowingd.extract.limits import (
    MAX_BINDINGS,
    MAX_DOC_BYTES,
    MAX_FILE_BYTES,
    MAX_SIGNATURE_BYTES,
)
from knowingd.extract.python.bindings import Binder
from knowingd.extract.python.expressions import Expressions
from knowingd.extract.python.narrowing import narrow
from knowingd.extract.python.references import References, bases_of, written_bases
from knowingd.extract.python.scopes import CLASS, FUNCTION, Binding, Scope, Scopes, annotation_text
from knowingd.extract.python.syntax import Source, decoded, first_child, parse, read

_SPACE: Final = re.compile(r"\s+")
_DOC_START: Final = re.compile(r"[rRuU]?(\"\"\"|'''|\"|')")
_NOTHING: Final = re.compile(r"(?:pass|\.\.\.|raise NotImplementedError)\b|\.\.\.")
_STRINGS: Final = re.compile(r"""(["'])([A-Za-z_]\w*)\1""")
_LIST_OF_STRINGS: Final = re.compile(r"""[\[(]\s*(?:(["'])[A-Za-z_]\w*\1\s*,?\s*|#[^\n]*\n\s*)*[\])]""")


def summarize(path: str, content: bytes) -> Summary:
    """The summary of a Python source file."""
    if len(content) > MAX_FILE_BYTES:
        return {"kind": "source", "hash": content_hash(content), "coverage": "too_large"}
    source = read(content)
    root, captures, deep = parse(source)
    coverage = "" if source.clean and not deep and not root.has_error else "partial"
    scopes = Scopes(source, captures)
    binder = Binder(scopes)
    narrow(scopes)
    expressions = Expressions(scopes)
    _collect_results(scopes)
    references = References(scopes, expressions)
    maker = _Maker(source, scopes, expressions, binder)
    made = maker.scopes_and_bindings()
    if scopes.partial and not coverage:
        coverage = "partial"
    if root.has_error and not references.found and not made["imports"] and len(scopes.all) == 1:
        coverage = "failed"  # nothing in it could be read as Python
    return {
        "kind": "source",
        "hash": content_hash(content),
        "coverage": coverage,
        "stub": int(path.endswith(".pyi")),
        **made,
        "refs": [[*key, sites] for key, sites in references.found.items()],
        "table": [part for entry in expressions.table for part in entry],
    }


def _collect_results(scopes: Scopes) -> None:
    for node in scopes.captures.get("return", ()):
        scope = scopes.all[scopes.all[scopes.at(node.start_byte)].owner]
        value = first_child(node)
        if value is not None and scope.kind == FUNCTION and value.type != "comment":
            scope.returns.append((value, node.start_byte))
    for node in scopes.captures.get("yield", ()):
        scope = scopes.all[scopes.at(node.start_byte)]
        if scope.kind == FUNCTION:
            value = first_child(node)
            everything = scopes.source.text.startswith("from", node.start_byte + 6)
            scope.yields.append((value, node.start_byte, everything))


class _Maker:
    """Turns scopes and bindings into plain data."""

    def __init__(self, source: Source, scopes: Scopes, expressions: Expressions, binder: Binder) -> None:
        self.source = source
        self.scopes = scopes
        self.expressions = expressions
        self.binder = binder

    def _line(self, position: int) -> int:
        return bisect_right(self.source.lines, position)

    def scopes_and_bindings(self) -> dict[str, Any]:
        """The parts of the summary that describe scopes, names, attributes and imports."""
        described = [self._scope(scope) for scope in self.scopes.all]
        names: dict[int, dict[str, list[Any]]] = {0: self._names(self.scopes.all[0])}
        attributes: dict[str, dict[str, list[Any]]] = {}
        for number, scope in enumerate(self.scopes.all):
            if scope.kind == CLASS:
                names[number] = self._names(scope)
                if scope.attributes:
                    attributes[str(number)] = {
                        name: [[where, *self._binding(one)] for where, one in found[:MAX_BINDINGS]]
                        + ([[0, "?"]] if len(found) > MAX_BINDINGS else [])
                        for name, found in scope.attributes.items()
                    }
        done = 0
        wanted = self.expressions.wanted
        while done < len(wanted):
            for number, name in list(wanted)[done:]:
                done += 1
                if name not in names.setdefault(number, {}):
                    bindings = self.scopes.all[number].bindings.get(name, ())
                    names[number][name] = [self._binding(one) for one in bindings]
        return {
            "scopes": described,
            "names": {str(number): found for number, found in names.items() if found},
            "attributes": attributes,
            "imports": [
                [
                    self.scopes.all[one.scope].owner,
                    one.level,
                    one.module,
                    one.name,
                    *self._place(one.position),
                    one.bound,
                ]
                for one in self.binder.imports
            ],
            "all": self._exported(),
            "variables": self._variables(),
        }

    def _place(self, position: int) -> tuple[int, int]:
        line = self._line(position)
        return line, position - self.source.lines[line - 1]

    def _names(self, scope: Scope) -> dict[str, list[Any]]:
        """What a scope binds; of a name with very many bindings, some, and that there are others."""
        named: dict[str, list[Any]] = {}
        for name, found in scope.bindings.items():
            named[name] = [self._binding(one) for one in found[:MAX_BINDINGS]]
            if len(found) > MAX_BINDINGS:
                named[name].append(["?"])
        return named

    def _binding(self, binding: Binding) -> list[Any]:
        """A binding as data; see `Binding` for the kinds. Values have become entries of the table."""
        kind, node = binding.kind, binding.node
        if kind == "=":
            number = self.expressions.of(node)
            for op in binding.ops:
                number = self.expressions.entry(number, op)
            if node is not None and not binding.ops and node.type in {"subscript", "binary_operator", "type", "string"}:
                return ["=", number, annotation_text(self.source, node) or ""]  # it may be an alias of a type
            return ["=", number]
        if kind in {"n", "e"}:
            return ["=", self.expressions.instance(node)]
        if kind == ":":
            value = self.expressions.of(node) if node is not None and len(binding.text) < 40 else -1
            written = ""
            if node is not None and node.type in {"subscript", "binary_operator", "string"} and not binding.more:
                written = annotation_text(self.source, node) or ""
            return [":", binding.text, binding.number, binding.more, value, written]
        if kind in {"d", "c"}:
            return [kind, binding.number]
        if kind == "i":
            return ["i", binding.number, binding.text, binding.more]
        if kind == "p":
            value = self.expressions.of(node) if node is not None else -1
            return ["p", binding.number, binding.text, value]
        if kind in {"s", "k"}:
            return [kind, binding.number, binding.text]
        return ["?"]

    def _scope(self, scope: Scope) -> list[Any]:
        """Kind, name, qualified name, parent, lines, signature, doc, flags, decorators, annotation,
        results, bases, types.
        """
        if scope.kind not in {CLASS, FUNCTION} or scope.node is None:
            return [scope.kind, scope.parent]
        of = self.expressions.of
        text = self.source.text
        body_start = scope.body.start_byte if scope.body is not None else scope.end
        signature = text[scope.start : min(body_start, scope.start + MAX_SIGNATURE_BYTES)].rstrip()
        if "\n" in signature or "#" in signature:
            signature = _SPACE.sub(" ", signature).partition(" #")[0].rstrip()
        flags = scope.level
        annotation = None
        if scope.kind == FUNCTION:
            annotation = annotation_text(self.source, scope.node.child_by_field_name("return_type"))
            if text.startswith("async", scope.start):
                flags += "a"
            if not scope.returns and not scope.yields and self._does_nothing(scope):
                flags += "e"
        yields = [(of(node), everything) for node, _, everything in scope.yields[:MAX_BINDINGS]] if scope.yields else []
        return [
            scope.kind,
            scope.parent,
            scope.name,
            scope.qualified,
            self._line(scope.start),
            self._line(max(scope.end - 1, scope.start)),
            decoded(signature.removesuffix(":").rstrip()),
            self._doc(scope),
            flags,
            [[self.scopes.decorator_name(one), of(first_child(one))] for one in scope.decorators],
            annotation,
            list(dict.fromkeys(of(node) for node, _ in scope.returns[:MAX_BINDINGS])),
            [self.expressions.entry(one, "*") if everything else one for one, everything in yields],
            [of(one) for one in bases_of(scope.node)] if scope.kind == CLASS else [],
            self._generic_bases(scope.node) if scope.kind == CLASS else scope.annotations,
        ]

    def _generic_bases(self, node: Node) -> list[str]:
        """Bases with arguments, as they are written: what a list of something holds."""
        found = [annotation_text(self.source, one) for one in written_bases(node) if one.type == "subscript"]
        return [one for one in found if one]

    def _does_nothing(self, scope: Scope) -> bool:
        if scope.body is None:
            return True
        first = scope.body.start_byte
        if _DOC_START.match(self.source.text, first):
            children = scope.body.named_children
            if len(children) == 1:
                return True
            first = children[1].start_byte
        return _NOTHING.match(self.source.text, first) is not None

    def _doc(self, scope: Scope) -> str:
        if scope.body is None:
            return ""
        match = _DOC_START.match(self.source.text, scope.body.start_byte)
        if match is None:
            return ""
        end = self.source.text.find(match[1], match.end())
        raw = decoded(
            self.source.text[match.end() : min(end, match.end() + MAX_DOC_BYTES) if end >= 0 else match.end()]
        )
        lines = [line.strip() for line in raw.strip().split("\n")]
        return "\n".join(lines)

    def _exported(self) -> list[str] | None:
        """The names in `__all__`, or None where it is not a list of literals."""
        if not self.binder.exported:
            return None
        names: list[str] = []
        for node in self.binder.exported:
            if node.type not in {"list", "tuple", "expression_list"}:
                return None
            text = decoded(self.source.text[node.start_byte : node.end_byte])
            names += [match[2] for match in _STRINGS.finditer(text)]
        return list(dict.fromkeys(names))

    def _variables(self) -> list[list[Any]]:
        """Where variables of the module and attributes of classes are declared."""
        found: list[list[Any]] = []
        for number, scope in enumerate(self.scopes.all):
            if scope.kind in {FUNCTION, "i"}:
                continue
            for name, bindings in scope.bindings.items():
                found += [self._variable(number, name, one) for one in bindings if one.kind in {"=", ":", "?", "e"}]
            for name, set_in in scope.attributes.items():
                found += [self._variable(number, name, one) for _, one in set_in]
        return found

    def _variable(self, scope: int, name: str, binding: Binding) -> list[Any]:
        end = binding.position
        last = self._line(max(end - 1, 0))
        first = self._line(binding.node.start_byte) if binding.node is not None else last
        start = self.source.lines[min(first, last) - 1]
        text = self.source.text[start : min(end, start + MAX_SIGNATURE_BYTES)]
        return [scope, name, min(first, last), last, decoded(text.partition("\n")[0].strip())]
