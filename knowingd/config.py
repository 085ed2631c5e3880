"""Where a node keeps its things. Surfaces read the environment; everybody else is given a `Home`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The data directory of a node, and what stands where in it."""

    path: Path

    @classmethod
    def at(cls, given: str | None) -> Home:
        """The directory that was given, or the usual one of this system."""
        if given:
            return cls(Path(given).expanduser().absolute())
        import platformdirs  # noqa: PLC0415 - a tenth of the start of whoever says where

        return cls(Path(platformdirs.user_data_dir("knowing")))

    @property
    def node_database(self) -> Path:
        """The node's own database."""
        return self.path / "node.db"

    @property
    def catalog(self) -> Path:
        """Which repositories may know a key; derived, and made again when it is not there."""
        return self.path / "catalog.db"

    @property
    def key(self) -> Path:
        """The node's signing keys."""
        return self.path / "keys"

    def repository(self, name: str) -> Path:
        """The database of a repository, by its name on the roster."""
        return self.path / "repos" / name

    def mirror(self, name: str) -> Path:
        """The bare mirror of a repository that was added by its URL."""
        return self.path / "mirrors" / name

    def lock(self, name: str) -> Path:
        """The lock that writers of a database hold."""
        return self.path / "locks" / f"{name}.lock"
