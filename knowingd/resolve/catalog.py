"""The catalog of a node: one look-up tells which repositories can have anything to say about a key.

It is brought up to date when a question begins: repositories whose files look as they did need nothing; the others are
read, from their events where those are kept, else as a whole. What it says and the states it says it of are then one
state of the catalog for as long as the question lasts, so that a repository that moves on is either not looked at, or
found to have moved when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from knowingd.errors import BusyError
from knowingd.resolve.keys import VERSION, Keys, alias_key, all_keys, defined_key, keys_since, named_key
from knowingd.resolve.sessions import Sessions, State, newest_snapshots, state_of
from knowingd.store.catalog import CatalogRow, CatalogSession, CatalogStore, CatalogUpdate
from knowingd.store.codes import EDGE_TYPE_CODES
from knowingd.store.filestate import FileState, file_state
from knowingd.store.interface import GraphSession
from knowingd.store.nodestore import RosterRow
from knowingd.store.rows import SnapshotRow

ATTEMPTS: Final = 5
MAX_SNAPSHOTS: Final = 64
"""A repository that is further behind than this is read as a whole."""
MAX_GONE: Final = 5000
"""After so many removals, keys are read as a whole to get rid of those that nothing has any more."""
_BATCH: Final = 1_000_000  # keys of one transaction


class Filter:
    """What the catalog says, remembered for the length of a question."""

    def __init__(self, session: CatalogSession) -> None:
        self._session = session
        self.published: dict[str, frozenset[int]] = {}
        self.named: dict[tuple[str, str], frozenset[int]] = {}
        self._defined: dict[str, frozenset[int]] = {}
        self._open_names: dict[str, dict[int, list[str]]] = {}

    def publishers(self, name: str) -> frozenset[int]:
        """Which repositories may publish a name."""
        found = self.published[name] = self._session.holders(alias_key(name))
        return found

    def users(self, edge_type: str, segment: str) -> frozenset[int]:
        """Which repositories may have targets of a type that end in a segment."""
        found = self.named[edge_type, segment] = self._session.holders(named_key(edge_type, segment))
        return found

    def definers(self, name: str) -> frozenset[int]:
        """Which repositories may define a symbol whose name ends like this."""
        if name not in self._defined:
            self._defined[name] = self._session.holders(defined_key(name))
        return self._defined[name]

    def open_names(self, edge_type: str, repository: int) -> Sequence[str]:
        """All targets of a type that may mean a symbol of any name, and perhaps some that are gone."""
        if edge_type not in self._open_names:
            self._open_names[edge_type] = self._session.open_names(EDGE_TYPE_CODES[edge_type])
        return self._open_names[edge_type].get(repository, ())


class Entry(NamedTuple):
    """A repository that has a snapshot, at the state that the catalog speaks of."""

    row: RosterRow
    number: int
    snapshot: SnapshotRow


class Catalog:
    """The catalog in use."""

    def __init__(self, store: CatalogStore, path_of: Callable[[RosterRow], Path]) -> None:
        self._store = store
        self._path_of = path_of

    @contextmanager
    def at_one_state(
        self,
        rows: Sequence[RosterRow],
        sessions: Sessions,
        doubted: Collection[str] = (),
        kept: Sequence[RosterRow] = (),
    ) -> Iterator[tuple[Filter, list[Entry]]]:
        """The catalog up to date with these repositories, and those of them that have a snapshot.

        `doubted` are databases that are looked into, whatever their files look like; what the catalog knows of `kept`
        repositories stays in it as it is.
        """
        keep = {row.database for row in (*rows, *kept)}
        checked: dict[str, str] = {}  # database to how its files looked before it was looked into
        for _ in range(ATTEMPTS):
            with self._store.read() as session:
                known = session.rows()
                behind = self._behind(rows, known, checked, doubted)
                if not behind and known.keys() <= keep:
                    yield Filter(session), self._entries(rows, known, sessions)
                    return
            self._bring_up_to_date(behind, known, keep, sessions)
            checked |= {row.database: state.text for row, state in behind}
        raise BusyError(
            "the catalog is being changed by others all the time", hint="ask again when less is being indexed"
        )

    def _entries(self, rows: Sequence[RosterRow], known: dict[str, CatalogRow], sessions: Sessions) -> list[Entry]:
        found = []
        for row in rows:
            one = known[row.database]
            finished = 0 if one.snapshot is None else one.snapshot.sequence
            sessions.begin(row, State(one.sequence, one.source_root, one.overlay_root, finished))
            if one.snapshot is not None:
                found.append(Entry(row, one.id, one.snapshot))
        return found

    def _behind(
        self, rows: Sequence[RosterRow], known: dict[str, CatalogRow], checked: dict[str, str], doubted: Collection[str]
    ) -> list[tuple[RosterRow, FileState]]:
        """The repositories that must be looked into, and how their files look."""
        found = []
        for row in rows:
            base = known.get(row.database)
            current = base is not None and base.version == VERSION
            if current and base is not None and base.seen == checked.get(row.database):
                continue
            state = file_state(self._path_of(row))
            if not current or base is None or row.database in doubted or not state.is_as_at(base.seen, base.seen_at):
                found.append((row, state))
        return found

    def _bring_up_to_date(
        self,
        behind: Sequence[tuple[RosterRow, FileState]],
        known: dict[str, CatalogRow],
        keep: set[str],
        sessions: Sessions,
    ) -> None:
        updates: list[CatalogUpdate] = []
        waiting = 0
        for row, state in behind:
            sessions.forget(row)
            with sessions.using(row) as session:
                updates.append(_update(row, session, known.get(row.database), state))
            waiting += len(updates[-1].fingerprints)
            if waiting > _BATCH:
                self._store.bring(updates, keep | known.keys())
                updates, waiting = [], 0
        self._store.bring(updates, keep)


def _update(row: RosterRow, session: GraphSession, base: CatalogRow | None, seen: FileState) -> CatalogUpdate:
    """What the catalog lacks of a repository."""
    newest, finished = newest_snapshots(session)
    state = state_of(newest, finished)
    keys: Keys | None = None
    if base is not None and base.version == VERSION:
        if state[:3] == base[3:6]:
            keys = Keys(gone=0)
        elif _events_are_kept(session, base, newest):
            keys = keys_since(session, base.sequence, state.sequence)
            if base.gone + keys.gone > MAX_GONE:
                keys = None
    anew = keys is None
    found = all_keys(session) if keys is None else keys
    gone = 0 if anew or base is None else base.gone + found.gone
    made = CatalogRow(0, row.database, VERSION, *state[:3], finished, seen.text, seen.at, gone)
    return CatalogUpdate(made, base, anew, found.fingerprints, found.open_names)


def _events_are_kept(session: GraphSession, base: CatalogRow, newest: SnapshotRow | None) -> bool:
    """Whether events lead from the state that the catalog reflects to the newest."""
    if newest is None or not 0 < newest.sequence - base.sequence <= MAX_SNAPSHOTS:
        return False
    before = session.snapshot(base.sequence)
    if before is None or before.pruned or (before.source_root, before.overlay_root) != base[4:6]:
        return False
    for sequence in range(base.sequence + 1, newest.sequence + 1):
        after = session.snapshot(sequence)
        if after is None:
            return False
        moved = (after.source_root, after.overlay_root) != (before.source_root, before.overlay_root)
        if moved and not _has_events(session, sequence):
            return False
        before = after
    return True


def _has_events(session: GraphSession, sequence: int) -> bool:
    """Whether a snapshot that changed something says what: one that was taken over as a whole does not."""
    for found in (session.edge_events(sequence - 1, sequence), session.events(sequence - 1, sequence)):
        if next(iter(found), None) is not None:
            return True
    return False
