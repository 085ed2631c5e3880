"""Truth for the quality measurement: the calls that scip-python resolves, one JSON document a package.

Run it as `PYTHONPATH=tests python -m quality.oracle [PACKAGE...] [--cache DIR]`. Each package's importable sources are
put, without `src` and without any configuration, into a clean temporary directory, because the oracle is confused by
both; the truth names files as the published sources do.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from quality import definitions, fetch
from quality.pins import DEFAULT_CACHE, Pins, load
from quality.places import CallPlace, Columns, Imports, calls, imports
from quality.scip import Document, ScipError, Symbol, documents, parse_symbol

_MEMORY_MB = 8000
_SECONDS = 3600


@dataclass(frozen=True, slots=True, order=True)
class Call:
    """One call that the oracle resolves; `target_package` is empty outside of the registered packages."""

    file: str
    line: int
    col: int
    target: str
    target_package: str
    inside: bool


@dataclass(frozen=True, slots=True)
class Owners:
    """Which registered package owns a dotted name, and what is defined under it."""

    modules: Mapping[str, str]
    definitions: Mapping[str, Mapping[str, str]]

    def package(self, module: str) -> str:
        """The package that publishes the module, or nothing."""
        return self.modules.get(module, "")


def owners(layouts: Mapping[str, Mapping[str, str]], roots: Mapping[str, Path]) -> Owners:
    """Read every registered package's modules and definitions."""
    modules = {definitions.module_name(path): package for package, files in layouts.items() for path in files}
    return Owners(modules, {name: definitions.of_files(roots[name], files) for name, files in layouts.items()})


def named_by_neighbour(place: CallPlace, symbol: Symbol, known: Owners, imported: Imports) -> str | None:
    """What the oracle meant where it names a neighbour: it calls all that comes through one `import *` by one name.

    Only where the name can have come through an import, and the neighbour's module does define it.
    """
    reached = imported.star if place.root is None else place.root in imported.names
    meant = f"{symbol.module}.{place.name}"
    kinds = known.definitions.get(known.package(symbol.module), {})
    top_level = symbol.dotted == f"{symbol.module}.{symbol.descriptors[-1].name}"
    return meant if reached and top_level and kinds.get(meant) in {"class", "function"} else None


def answer(
    place: CallPlace, symbols: Iterable[Symbol], known: Owners, imported: Imports, dropped: Counter[str]
) -> tuple[str, str] | None:
    """The one target of a place and its package; None, and a count of why, where the oracle says nothing usable.

    Habits of scip-python that are put right or left out here: it names a function inside a function as if it stood in
    the class or beside it, an instance's variable by the class, what comes through `import *` by a neighbour's name.
    A function inside a function has no import name, so calls of those are not part of the truth.
    """
    targets = {symbol.dotted: symbol for symbol in symbols if symbol.is_callable}
    if not targets:
        return None
    if len(targets) > 1:
        dropped["several targets"] += 1
        return None
    target, symbol = next(iter(targets.items()))
    name = symbol.descriptors[-1].name
    package = known.package(symbol.module)
    reason = None
    if place.name != name and not (place.bare and (name, place.name) in imported.aliases):
        meant = named_by_neighbour(place, symbol, known, imported)
        reason = None if meant else "named unlike what is called"
        target = meant or target
    kind = known.definitions[package].get(target) if package else None
    if reason is None and package:
        if kind is None:
            reason = "not defined in the published source"
        elif kind == "property":
            reason = "the value of a property is called"
        elif kind == "method" and place.bare and not place.in_class_body:
            reason = "a bare name cannot reach a method"
    if reason is not None:
        dropped[reason] += 1
        return None
    return target, package


