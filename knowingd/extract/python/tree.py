"""The summaries of a tree as the linker reads them: units, their files, and where each symbol is declared."""

from __future__ import annotations

from typing import Any, Final

from knowing_protocol.hashing import node_hash

from knowingd.extract.interface import Summary, View
from knowingd.extract.python.modules import Modules

# Places in the list that describes a scope; see `summary`.
KIND, PARENT, NAME, QUALIFIED, LINE, END_LINE, SIGNATURE, DOC = range(8)
FLAGS, DECORATORS, ANNOTATION, RETURNS, YIELDS, BASES, TYPES = range(8, 15)
_PRECEDENCE: Final = {"type": 0, "function": 1, "method": 2, "const": 3, "var": 4, "field": 5}
_VALUES: Final = frozenset("=:?")


class SourceFile:
    """One file of a unit."""

    def __init__(self, path: str, summary: Summary, unit: Unit) -> None:
        self.path = path
        self.unit = unit
        self.summary = summary
        self.scopes: list[list[Any]] = summary.get("scopes", [["m", -1]])
        flat = summary.get("table", [])
        self.table: list[tuple[int, str]] = list(zip(flat[::2], flat[1::2], strict=True))
        self.names: dict[int, dict[str, list[Any]]] = {
            int(number): found for number, found in summary.get("names", {}).items()
        }
        self.attributes: dict[int, dict[str, list[Any]]] = {
            int(number): found for number, found in summary.get("attributes", {}).items()
        }
        self.memo: dict[int, Any] = {}
        self.cut_memo: dict[tuple[int, int], Any] = {}

    def class_of(self, scope: int) -> str:
        """The qualified name of the class in or around a scope, or an empty text."""
        while scope > 0:
            found = self.scopes[scope]
            if found[KIND] == "c":
                return str(found[QUALIFIED])
            scope = found[PARENT]
        return ""

    def owner(self, scope: int) -> int:
        """The innermost scope around a scope that is a symbol."""
        while scope > 0 and self.scopes[scope][KIND] == "i":
            scope = self.scopes[scope][PARENT]
        return scope


class Unit:
    """A module: its files, and the declarations of its symbols by qualified name."""

    def __init__(self, package: str, repo: str) -> None:
        self.package = package
        self.repo = repo
        self.files: list[SourceFile] = []
        self.declared: dict[str, list[tuple[SourceFile, int]]] = {}
        self.kinds: dict[str, str] = {}
        self._hashes: dict[str, bytes] = {}
        self.cache: dict[Any, Any] = {}
        self.has_stars = False

    def add(self, path: str, summary: Summary) -> None:
        """Take in a file."""
        file = SourceFile(path, summary, self)
        self.files.append(file)
        self.has_stars = self.has_stars or any(one[3] == "*" for one in summary.get("imports", ()))
        for number, scope in enumerate(file.scopes):
            if scope[KIND] in {"c", "f"}:
                self.declared.setdefault(scope[QUALIFIED], []).append((file, number))
                outer = file.scopes[scope[PARENT]][KIND]
                kind = "type" if scope[KIND] == "c" else "method" if outer == "c" else "function"
                self._set_kind(scope[QUALIFIED], kind)
        for number, *rest in summary.get("variables", ()):
            name = rest[0]
            if number:
                self._set_kind(f"{file.scopes[number][QUALIFIED]}.{name}", "field")
            elif not self._also_imported(file, name):
                self._set_kind(name, "const" if name.isupper() else "var")

    def _also_imported(self, file: SourceFile, name: str) -> bool:
        """Whether an import binds a variable's name too: `try: import x` with `except: x = None`."""
        return any(one[0] == "i" for one in file.names.get(0, {}).get(name, ()))

    def _set_kind(self, qualified: str, kind: str) -> None:
        before = self.kinds.get(qualified)
        if before is None or _PRECEDENCE[kind] < _PRECEDENCE[before]:
            self.kinds[qualified] = kind

    def hash(self, qualified: str) -> bytes:
        """The node of a symbol of this unit."""
        found = self._hashes.get(qualified)
        if found is None:
            kind = self.kinds[qualified] if qualified else ("file" if self.files else "package")
            found = self._hashes[qualified] = node_hash(self.repo, self.package, qualified, kind)
        return found


class Tree:
    """All units of a tree, read when they are needed."""

    def __init__(self, repo: str, view: View) -> None:
        self.repo = repo
        self.view = view
        self.modules = Modules(view)
        self._units: dict[str, Unit] = {}

    def unit(self, package: str) -> Unit:
        """A unit that exists."""
        found = self._units.get(package)
        if found is None:
            found = self._units[package] = Unit(package, self.repo)
            for path in self.modules.units[package]:
                found.add(path, self.view.summary(path))
        return found
