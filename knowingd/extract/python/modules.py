"""The modules of a tree: which files make a unit, where its import roots are, and what an import finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from knowing_protocol.hashing import tagged
from knowing_protocol.standard_library import PYTHON_MODULES

from knowingd.extract.interface import Summary, View
from knowingd.extract.python.manifest import is_manifest
from knowingd.extract.words import words

_SUFFIXES: Final = ("/__init__.py", ".py", "/__init__.pyi", ".pyi")
# What setuptools leaves out when it looks for packages by itself.
_NOT_FOUND: Final = frozenset(
    words(
        """
    ci bin debian doc docs documentation manpages news newsfragments changelog test tests unit_test unit_tests
    example examples scripts tools util utils python build benchmark benchmarks exercise exercises htmlcov tasks
    fabfile site_scons setup conftest noxfile pavement toxfile dodo
    """
    )
)
MANIFEST_UNIT: Final = "//"
"""Before the path of a manifest it makes a unit's name; no module has such a path."""
ROOTS_KEY: Final = "\0roots"


def is_source(path: str) -> bool:
    """Whether a path is a Python module."""
    return path.endswith((".py", ".pyi"))


def package_of(path: str) -> str:
    """The unit of a source file: its path without suffix; `__init__` is its directory."""
    stem = path.removesuffix(".pyi").removesuffix(".py")
    if stem == "__init__":
        return ""
    return stem.removesuffix("/__init__")


def _rank(path: str) -> int:
    return next(rank for rank, suffix in enumerate(_SUFFIXES) if ("/" + path).endswith(suffix))