def document_calls(
    document: Document, source: bytes, known: Owners, dropped: Counter[str]
) -> list[tuple[int, int, str, str]]:
    """(line, column, target, package) for each call expression of a file that the oracle answers."""
    columns = Columns(source)
    symbols: dict[int, list[Symbol]] = defaultdict(list)
    for occurrence in document.occurrences:
        offset = columns.offset(occurrence.line, occurrence.start)
        symbol = None if offset is None or occurrence.is_definition else parse_symbol(occurrence.symbol)
        if offset is not None and symbol is not None:
            symbols[offset].append(symbol)
    found = []
    imported = imports(source)
    for offset, place in calls(source).items():
        if offset in symbols:
            answered = answer(place, symbols[offset], known, imported, dropped)
            if answered:
                found.append((place.line, place.col, *answered))
    return found


def asked(cache: fetch.Cache, package: str, pins: Pins) -> dict[str, str]:
    """Import path => published path of the files whose calls are measured."""
    layout = fetch.layout(cache, package)
    return {imported: published for imported, published in layout.items() if pins.asked(package, imported)}


def run_scip(cache: fetch.Cache, package: str, pins: Pins) -> Path:
    """Index one package's importable sources, unless that was done before."""
    index = cache.index(package)
    if index.exists():
        return index
    index.parent.mkdir(parents=True, exist_ok=True)
    program = fetch.tool(cache, pins.scip_python)
    environment = dict(os.environ)
    environment["PATH"] = f"{cache.environment / 'bin'}{os.pathsep}{environment['PATH']}"
    environment["NODE_OPTIONS"] = f"--max-old-space-size={_MEMORY_MB}"
    root = cache.source(package)
    with tempfile.TemporaryDirectory(prefix="oracle-") as clean:
        for imported, published in asked(cache, package, pins).items():
            target = Path(clean, imported)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / published, target)
        output = Path(clean, "index.scip")
        command = [str(program), "index", ".", "--quiet", "--project-name", package, "--project-version",
                   pins.packages[package], "--output", str(output)]  # fmt: skip
        with index.with_suffix(".log").open("wb") as log:
            subprocess.run(
                ["nice", "-n", "10", *command],
                cwd=clean,
                env=environment,
                check=True,
                stdout=log,
                stderr=log,
                timeout=_SECONDS,
            )
        shutil.move(output, index)
    return index


def package_calls(cache: fetch.Cache, package: str, pins: Pins, known: Owners, dropped: Counter[str]) -> list[Call]:
    """The calls of one package that the oracle resolves."""
    root, layout = cache.source(package), asked(cache, package, pins)
    if not layout:
        return []
    found = []
    for document in documents(run_scip(cache, package, pins).read_bytes()):
        published = layout.get(document.path)
        if published is not None:
            for line, col, target, owner in document_calls(document, (root / published).read_bytes(), known, dropped):
                found.append(Call(published, line, col, target, owner, owner == package))
    return sorted(found)


def write_truth(cache: fetch.Cache, package: str, pins: Pins, known: Owners) -> int:
    """Write one package's truth, with counts of what was left out, and say how many calls it has."""
    dropped: Counter[str] = Counter()
    found = package_calls(cache, package, pins, known, dropped)
    layout = fetch.layout(cache, package)
    document = {
        "package": package,
        "version": pins.packages[package],
        "modules": sorted(definitions.module_name(path) for path in layout),
        "files": sorted(asked(cache, package, pins).values()),
        "dropped": dict(sorted(dropped.items())),
        "calls": [asdict(call) for call in found],
    }
    path = cache.truth(package)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return len(found)


def main(arguments: list[str] | None = None) -> int:
    """Make the truth of the packages named, or of all; one that fails does not stop the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    options = parser.parse_args(arguments)
    pins, cache = load(), fetch.Cache(options.cache.resolve())
    fetch.environment(cache)
    for name in pins.packages:
        fetch.source(cache, name, pins)
    layouts = {name: fetch.layout(cache, name) for name in pins.packages}
    known = owners(layouts, {name: cache.source(name) for name in pins.packages})
    failed = []
    for name in options.packages or pins.packages:
        start = time.monotonic()
        try:
            said = f"{len(layouts[name])} files, {write_truth(cache, name, pins, known)} calls"
        except (subprocess.SubprocessError, ScipError) as error:
            failed.append(name)
            said = f"no truth: {error}"
        print(f"{name}: {said}, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
