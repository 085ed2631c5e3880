"""The linker: the records of one unit, out of the summaries of the tree.

Promises: records of different units are disjoint but for phantoms; every name that was looked up elsewhere is in
`visited`. Nothing depends on which units were linked before.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, Final

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.hashing import NodeId, edge_hash, external, external_hash
from knowing_protocol.paths import CALL, WILDCARD, Head, Path, format_path, parse_path
from knowing_protocol.records import Alias, Declaration, Edge, Facts, File, LocalType, Member, Records, Site, TypeRef
from knowing_protocol.vocabulary import Coverage

from knowingd.extract.interface import Linked, View
from knowingd.extract.limits import MAX_HOPS, MAX_STARS, MAX_TYPES
from knowingd.extract.python import tables
from knowingd.extract.python.evaluate import Evaluator
from knowingd.extract.python.meaning import CUT, INFERRED, NOTHING, UNKNOWN, Meaning, Value
from knowingd.extract.python.modules import MANIFEST_UNIT
from knowingd.extract.python.tree import (
    ANNOTATION,
    DECORATORS,
    DOC,
    END_LINE,
    KIND,
    LINE,
    QUALIFIED,
    RETURNS,
    SIGNATURE,
    YIELDS,
    SourceFile,
    Tree,
    Unit,
)

_RESOLVED: Final = "ast_resolved"
_INFERRED: Final = "ast_inferred"
_EDGE_OF_CODE: Final = {
    "c": "calls",
    "C": "calls",
    "r": "references",
    "R": "references",
    "t": "type_hint_of",
    "b": "extends",
    "d": "decorates",
    "x": "throws",
}
_MISPLACED: Final = re.compile(r"^[.(]|\.$|\.[.(]|\)\w")
_NO_FACTS: Final = Facts()
_STACK: Final = 20_000  # frames; long chains through many hops nest deeply, each hop a little
_new: Final = tuple.__new__  # a third of the time of calling the class, for the records that are many
Target = tuple[bytes, str, str, int]  # node, edge type, provenance, bytes from the first name to the named one


class PythonLinker:
    """Links the units of one tree."""

    def __init__(self, repo: str, view: View) -> None:
        self.repo = repo
        self.tree = Tree(repo, view)
        self.evaluator = Evaluator(self.tree)
        self._phantoms: dict[str, tuple[bytes, NodeId] | None] = {}

    def link(self, unit: str) -> Linked:
        """All records of a unit."""
        if unit.startswith(MANIFEST_UNIT):
            return self._manifest(unit.removeprefix(MANIFEST_UNIT))
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _STACK))
        try:
            return _UnitLinker(self, self.tree.unit(unit)).link()
        finally:
            sys.setrecursionlimit(limit)

    def _manifest(self, path: str) -> Linked:
        """A manifest acts through the roots; all it contributes is that it was read."""
        summary = self.tree.view.summary(path)
        coverage = {path: Coverage(summary["coverage"])} if summary["coverage"] else {}
        return Linked(Records(files=[File(path, summary["hash"])], coverage=coverage))

    def phantom(self, path: str) -> tuple[bytes, NodeId] | None:
        """The phantom of a path, or None if it cannot be written."""
        if path not in self._phantoms:
            try:
                text = _canonical(path)
                self._phantoms[path] = (external_hash(text), external(text))
            except InvalidNameError:
                self._phantoms[path] = None
        return self._phantoms[path]


def _canonical(path: str) -> str:
    """The one spelling of a path. Plain names need no escapes; the rest goes through the kernel's own writer."""
    text = f"python://{path}"
    if path.isascii() and path.replace(".", "").replace("()", "").replace("_", "").isalnum():
        if len(text) >= 4000 or path.count(".") + path.count("()") > 60 or _MISPLACED.search(path) is not None:
            parse_path(text)  # says what is wrong with it
        return text
    if path.startswith("{"):
        inside, _, tail = path[1:].partition("}")
        heads = tuple(Head(*_split(one)) for one in inside.split("|"))
        return format_path(Path("python", heads, _steps(tail)))
    module, steps = _split(path)
    return format_path(Path("python", (Head(module),), steps))


