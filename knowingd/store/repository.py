"""The database of one repository and ref, as one origin publishes it: the SQLite implementation of `GraphStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from knowing_protocol.hashing import repo_hash

from knowingd.errors import StoreError
from knowingd.store.database import Database
from knowingd.store.history import Removed, prune
from knowingd.store.session import Session

T = TypeVar("T")


class RepositoryStore:
    """One graph database."""

    def __init__(self, path: Path, url: str, ref: str, origin: bytes) -> None:
        """Open or create it; refuses a file that is another repository's."""
        self.path = path
        self.url = url
        self.ref = ref
        self.origin = origin
        self.database = Database(path, "repository", durable=False)
        mine = (repo_hash(url), url, ref, origin)
        query = "SELECT repo_hash, repo_url, ref, origin FROM repos"
        with self.read() as session:
            found = session.execute(query).fetchone()
        if found is None:  # another process may be making it at this moment
            insert = "INSERT OR IGNORE INTO repos VALUES (1, ?, ?, ?, ?)"
            self.write(lambda session: session.execute(insert, mine).close())
            with self.read() as session:
                found = session.execute(query).fetchone()
        if found != mine:
            self.close()
            raise StoreError(
                f"{path} holds {found[1]} ({found[2]}), not {url} ({ref})",
                code="wrong-database",
                hint="remove the repository and add it again",
            )

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One consistent state, for as long as it is held."""
        with self.database.read() as connection:
            yield Session(connection)

    def write(self, job: Callable[[Session], T]) -> T:
        """Run a job in one transaction of the writer."""
        return self.database.write(lambda connection: job(Session(connection)))

    def collect(self, keep: int, deleted_before: int) -> Removed:
        """Prune history and give free pages back to the disk."""
        removed = self.write(lambda session: prune(session, keep, deleted_before))
        return removed._replace(pages=self.database.give_back())

    def close(self) -> None:
        """Close every connection."""
        self.database.close()
