"""What the indexer reads from: one interface over commits, work trees and plain directories.

Promises: `entries()` names everything in the tree once, sorted by path, and what is not to be extracted has its
reason; `read()` gives the bytes of the others, in the order asked for, one file at a time. Both depend on nothing but
the content: no user configuration, no clock, no order of a directory. Must never: follow a symbolic link, open what is
not a regular file, or run anything that the tree or its repository configures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from knowing_protocol.vocabulary import Coverage

RULES: Final = "source/1"
"""Names the rules of this package that decide what is extracted. Part of the extractor's id: a change is a new one."""


class Entry(NamedTuple):
    """One thing in a tree. `path` is written as `paths.py` says.

    `content_id` is equal where the content is: the object id in a repository, the SHA-256 of the bytes in a plain
    directory (empty there for what is not read). `reason` says why it is not extracted.
    """

    path: str
    content_id: str
    size: int
    reason: Coverage | None = None


class Source(Protocol):
    """A tree of files at one moment."""

    @property
    def commit(self) -> str:
        """The commit in hex; for a plain directory the digest of its content."""

    @property
    def branch(self) -> str:
        """The branch that was asked for or is checked out, else empty."""

    @property
    def root(self) -> Path:
        """The directory of the repository, or the plain directory."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should be told about how the path was understood."""

    def entries(self) -> list[Entry]:
        """Everything in the tree, sorted by path."""

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """The content of entries, in their order.

        The entry comes back with the reason that its content gave, if any; one that has a reason already is not opened
        and comes with no bytes. A file that vanished or changed since it was listed comes back as `failed`.
        """

    def close(self) -> None:
        """Let go of processes, descriptors and temporary files."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
