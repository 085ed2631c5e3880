"""What serving and pulling need of a node."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from knowing_protocol.note import Note

from knowingd.store.interface import GraphStore
from knowingd.store.nodestore import NodeStore, RosterRow
from knowingd.store.originstore import OriginStore
from knowingd.store.peerstore import PeerStore


class Host(Protocol):
    """A node as its peers meet it."""

    @property
    def origin(self) -> bytes:
        """Its id."""

    @property
    def first_key(self) -> bytes:
        """The key that it is named after."""

    @property
    def nodes(self) -> NodeStore:
        """Roster and log."""

    @property
    def peers(self) -> PeerStore:
        """Whom it knows."""

    @property
    def origins(self) -> OriginStore:
        """What it holds of other nodes' histories."""

    def graph(self, row: RosterRow) -> AbstractContextManager[GraphStore]:
        """The database of a repository, open for as long as it is needed."""

    def writing(self, row: RosterRow) -> AbstractContextManager[None]:
        """The right to write a repository's database, which one process has at a time."""

    def staging(self, row: RosterRow) -> Path:
        """Where the pieces of a first transfer are kept."""

    def sign_node(self, note: str) -> str:
        """A note that speaks for this node."""

    def signed_by_us(self, note: Note) -> bool:
        """Whether the key that signs now has signed a note."""

    def check_room(self, peer: bytes | None = None) -> None:
        """Refuse where there is no room to take in more."""