def _split(path: str) -> tuple[str, tuple[Any, ...]]:
    module, marker, rest = path.partition(".")
    if "(" in module:
        module, rest, marker = path.partition("(")[0], path[path.index("(") :], ""
    return module, _steps(marker + rest)


def _steps(text: str) -> tuple[Any, ...]:
    pieces = text.replace("()", ".()").split(".")[1:]
    return tuple(CALL if one == "()" else WILDCARD if one == "*" else one for one in pieces)


class _UnitLinker:
    """The work of one link."""

    def __init__(self, linker: PythonLinker, unit: Unit) -> None:
        self.linker = linker
        self.tree = linker.tree
        self.evaluator = linker.evaluator
        self.unit = unit
        self.records = Records()
        self.nodes: dict[bytes, NodeId] = {}
        self.edges: dict[tuple[bytes, bytes, str, str], bytes | None] = {}
        self.is_test = is_test(unit.package)

    def link(self) -> Linked:
        """Everything that the unit contributes."""
        self.evaluator.deps = {"\0roots"}
        unit = self.unit
        module = unit.hash("")
        kind = "file" if unit.files else "package"
        self.nodes[module] = NodeId(unit.repo, unit.package, "", kind)
        self._symbols(module)
        self._publish(module)
        for file in unit.files:
            self._file(file)
        self.records.nodes = list(self.nodes.values())
        self.records.edges = [_new(Edge, key) for key in self.edges]
        own = f"{unit.package}\0"
        visited = frozenset(key for key in self.evaluator.deps if not key.startswith(own) or key.startswith("\0"))
        return Linked(self.records, visited)

    # Symbols

    def _symbols(self, module: bytes) -> None:
        unit = self.unit
        for qualified, kind in unit.kinds.items():
            key = unit.hash(qualified)
            self.nodes[key] = NodeId(unit.repo, unit.package, qualified, kind)
            parent, _, _ = qualified.rpartition(".")
            parent = parent.removesuffix(".<locals>")
            owner = unit.hash(parent) if parent in unit.kinds else module
            self._bare_edge(owner, key, "contains")
            if unit.kinds.get(parent) == "type" and not qualified.startswith(f"{parent}.<locals>"):
                self._bare_edge(key, owner, "member_of")
                self.records.members.append(Member(owner, qualified.rpartition(".")[2], key))
            facts = self._facts(qualified, kind)
            if facts != _NO_FACTS:
                self.records.facts[key] = facts
            if kind == "type":
                self._imported_members(qualified, key)
            elif kind == "method":
                self._overrides(qualified, key, parent)

    def _imported_members(self, qualified: str, key: bytes) -> None:
        """Names that a class body binds by importing, or by a second name for a method."""
        for file, number in self.unit.declared[qualified]:
            for name, bindings in file.names.get(number, {}).items():
                if f"{qualified}.{name}" not in self.unit.kinds:
                    for binding in bindings:
                        if binding[0] == "i":
                            meaning = self.evaluator.imported(self.unit, binding[1], binding[2], binding[3], MAX_HOPS)
                            for target in self._targets_of(meaning):
                                self.records.members.append(Member(key, name, target))

    def _overrides(self, qualified: str, key: bytes, owner: str) -> None:
        name = qualified.rpartition(".")[2]
        order = self.evaluator.order(self.unit.package, owner, MAX_HOPS)
        for base in order.values[1:]:
            if base[0] != "C":
                return
            other = self.tree.unit(base[1])
            self.evaluator.visit(base[1], base[2], name)
            if other.kinds.get(f"{base[2]}.{name}") == "method":
                self._bare_edge(key, other.hash(f"{base[2]}.{name}"), "overrides")
                if self._is_abstract(other, f"{base[2]}.{name}"):
                    self._bare_edge(key, other.hash(f"{base[2]}.{name}"), "implements")
                return

    def _is_abstract(self, unit: Unit, qualified: str) -> bool:
        self.evaluator.visit(unit.package, qualified, "()")
        return any(
            name.startswith("abstract")
            for file, number in unit.declared.get(qualified, ())
            for name, _ in file.scopes[number][DECORATORS]
        )

    def _facts(self, qualified: str, kind: str) -> Facts:
        evaluator, package = self.evaluator, self.unit.package
        if kind == "type":
            bases = evaluator.bases(self.unit, qualified, MAX_HOPS)
            found = [self._type(one) for one in bases.values if one[0] != "?"]
            partial: tuple[str, ...] = ("bases",) if len(found) != len(bases.values) or None in found else ()
            return Facts(bases=tuple(one for one in found if one is not None)[:MAX_TYPES], partial=partial)
        if kind in {"function", "method"}:
            if self._returns_nothing(qualified):
                return _NO_FACTS
            meaning = evaluator.result_of(package, qualified)
            if evaluator.is_property(("F", package, qualified, None)):
                types, partial = self._types(meaning, "types")
                return Facts(types=types, partial=partial)
            types, partial = self._types(meaning, "returns")
            return Facts(returns=types, partial=partial)
        owner, _, name = qualified.rpartition(".")
        types, partial = self._types(evaluator.variable(("V", package, owner, name, None), MAX_HOPS), "types")
        return Facts(types=types, partial=partial)

    def _returns_nothing(self, qualified: str) -> bool:
        """The short way for most functions of most programs."""
        return all(
            not scope[RETURNS] and scope[ANNOTATION] is None and not scope[YIELDS]
            for scope in (file.scopes[number] for file, number in self.unit.declared.get(qualified, ()))
        )

    def _types(self, meaning: Meaning, what: str) -> tuple[tuple[TypeRef, ...], tuple[str, ...]]:
        found: list[TypeRef] = []
        missing = bool(meaning.flags & (UNKNOWN | CUT))
        for value in meaning.values:
            one = None
            if value[0] == "I":
                one = self._type(("C", *value[1:]))
            elif value[0] == "X" and value[1].endswith("()"):
                one = self._type(("X", value[1][:-2]))
            elif value[0] == "B":
                one = self._type(("X", value[1]))
            if one is None:
                missing = True
            else:
                found.append(one)
        return tuple(found[:MAX_TYPES]), (what,) if missing and found else ()

    def _type(self, value: Value) -> TypeRef | None:
        if value[0] == "C":
            unit = self.tree.unit(value[1])
            kind = unit.kinds.get(value[2])
            return LocalType(value[1], value[2], kind) if kind == "type" else None
        phantom = self.linker.phantom(value[1])
        return phantom[1].name if phantom is not None else None

    # Names

    def _publish(self, module: bytes) -> None:
        unit, evaluator = self.unit, self.evaluator
        names = self.tree.modules.names(unit.package)
        bound: dict[str, set[bytes]] = {}
        for file in unit.files:
            for name in file.names.get(0, {}):
                if name not in bound:
                    bound[name] = set(self._targets_of(evaluator.module_name(unit, name, MAX_HOPS)))
        for star in evaluator.stars(unit) if unit.files else ():
            if star[0] == "M":
                for name in self._exported(star[1], MAX_HOPS):
                    if name not in bound and evaluator.exports(self.tree.unit(star[1]), name):
                        bound[name] = set(self._targets_of(evaluator.module_name(unit, name, MAX_HOPS)))
        for name, targets in bound.items():
            for target in sorted(targets):
                self.records.members.append(Member(module, name, target))
                for dotted, claimed in names:
                    self._alias(f"{dotted}.{name}", target, claimed=claimed)
        parent, _, last = unit.package.rpartition("/")
        hidden = self._hidden_by_parent(parent, last)
        if not hidden:
            if parent in self.tree.modules.units and unit.package:
                owner = self.tree.unit(parent).hash("")
                self.records.members.append(Member(owner, last, module))
            for dotted, claimed in names:
                self._alias(dotted, module, claimed=claimed)
        outer = evaluator.outer_stars(unit, MAX_HOPS) if unit.files else []
        stars = [found[1].name for one in outer[:MAX_STARS] if (found := self.linker.phantom(one)) is not None]
        if stars:
            self.records.facts[module] = Facts(stars=tuple(stars))

    def _hidden_by_parent(self, parent: str, last: str) -> bool:
        """An attribute of a package goes before its submodule, and is the package's to publish."""
        if parent not in self.tree.modules.units or not self.unit.package:
            self.evaluator.deps.add(f"@{parent}")
            return False
        self.evaluator.deps.add(f"@{parent}")
        found = self.evaluator.module_name(self.tree.unit(parent), last, MAX_HOPS)
        return bool(self._targets_of(found))

    def _exported(self, package: str, hops: int) -> list[str]:
        """The names that a star import of a module of this repository can bring."""
        unit = self.tree.unit(package)
        self.evaluator.visit(package, "", "*")
        found = [name for file in unit.files for name in file.names.get(0, {})]
        if hops > 0:
            for star in self.evaluator.stars(unit) if unit.files else ():
                if star[0] == "M" and star[1] != package:
                    found += self._exported(star[1], hops - 1)
        return list(dict.fromkeys(found))

    def _alias(self, dotted: str, target: bytes, *, claimed: bool) -> None:
        phantom = self.linker.phantom(dotted)
        if phantom is not None:
            self.records.aliases.append(Alias(phantom[1].name, target, claimed))

    def _targets_of(self, meaning: Meaning | None) -> list[bytes]:
        found: list[bytes] = []
        for value in meaning.values if meaning is not None else ():
            target = self._node(value)
            if target is not None:
                found.append(target)
        return found

    def _node(self, value: Value) -> bytes | None:
        """The node of a symbol; phantoms are contributed on the way."""
        kind = value[0]
        if kind == "X":
            phantom = self.linker.phantom(value[1])
            if phantom is None:
                return None
            self.nodes[phantom[0]] = phantom[1]
            return phantom[0]
        if kind == "M":
            return self.tree.unit(value[1]).hash("")
        if kind in {"C", "F", "V"}:
            unit = self.tree.unit(value[1])
            qualified = f"{value[2]}.{value[3]}" if kind == "V" and value[2] else value[3] if kind == "V" else value[2]
            return unit.hash(qualified) if qualified in unit.kinds else None
        return None

    # References

    def _edge(self, source: bytes, target: bytes, edge_type: str, provenance: str) -> bytes:
        key = (source, target, edge_type, provenance)
        found = self.edges.get(key)
        if found is None:
            found = self.edges[key] = edge_hash(*key)
        return found

    def _bare_edge(self, source: bytes, target: bytes, edge_type: str) -> None:
        """An edge that has no sites, so that nobody asks for its hash."""
        self.edges.setdefault((source, target, edge_type, _RESOLVED), None)

    def _file(self, file: SourceFile) -> None:
        unit = self.unit
        summary = file.summary
        declarations, starts, ordinals = self._declarations(file)
        sites: list[Site] = []
        hashes = [unit.hash(scope[QUALIFIED]) if scope[KIND] in "cf" else unit.hash("") for scope in file.scopes]
        cache: dict[tuple[str, int], list[Target]] = {}
        edge = self._edge
        for owner, code, number, places in summary.get("refs", ()):
            targets = cache.get((code, number))
            if targets is None:
                targets = cache[code, number] = self._targets(file, code, number)
            source, start, ordinal = hashes[owner], starts[owner], ordinals[owner]
            once = len(places) == 3
            for target, edge_type, provenance, offset in targets:
                key = edge(source, target, edge_type, provenance)
                called = edge_type == "calls"
                if once:
                    arity = places[2] if called else -1
                    sites.append(_new(Site, (key, ordinal, places[0] - start, places[1] + offset, arity)))
                    continue
                sites += [
                    _new(Site, (key, ordinal, line - start, column + offset, arity if called else -1))
                    for line, column, arity in zip(places[::3], places[1::3], places[2::3], strict=True)
                ]
        self._imports(file, hashes, starts, ordinals, sites)
        if summary["coverage"]:
            self.records.coverage[file.path] = Coverage(summary["coverage"])
        self.records.files.append(File(file.path, summary["hash"], tuple(declarations), tuple(sites)))

    def _declarations(self, file: SourceFile) -> tuple[list[Declaration], list[int], list[int]]:
        unit = self.unit
        found: list[Declaration] = []
        starts, ordinals = [], []
        seen: dict[str, int] = {}
        for scope in file.scopes:
            if scope[KIND] not in "cf":
                starts.append(0)
                ordinals.append(0)
                continue
            qualified = scope[QUALIFIED]
            starts.append(scope[LINE])
            ordinals.append(seen.get(qualified, 0))
            seen[qualified] = seen.get(qualified, 0) + 1
            key = unit.hash(qualified)
            found.append(Declaration(key, scope[LINE], scope[END_LINE], scope[SIGNATURE], scope[DOC]))
        for number, name, line, end_line, signature in file.summary.get("variables", ()):
            qualified = f"{file.scopes[number][QUALIFIED]}.{name}" if number else name
            if unit.kinds.get(qualified) in {"var", "const", "field"}:
                found.append(Declaration(unit.hash(qualified), line, end_line, signature, ""))
        return found, starts, ordinals

    def _imports(
        self, file: SourceFile, hashes: list[bytes], starts: list[int], ordinals: list[int], sites: list[Site]
    ) -> None:
        evaluator = self.evaluator
        for owner, level, module, name, line, column, _ in file.summary.get("imports", ()):
            if name == "*":
                value = evaluator.module(self.unit, level, module)
                meaning = Meaning((("X", f"{value[1]}.*", None),)) if value is not None and value[0] == "X" else NOTHING
            else:
                meaning = evaluator.imported(self.unit, level, module, name, MAX_HOPS)
            targets = [(target, self._provenance(meaning)) for target in self._targets_of(meaning)]
            if meaning.flags & UNKNOWN and not targets:
                targets = [(self._unresolved(name or module), _RESOLVED)]
            for target, provenance in targets:
                key = self._edge(hashes[owner], target, "imports", provenance)
                sites.append(Site(key, ordinals[owner], line - starts[owner], column, -1))

    def _provenance(self, meaning: Meaning) -> str:
        return _INFERRED if meaning.flags & INFERRED or len(meaning.values) > 1 else _RESOLVED

    def _unresolved(self, name: str) -> bytes:
        text = "unresolved://python/" + (name if name.isidentifier() else "?")
        phantom = external(text)
        key = external_hash(text)
        self.nodes[key] = phantom
        return key

    def _targets(self, file: SourceFile, code: str, number: int) -> list[Target]:
        """The edges of a reference, without their source."""
        meaning = self.evaluator.symbols(file, number)
        edge_type = _EDGE_OF_CODE[code]
        chained = code in "crt"
        offset = self._offset(file, number) if chained else 0
        found: list[Target] = []
        provenance = self._provenance(meaning)
        # A value that is only ever None has no members here; somebody may set it elsewhere.
        unknown = bool(meaning.flags & (UNKNOWN | CUT)) or not meaning.values
        for value in meaning.values:
            target = self._used(value, edge_type)
            if target is None:
                unknown = unknown or value[0] not in "BK" or edge_type == "calls"
                continue
            actual = edge_type
            if (edge_type == "references" and value[0] == "V" and value[2]) or (
                edge_type == "references"
                and value[0] == "F"
                and value[3] is not None
                and self.evaluator.is_property(value)
            ):
                actual = "accesses_field"
            found.append((target, actual, provenance, offset))
            found += self._besides(value, target, edge_type, provenance, offset)
        if unknown and not found:
            name = self._name(file, number)
            if name not in tables.MODULE_NAMES:
                found.append((self._unresolved(name), edge_type, _INFERRED, offset))
        elif unknown and edge_type != "references":
            found.append((self._unresolved(self._name(file, number)), edge_type, _INFERRED, offset))
        if chained:
            self._prefixes(file, number, found)
        return found

    def _used(self, value: Value, edge_type: str) -> bytes | None:
        if value[0] == "I" and edge_type == "calls":
            method = self.evaluator.member(value, "__call__", MAX_HOPS)
            return self._node(method.values[0]) if len(method.values) == 1 else None
        return self._node(value)

    def _besides(self, value: Value, target: bytes, edge_type: str, provenance: str, offset: int) -> Iterable[Target]:
        """Further edges that follow from one: of tests, processes, the environment, interfaces."""
        if edge_type == "calls" and self.is_test and value[0] in "CF" and not is_test(value[1]):
            yield target, "tests", provenance, offset
        if value[0] == "X":
            if edge_type == "calls" and value[1] in tables.PROCESS:
                yield target, "executes_process", provenance, offset
            if value[1] == "os.getenv" or value[1].startswith("os.environ"):
                yield target, "reads_env", provenance, offset
        elif edge_type == "extends" and value[0] == "C":
            bases = self.evaluator.bases(self.tree.unit(value[1]), value[2], MAX_HOPS)
            if any(one[0] == "X" and one[1] in tables.INTERFACES for one in bases.values):
                yield target, "implements", provenance, offset

    def _offset(self, file: SourceFile, number: int) -> int:
        """How many bytes lie between the first name of a chain and its last."""
        base, _ = file.table[number]
        total = 0
        while base >= 0:
            following, step = file.table[base]
            total += len(step) if following >= 0 else len(_head_name(step)) + 1
            base = following
        return total

    def _prefixes(self, file: SourceFile, number: int, found: list[Target]) -> None:
        """What a dotted name uses on the way to its last name."""
        base, _ = file.table[number]
        while base >= 0:
            following, step = file.table[base]
            meaning = self.evaluator.symbols(file, base)
            attribute = following >= 0
            offset = self._offset(file, base)
            provenance = self._provenance(meaning)
            for value in meaning.values:
                if value[0] in "CF" and (attribute or step[0] == "G" or step[0] == "L") and value[-1] != "self":
                    kind = "references"
                    if value[0] == "F" and value[3] is not None and self.evaluator.is_property(value):
                        kind = "accesses_field"
                elif value[0] == "V":
                    kind = "accesses_field" if value[2] else "references"
                elif value[0] == "X" and not attribute and step[0] == "G" and "." in value[1] and "(" not in value[1]:
                    kind = "references"
                else:
                    continue
                target = self._node(value)
                if target is not None:
                    found.append((target, kind, provenance, offset))
            if attribute and meaning.flags & UNKNOWN and not meaning.values:
                found.append((self._unresolved(step[1:]), "references", _INFERRED, offset))
            base = following

    def _name(self, file: SourceFile, number: int) -> str:
        """The last name of an entry."""
        while number >= 0:
            base, step = file.table[number]
            if step[0] == ".":
                return step[1:]
            if base < 0:
                return _head_name(step)
            number = base
        return ""


def _head_name(step: str) -> str:
    """The name that a head is written with."""
    mark, rest = step[0], step[1:]
    if mark == "G":
        return rest
    if mark == "L":
        return rest.partition(":")[2].partition("@")[0]
    if mark in "SC":
        return rest.partition(":")[2]
    return ""


def is_test(package: str) -> bool:
    """Whether a unit is test code, by the usual names of its path."""
    *directories, name = package.split("/")
    return (
        any(one in {"test", "tests", "testing"} for one in directories)
        or name.startswith("test_")
        or name.endswith("_test")
        or name in {"tests", "test", "conftest"}
    )
