"""A driver in memory: index a tree, then bring the result up to date file by file.

What a database-backed indexer does with stored summaries, this does with dictionaries; tests compare the two ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from knowing_protocol.records import Records

from knowingd.extract.interface import Language, Linked, Summary, changed_keys, relink_set, united
from knowingd.extract.python.language import Python


@dataclass(slots=True)
class State:
    """A tree with its summaries, and what every unit contributes."""

    repo: str
    language: Language
    content: dict[str, bytes] = field(default_factory=dict)
    summaries: dict[str, Summary] = field(default_factory=dict)
    linked: dict[str, Linked] = field(default_factory=dict)
    tree_keys: dict[str, bytes] = field(default_factory=dict)
    relinked: set[str] = field(default_factory=set)  # by the last update

    def paths(self) -> Iterable[str]:
        """See `View`."""
        return self.summaries

    def summary(self, path: str) -> Summary:
        """See `View`."""
        return self.summaries[path]


def index_tree(repo: str, files: Mapping[str, bytes], language: Language | None = None) -> tuple[Records, State]:
    """The records of a tree, and the state from which `update` goes on."""
    state = State(repo, language or Python())
    return update(state, files), state


def update(state: State, files: Mapping[str, bytes]) -> Records:
    """Bring a state to another tree; only what changed is summarized, and what looked at it is linked again."""
    language = state.language
    handled = {path: content for path, content in files.items() if language.handles(path)}
    changed: set[str] = set()
    edited = {path for path in state.content.keys() | handled if state.content.get(path) != handled.get(path)}
    units_before = language.units(state.summaries)
    for path in sorted(edited):
        before = state.summaries.pop(path, None)
        after = None
        if path in handled:
            after = state.summaries[path] = language.summarize(path, handled[path])
        changed |= changed_keys(
            language.keys(path, before) if before is not None else {},
            language.keys(path, after) if after is not None else {},
        )
    state.content = handled
    tree_keys = language.tree_keys(state)
    changed |= changed_keys(state.tree_keys, tree_keys)
    state.tree_keys = tree_keys
    units = language.units(state.summaries)
    todo = relink_set(changed, {unit: linked.visited for unit, linked in state.linked.items()})
    todo |= {unit for unit, paths in units.items() if units_before.get(unit) != paths or not edited.isdisjoint(paths)}
    for unit in state.linked.keys() - units.keys():
        del state.linked[unit]
    linker = language.linker(state.repo, state)
    state.relinked = todo & units.keys()
    for unit in sorted(state.relinked):
        state.linked[unit] = linker.link(unit)
    return united(linked.records for linked in state.linked.values())