def units_of(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Every module of a tree with its files, every namespace package, which has none, and every manifest."""
    found: dict[str, list[str]] = {}
    others: dict[str, tuple[str, ...]] = {}
    for path in paths:
        if is_source(path):
            found.setdefault(package_of(path), []).append(path)
        elif is_manifest(path):
            others[MANIFEST_UNIT + path] = (path,)
    for package in list(found):
        parent = package.rpartition("/")[0]
        while parent and parent not in found:
            found[parent] = []
            parent = parent.rpartition("/")[0]
    for files in found.values():
        if len(files) > 1:
            files.sort(key=_rank)
    return {unit: tuple(files) for unit, files in found.items()} | others


class Modules:
    """The import table of one tree."""

    def __init__(self, view: View) -> None:
        paths = sorted(view.paths())
        self.units = {unit: files for unit, files in units_of(paths).items() if not unit.startswith(MANIFEST_UNIT)}
        manifests = [path for path in paths if is_manifest(path)]
        self.packages = {
            unit for unit, files in self.units.items() if any("/__init__.py" in f"/{one}" for one in files)
        }
        self.roots: list[tuple[str, str, frozenset[str] | None, bool]] = []  # directory, prefix, top names, claimed
        told = {path: found for path in manifests if (found := view.summary(path).get("manifest"))}
        explicit = {path.rpartition("/")[0] for path, found in told.items() if found["roots"] or found["packages"]}
        for path, manifest in told.items():
            self._add(path.rpartition("/")[0], manifest, explicit)
        if not any(claimed for *_, claimed in self.roots):
            self.roots += [(directory, "", tops, False) for directory, tops in self._discover("")]
        self.roots = sorted(set(self.roots), key=lambda one: (one[0], one[1], sorted(one[2] or ()), one[3]))
        self._names: dict[str, list[tuple[str, bool]]] = {}
        self._by_name: dict[str, str] = {}
        for unit in sorted(self.units):
            names = self._published(unit)
            if names:
                self._names[unit] = names
                for name, _ in names:
                    self._by_name.setdefault(name, unit)

    def _add(self, home: str, manifest: Summary, explicit: set[str]) -> None:
        """Take in a manifest; one that says nothing of packages is silent beside another that does."""
        packages = frozenset(manifest["packages"]) if manifest["packages"] else None
        roots = manifest["roots"]
        if not roots and packages:  # listed, without saying where: most backends look into `src` too
            roots = [[place, ""] for place in ("", "src") if self._has(home, place, packages)]
        for directory, prefix in roots:
            where = "/".join(part for part in (home, directory) if part)
            tops = packages
            if tops is None and not directory and not prefix:
                tops = frozenset(top for found, names in self._discover(where) if found == where for top in names)
            self.roots.append((where, prefix, None if prefix else tops, True))
        if manifest["discover"] and home not in explicit:
            self.roots += [(directory, "", tops, True) for directory, tops in self._discover(home)]

    def _has(self, home: str, place: str, packages: frozenset[str]) -> bool:
        return any("/".join(part for part in (home, place, one) if part) in self.units for one in packages)

    def _discover(self, home: str) -> list[tuple[str, frozenset[str]]]:
        """Where setuptools would look below a directory: `src` if it has packages, else the directory itself."""
        source = f"{home}/src" if home else "src"
        below = self._children(source)
        if source not in self.packages and below:
            return [(source, below)]
        tops = {one for one in self._children(home) if one not in _NOT_FOUND}
        named = {one for one in tops if (f"{home}/{one}" if home else one) in self.packages}
        return [(home, frozenset(named or tops))]

    def _children(self, directory: str) -> frozenset[str]:
        start = f"{directory}/" if directory else ""
        return frozenset(
            unit[len(start) :].partition("/")[0] for unit in self.units if unit.startswith(start) and unit != directory
        )

    def _published(self, unit: str) -> list[tuple[str, bool]]:
        found: dict[str, bool] = {}
        for directory, prefix, tops, claimed in self.roots:
            start = f"{directory}/" if directory else ""
            if unit == directory and prefix:
                inside: list[str] = []
            elif unit.startswith(start) and unit:
                inside = unit[len(start) :].split("/")
            else:
                continue
            if tops is not None and not prefix and (not inside or inside[0] not in tops):
                continue
            parts = ([prefix] if prefix else []) + inside
            if parts and all(part.isidentifier() for part in ".".join(parts).split(".")):
                name = ".".join(parts)
                standard = name.partition(".")[0] in PYTHON_MODULES
                found[name] = (claimed and not standard) or found.get(name, False)
        return sorted(found.items())

    def names(self, unit: str) -> list[tuple[str, bool]]:
        """The import names of a unit, and whether a manifest claims each."""
        return self._names.get(unit, [])

    def digest(self) -> bytes:
        """What the roots are, for the key under which everybody looks at them."""
        return tagged("roots", *(repr((one[0], one[1], sorted(one[2] or ()), one[3])) for one in self.roots))[:12]

    def find(self, dotted: str, unit: str, visited: list[str]) -> str | None:
        """The unit that an absolute import, written in a unit, finds in this repository."""
        visited.append(ROOTS_KEY)
        inside = dotted.replace(".", "/")
        found = self._by_name.get(dotted)
        for directory, prefix, _, _ in self.roots:
            if prefix and not (dotted + ".").startswith(prefix + "."):
                continue
            rest = inside[len(prefix) :].strip("/") if prefix else inside
            visited.append("@" + "/".join(part for part in (directory, rest) if part))
        if found is not None:
            return found
        home = unit if unit in self.packages else unit.rpartition("/")[0]
        visited.append(f"@{home}")
        if home not in self.packages:
            near = f"{home}/{inside}" if home else inside
            visited.append(f"@{near}")
            if near in self.units and (self.units[near] or dotted.partition(".")[0] not in PYTHON_MODULES):
                return near
        if dotted.partition(".")[0] in PYTHON_MODULES:
            return None
        places = [home]
        while home and home in self.packages:
            home = home.rpartition("/")[0]
            visited.append(f"@{home}")
            places = [home]
        for place in (places[-1], ""):
            near = f"{place}/{inside}" if place else inside
            visited.append(f"@{near}")
            if near in self.units and near:
                return near
        return None


def unit_keys(units: dict[str, tuple[str, ...]]) -> dict[str, bytes]:
    """The keys that say which modules exist, and in which files."""
    return {f"@{unit}": tagged("unit", *files)[:12] for unit, files in units.items()}
