"""What every language offers to the indexer, and what the indexer offers to a language.

Two steps. `summarize` reads one file and depends on nothing else, so that it can run anywhere and be stored by content.
`Linker.link` makes the records of one unit (a module) out of summaries alone: nothing is parsed again, and what was
looked at is reported as keys. After an edit, `relink_set` names the units whose keys changed; linking just these gives
the same records as linking everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from knowing_protocol.records import Records

Summary: TypeAlias = dict[str, Any]
"""Plain data (text, bytes, integers, None, lists, dicts with text keys) that MessagePack can store."""


class View(Protocol):
    """The summaries of one tree. It may read them from a database when they are asked for."""

    def paths(self) -> Iterable[str]:
        """Every path of the tree that has a summary."""

    def summary(self, path: str) -> Summary:
        """The summary of one of these paths."""


@dataclass(slots=True)
class Linked:
    """What one unit contributes, and the keys of other files that it looked at, also those that were not there.

    `hashes` are those of the edges in their order, None where nobody asked for one.
    """

    records: Records = field(default_factory=Records)
    visited: frozenset[str] = frozenset()
    hashes: Sequence[bytes | None] = ()


class Linker(Protocol):
    """Links units of one tree. It may keep what it found out; make a new one after the tree changed."""

    def link(self, unit: str) -> Linked:
        """All records of a unit. Those of different units are disjoint but for phantoms."""


class Language(Protocol):
    """One language."""

    name: str

    def handles(self, path: str) -> bool:
        """Whether a path is a source file or manifest of this language."""

    def extractor_id(self) -> bytes:
        """A hash of the versions and limits that summaries and records depend on."""

    def summarize(self, path: str, content: bytes) -> Summary:
        """What a file says, from its path and bytes alone. Never raises."""

    def keys(self, path: str, summary: Summary) -> dict[str, bytes]:
        """What other files may look up in a file, each with a digest of what they would find."""

    def tree_keys(self, view: View) -> dict[str, bytes]:
        """Further keys that depend on the paths of the tree and on its manifests together."""

    def units(self, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The units of a tree and the files of each; some units have no file of their own."""

    def linker(self, repo: str, view: View) -> Linker:
        """A linker for the tree as it is now."""


def changed_keys(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    """Keys that are new, gone, or mean something else."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def relink_set(changed: AbstractSet[str], visited_by_unit: Mapping[str, AbstractSet[str]]) -> set[str]:
    """The units that looked at a key which changed. Edited, added and removed units come on top of these."""
    return {unit for unit, visited in visited_by_unit.items() if not changed.isdisjoint(visited)}


def united(parts: Iterable[Records]) -> Records:
    """The records of all units, without the phantoms that several share."""
    whole = Records()
    nodes = {}
    for part in parts:
        nodes.update(dict.fromkeys(part.nodes))
        whole.edges += part.edges
        whole.aliases += part.aliases
        whole.members += part.members
        whole.facts |= part.facts
        whole.files += part.files
        whole.coverage |= part.coverage
    whole.nodes = list(nodes)
    return whole
