"""What indexing keeps of a tree: summaries of files, and which units looked at which keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256

from knowingd.store.rows import IndexedFile
from knowingd.store.session import Session, insert


def _number(key: str) -> int:
    """A key as a signed number of 64 bits; two keys that fall together only cost a unit linked in vain."""
    return int.from_bytes(sha256(key.encode()).digest()[:8], "big", signed=True)


class IndexCache:
    """The index tables behind one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def state(self, key: str) -> bytes | None:
        """Something kept about the whole tree."""
        row = self._session.execute("SELECT value FROM index_state WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def put_state(self, key: str, value: bytes) -> None:
        """Keep something about the whole tree."""
        self._session.execute("INSERT OR REPLACE INTO index_state VALUES (?, ?)", (key, value))

    def files(self) -> dict[str, IndexedFile]:
        """Every file that was read."""
        rows = self._session.execute("SELECT path, content_id, reason, summary IS NOT NULL FROM index_files")
        return {path: IndexedFile(content, reason, bool(has)) for path, content, reason, has in rows}

    def summary(self, path: str) -> bytes | None:
        """The packed summary of a file."""
        row = self._session.execute("SELECT summary FROM index_files WHERE path = ?", (path,)).fetchone()
        return row[0] if row else None

    def summaries(self) -> Iterable[tuple[str, bytes]]:
        """All packed summaries."""
        return self._session.execute("SELECT path, summary FROM index_files WHERE summary IS NOT NULL")

    def put_files(self, files: Mapping[str, tuple[str, str | None, bytes | None]]) -> None:
        """Keep what was read of files: content id, reason, packed summary."""
        self._session.executemany(
            "INSERT INTO index_files (path, content_id, reason, summary) VALUES (?, ?, ?, ?) ON CONFLICT (path) "
            "DO UPDATE SET content_id = excluded.content_id, reason = excluded.reason, summary = excluded.summary",
            ((path, *row) for path, row in sorted(files.items())),
        )

    def drop_files(self, paths: Iterable[str]) -> None:
        """Forget files."""
        self._session.executemany("DELETE FROM index_files WHERE path = ?", ((path,) for path in paths))

    def visitors(self, keys: Iterable[str]) -> set[str]:
        """The units that looked at one of these keys."""
        found: set[str] = set()
        query = "SELECT u.name FROM index_visits v JOIN index_units u ON u.id = v.unit"
        found.update(name for (name,) in self._session.select(query, "v.key", {_number(key) for key in keys}))
        return found

    def put_visits(self, visits: Mapping[str, Collection[str]]) -> None:
        """Keep which keys units looked at, in place of what was kept of these units."""
        ids: dict[str, int] = dict(self._session.execute("SELECT name, id FROM index_units").fetchall())
        fresh = [name for name in sorted(visits) if name not in ids]
        first = max(ids.values(), default=0) + 1
        ids.update((name, first + place) for place, name in enumerate(fresh))
        self._session.executemany("INSERT INTO index_units VALUES (?, ?)", ((ids[name], name) for name in fresh))
        known = visits.keys() - fresh
        self._session.executemany("DELETE FROM index_visits WHERE unit = ?", ((ids[name],) for name in known))
        numbers = {key: _number(key) for key in set().union(*visits.values())}
        rows = sorted({(numbers[key], ids[name]) for name, keys in visits.items() for key in keys})
        insert(self._session, "INSERT INTO index_visits", rows)

    def drop_units(self, names: Iterable[str]) -> None:
        """Forget units."""
        for name in names:
            self._session.execute(
                "DELETE FROM index_visits WHERE unit = (SELECT id FROM index_units WHERE name = ?)", (name,)
            )
            self._session.execute("DELETE FROM index_units WHERE name = ?", (name,))

    def clear(self) -> None:
        """Forget everything."""
        for table in ("index_state", "index_files", "index_units", "index_visits"):
            self._session.execute(f"DELETE FROM {table}")
