"""The read sessions of one question: a limited number at once, and every one of a repository at the same state.

A session that was closed to make room may be opened again, and must then find the repository as the question first
found it; if somebody wrote to it since, the question is to be asked anew (`MovedError`). A session is never closed
while it is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from knowingd.errors import BusyError, KnowingError
from knowingd.store.database import translated
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.nodestore import RosterRow
from knowingd.store.pool import Pool
from knowingd.store.rows import SnapshotRow


class MovedError(BusyError):
    """A repository was written to while a question was asked of it."""

    code = "moved"

    def __init__(self, row: RosterRow) -> None:
        super().__init__(
            f"{row.url} was written to while the question was asked",
            hint="ask again; if it is being indexed over and over, wait for that to end",
        )
        self.database = row.database


class State(NamedTuple):
    """What an answer of a repository depends on: its newest snapshot, and the newest one that is in the log."""

    sequence: int
    source_root: bytes
    overlay_root: bytes
    finished: int


NOTHING = State(0, b"", b"", 0)


def state_of(newest: SnapshotRow | None, finished: SnapshotRow | None) -> State:
    """The state of a database with these newest snapshots."""
    if newest is None:
        return NOTHING
    done = 0 if finished is None else finished.sequence
    return State(newest.sequence, newest.source_root, newest.overlay_root, done)


def newest_snapshots(session: GraphSession) -> tuple[SnapshotRow | None, SnapshotRow | None]:
    """The newest snapshot of a database, and the newest that is in the log: nearly always the same."""
    newest = session.last_snapshot()
    if newest is None or newest.log_index is not None:
        return newest, newest
    return newest, session.last_snapshot(finished=True)


class _Held:
    """A session and what it takes to end it."""

    def __init__(self, store: AbstractContextManager[GraphStore]) -> None:
        with ExitStack() as stack:
            self.session: GraphSession = stack.enter_context(stack.enter_context(store).read())
            self.state = state_of(*newest_snapshots(self.session))
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End the session."""
        self._stack.close()


class Sessions:
    """The sessions of a question. `lend` gives a repository's store, and keeps it open while it is lent.

    `check` is called whenever a session is about to be used, and may end the question by what it raises.
    """

    def __init__(
        self,
        lend: Callable[[RosterRow], AbstractContextManager[GraphStore]],
        path_of: Callable[[RosterRow], Path],
        limit: int,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._lend = lend
        self._path_of = path_of
        self._pool: Pool[_Held] = Pool(limit)
        self._states: dict[str, State] = {}
        self._check = check

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def begin(self, row: RosterRow, state: State) -> None:
        """From here on, a repository counts as being at this state."""
        self._states[row.database] = state

    def forget(self, row: RosterRow) -> None:
        """Whatever state a repository is at next is right."""
        self._states.pop(row.database, None)
        self._pool.discard(row.database)

    def using(self, row: RosterRow) -> AbstractContextManager[GraphSession]:
        """A session of a repository, open for as long as it is used here."""
        return _Use(self, row)

    def take(self, row: RosterRow) -> _Held:
        """A session that is not closed until it is given back."""
        if self._check is not None:
            self._check()
        held = self._pool.take(row.database, lambda: _Held(self._lend(row)))
        if self._states.setdefault(row.database, held.state) != held.state:
            self._pool.give_back(held)
            raise MovedError(row)
        return held

    def give_back(self, held: _Held) -> None:
        """End one use of a session."""
        self._pool.give_back(held)

    def path_of(self, row: RosterRow) -> Path:
        """Where a repository's database is."""
        return self._path_of(row)


class _Use:
    """One use of a session. A class, because a question makes a hundred thousand of them."""

    __slots__ = ("_held", "_row", "_sessions")

    def __init__(self, sessions: Sessions, row: RosterRow) -> None:
        self._sessions = sessions
        self._row = row
        self._held: _Held | None = None

    def __enter__(self) -> GraphSession:
        self._held = self._sessions.take(self._row)
        return self._held.session

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        assert self._held is not None
        self._sessions.give_back(self._held)
        if isinstance(error, Exception) and not isinstance(error, KnowingError):
            with translated(self._sessions.path_of(self._row), system=False):
                raise error
