"""Numbered SQL migrations of the repository databases and the node database.

A migration is a file `NNNN_name.sql`; its number is its place, its checksum is kept in every database it was applied
to. A file that was released is never changed: what must differ gets the next number. A first line `-- rewrites data`
asks for a backup before it runs.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
REWRITES = "-- rewrites data"


class Migration(NamedTuple):
    """One step from a schema to the next."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What a database remembers of it."""
        return sha256(self.sql.encode()).hexdigest()

    @property
    def rewrites_data(self) -> bool:
        """Whether a backup is made before it runs."""
        return self.sql.startswith(REWRITES)


def migrations(family: str) -> list[Migration]:
    """All migrations of `repository`, `node` or `catalog`, in order; read once a process."""
    return list(_read(family))


@cache
def checksums(family: str) -> dict[int, str]:
    """What an up-to-date database remembers of a family's migrations: number to checksum."""
    return {one.number: one.checksum for one in _read(family)}


@cache
def _read(family: str) -> tuple[Migration, ...]:
    found = []
    for file in files(__package__).joinpath(family).iterdir():
        match = _NAME.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    found.sort()
    if [one.number for one in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {family} are not numbered 1 to {len(found)}")
    return tuple(found)
