"""What a unit uses: an edge for every reference, with its sites."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from knowing_protocol.records import Declaration, File, Site
from knowing_protocol.vocabulary import Coverage

from knowingd.extract.limits import MAX_HOPS
from knowingd.extract.python import tables
from knowingd.extract.python.meaning import CUT, INFERRED, NOTHING, UNKNOWN, Meaning, Value
from knowingd.extract.python.published import Published
from knowingd.extract.python.tree import (
    DOC,
    END_LINE,
    KIND,
    LINE,
    QUALIFIED,
    SIGNATURE,
    SourceFile,
)
from knowingd.extract.python.unit_records import is_test

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
_new: Final = tuple.__new__  # a third of the time of calling the class, for the records that are many
Target = tuple[bytes, str, str, int]  # node, edge type, provenance, bytes from the first name to the named one


class Uses(Published):
    """References of a unit."""

    def file(self, file: SourceFile) -> None:
        """The declarations of a file, and every edge that is seen in it."""
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

    def _targets(self, file: SourceFile, code: str, number: int) -> list[Target]:
        """The edges of a reference, without their source."""
        meaning = self.evaluator.symbols(file, number)
        edge_type = _EDGE_OF_CODE[code]
        values = meaning.values
        if edge_type == "references" and any(map(_is_result, values)):
            # A variable that holds what a call gave: nothing that has a name is referred to by it.
            values = tuple(value for value in values if not _is_result(value))
            if not values and not meaning.flags & (UNKNOWN | CUT):
                return []
        chained = code in "crt"
        offset = self._offset(file, number) if chained else 0
        found: list[Target] = []
        provenance = self._provenance(meaning)
        # A value that is only ever None has no members here; somebody may set it elsewhere.
        unknown = bool(meaning.flags & (UNKNOWN | CUT)) or not values
        for value in values:
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


def _is_result(value: Value) -> bool:
    return bool(value[0] == "X" and value[1].endswith("()"))


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
