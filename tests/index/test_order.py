"""What a unit contributes depends on the tree, not on what was linked before it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from knowingd.extract.interface import Linked
from knowingd.extract.python.language import Python

ROOT = Path(__file__).parents[2]


class Tree:
    def __init__(self) -> None:
        language = Python()
        paths = [path for top in ("knowingd", "protocol", "tests") for path in (ROOT / top).rglob("*.py")]
        names = {path.relative_to(ROOT).as_posix(): path for path in paths if ".cache" not in path.parts}
        self.summaries = {name: language.summarize(name, path.read_bytes()) for name, path in names.items()}

    def paths(self) -> list[str]:
        return sorted(self.summaries)

    def summary(self, path: str) -> dict[str, object]:
        return self.summaries[path]


def plain(linked: Linked) -> tuple[object, ...]:
    records = linked.records
    return (
        set(records.nodes),
        set(records.edges),
        set(records.aliases),
        set(records.members),
        records.facts,
        [(file.path, sorted(file.sites)) for file in records.files],
        linked.visited,
    )


def test_the_order_of_linking_changes_nothing() -> None:
    tree, language = Tree(), Python()
    units = sorted(language.units(tree.paths()))
    orders = [units, units[::-1], Random(3).sample(units, len(units))]
    found = []
    for order in orders:
        linker = language.linker("github.com/acme/own", tree)
        found.append({unit: plain(linker.link(unit)) for unit in order})
    for unit in units:
        assert found[0][unit] == found[1][unit] == found[2][unit], unit
