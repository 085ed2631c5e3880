"""One SQLite file: opened safely, migrated, written by one thread at a time, read by many.

A write is a function that gets the writer's connection inside of `BEGIN IMMEDIATE`; it commits when the function
returns and rolls back when it raises. Errors of SQLite become `StoreError`s that name the file and the way out.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from knowing_migrations import Migration, checksums, migrations

from knowingd.errors import StoreError

if TYPE_CHECKING:
    from concurrent.futures import Future

APPLICATION_ID: Final = 0x6B6E6F77  # "know"
PAGE_SIZE: Final = 4096
MAX_READERS: Final = 4

T = TypeVar("T")


class Database:
    """A database file of one family of migrations."""

    def __init__(
        self, path: Path, family: str, *, durable: bool, steps: list[Migration] | None = None, create: bool = True
    ) -> None:
        """Open or create the file and bring its schema up to date; `durable` waits for the disk on every commit."""
        self.path = path
        self._create = create
        self._durable = durable
        self._readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[Callable[[sqlite3.Connection], Any], Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._closed = False
        with translated(path):
            current = self._open_current(checksums(family)) if steps is None else None
            if current is not None:
                self._readers.append(current)
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = self._connect()
            try:
                _migrate(connection, path, migrations(family) if steps is None else steps)
            finally:
                connection.close()

    def _open_current(self, wanted: dict[int, str]) -> sqlite3.Connection | None:
        """A reader of a database that needs nothing done, which is what nearly every opening meets.

        None where there is anything to do or to refuse: the long way does it, and says it.
        """
        if not self.path.exists():
            return None
        connection = self._plain_connection()
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            applied = dict(connection.execute("SELECT number, checksum FROM migration_history"))
            if application == APPLICATION_ID and journal == "wal" and applied == wanted:
                _make_reader(connection)
                return connection
        except sqlite3.Error:
            pass
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _plain_connection(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path if self._create else self.path.absolute().as_uri() + "?mode=rw",
            isolation_level=None,
            check_same_thread=False,
            timeout=5.0,
            uri=not self._create,
        )

    def _connect(self, *, reader: bool = False) -> sqlite3.Connection:
        connection = self._plain_connection()
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if tables and application != APPLICATION_ID:
                raise StoreError(
                    f"{self.path} is a SQLite database, but not one of knowing's",
                    code="foreign-database",
                    hint="move the file away; nothing was changed in it",
                )
            if not tables:
                connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts only before the first page is written
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            if reader:
                _make_reader(connection)
            else:
                connection.execute("PRAGMA mmap_size = 268435456")
                connection.execute("PRAGMA cache_size = -64000")
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in the writer, in one transaction, after all that were given before it."""
        with self._start_lock:
            if self._closed:
                raise StoreError(f"{self.path} is closed", hint="open it again")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"writer {self.path.name}", daemon=True)
                self._thread.start()
        from concurrent.futures import Future  # noqa: PLC0415 - it brings logging along, and who reads needs none

        done: Future[T] = Future()
        self._jobs.put((job, done))
        return done.result()

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                with translated(self.path):
                    if connection is None:
                        connection = self._connect()
                    done.set_result(_transact(connection, job))
            except BaseException as error:  # noqa: BLE001 - whoever waits for the job gets it
                done.set_exception(error)
        if connection is not None:
            connection.close()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one consistent state for as long as it is held."""
        with self._readers_lock:
            connection = self._readers.pop() if self._readers else None
        with translated(self.path, system=False):  # errors of whoever reads are not the database's
            if connection is None:
                connection = self._connect(reader=True)
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.rollback()
                with self._readers_lock:
                    keep = not self._closed and len(self._readers) < MAX_READERS
                    if keep:
                        self._readers.append(connection)
                if not keep:
                    connection.close()

    def backup_to(self, target: Path) -> None:
        """A consistent copy beside running writers."""
        with translated(target), self.read() as connection:
            connection.rollback()  # VACUUM INTO makes its own read transaction
            connection.execute("PRAGMA query_only = OFF")
            try:
                connection.execute("VACUUM INTO ?", (str(target),))
            finally:
                connection.execute("PRAGMA query_only = ON")
                connection.execute("BEGIN")

    def copy_to(self, target: Path) -> None:
        """A consistent copy that is to be worked on: page by page, which is faster than `backup_to`."""
        with translated(target), self.read() as connection:
            copy = sqlite3.connect(target, isolation_level=None)
            try:
                connection.backup(copy)
            finally:
                copy.close()

    def give_back(self) -> int:
        """Return free pages to the disk; how many there were."""

        def job(connection: sqlite3.Connection) -> int:
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            # The pragma frees a page a step and has no columns, so that Python's cursor steps it only once.
            for _ in range(free):
                connection.execute("PRAGMA incremental_vacuum(1)")
            found: int = free
            return found

        return self.write(job)

    def version(self) -> tuple[tuple[int, int], ...]:
        """Something that is another after whoever wrote to the database; a look at two files, no question."""
        found = []
        for path in (self.path, self.path.with_name(self.path.name + "-wal")):
            try:
                state = path.stat()
            except FileNotFoundError:
                found.append((0, 0))
            else:
                found.append((state.st_mtime_ns, state.st_size))
        return tuple(found)

    def close(self) -> None:
        """End the writer after its last job, and close every connection."""
        with self._start_lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._jobs.put(None)
            thread.join()
        with self._readers_lock:
            readers, self._readers = self._readers, []
        for connection in readers:
            connection.close()


def _make_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA mmap_size = 268435456")
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA query_only = ON")


def _transact(connection: sqlite3.Connection, job: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = job(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _migrate(connection: sqlite3.Connection, path: Path, steps: list[Migration]) -> None:
    """Apply what is missing, each step in its own transaction; refuse what is newer or not ours."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migration_history (number INTEGER PRIMARY KEY, name TEXT NOT NULL, "
        "checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
    )
    applied = dict(connection.execute("SELECT number, checksum FROM migration_history"))
    if applied and max(applied) > len(steps):
        raise StoreError(
            f"{path} was written by a newer version (schema {max(applied)}, this one knows {len(steps)})",
            code="newer-database",
            hint="upgrade knowing; nothing was changed in the file",
        )
    for step in steps:
        if step.number in applied:
            if applied[step.number] != step.checksum:
                raise StoreError(
                    f"{path}: migration {step.number} ({step.name}) is not the one that was applied to it",
                    code="migration-changed",
                    hint="use the version of knowing that wrote it, or restore a backup",
                )
            continue
        if step.rewrites_data and applied:
            backup = path.with_name(f"{path.name}.before-{step.number:04}")
            backup.unlink(missing_ok=True)
            connection.execute("VACUUM INTO ?", (str(backup),))
        connection.execute("BEGIN IMMEDIATE")
        try:
            if not connection.execute("SELECT 1 FROM migration_history WHERE number = ?", (step.number,)).fetchone():
                for statement in _statements(step.sql):
                    connection.execute(statement)
                row = (step.number, step.name, step.checksum, int(time.time()))
                connection.execute("INSERT INTO migration_history VALUES (?, ?, ?, ?)", row)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit behind our back."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip() and not pending.lstrip().startswith("--"):
        yield pending


@contextmanager
def translated(path: Path, *, system: bool = True) -> Iterator[None]:
    """SQLite's and the system's errors as ours: the file, what happened, and the way out."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(path, error) from error
    except PermissionError as error:
        if not system:
            raise
        raise StoreError(f"{path}: not allowed ({error.strerror})", hint="check who owns the directory") from error
    except OSError as error:
        if not system:
            raise
        raise StoreError(f"{path}: {error.strerror or error}", hint="check the disk and the directory") from error


def _translated(path: Path, error: sqlite3.Error) -> StoreError:
    text = str(error)
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "not a database" in text or "malformed" in text:
        return StoreError(
            f"{path} is damaged or no database ({text})",
            code="corrupt-database",
            hint="run `knowing fsck --repair`, restore a backup, or remove the repository and add it again",
        )
    if name.startswith("SQLITE_FULL") or "disk is full" in text:
        return StoreError(f"{path}: the disk is full", code="disk-full", hint="free some space and try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StoreError(
            f"{path} cannot be written or opened ({text})",
            code="read-only",
            hint="check the permissions of the file and of its directory",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreError(f"{path} is in use by another program ({text})", code="busy", hint="try again in a moment")
    return StoreError(f"{path}: {text}", hint="run `knowing fsck`")
