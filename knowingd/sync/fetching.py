"""Fetches the pieces of a first transfer, from one peer or from several that share the work.

Each piece is kept as soon as it is here, so that a kill costs the answer under way, and the next run may go on with
another peer: pieces are named by what they hold. The first peer is the one whose offer is taken; another one that fails
or does not have what is asked is left, and its share goes back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from knowing_protocol.errors import MalformedError

from knowingd.errors import KnowingError
from knowingd.store.codes import LAYERS
from knowingd.store.staging import Staging
from knowingd.sync.chunks import Piece, piece_from
from knowingd.sync.following import Call
from knowingd.sync.wire import COMPRESSED, MEDIA_TYPE, ZSTD_MAGIC, decode, encode

MAX_PIECES: Final = 1_000_000
PIECES_AT_ONCE: Final = 64


class Source(NamedTuple):
    """A peer that pieces are asked of."""

    origin: bytes
    call: Call


def piece_list(answer: Any) -> list[Piece]:
    """The pieces that an answer lists."""
    if not isinstance(answer, dict) or not isinstance(answer.get("pieces"), list):
        raise MalformedError("a list of pieces is not well formed", code="chunk")
    if len(answer["pieces"]) > MAX_PIECES:
        raise MalformedError("a transfer has too many pieces", code="chunk")
    return [piece_from(one) for one in answer["pieces"]]


class Fetch:
    """One first transfer."""

    def __init__(
        self, about: dict[str, Any], todo: Sequence[Piece], staging: Staging, progress: Callable[[int, int], None]
    ) -> None:
        self.about = about
        self.staging = staging
        self.progress = progress
        self._have = staging.names()
        self._done: list[Piece] = []
        self._waiting: list[Piece] = []
        self._total = 0
        self._add(todo)
        self._flying = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def _add(self, pieces: Sequence[Piece]) -> None:
        """More pieces to have; those that an earlier run kept are here."""
        if self._total + len(pieces) > MAX_PIECES:
            raise MalformedError("a transfer has too many pieces", code="chunk")
        self._total += len(pieces)
        for piece in reversed(pieces):
            (self._done if _name(piece) in self._have else self._waiting).append(piece)

    def run(self, sources: Sequence[Source]) -> list[list[Any]]:
        """All packs of both graphs."""
        first, *others = sources
        threads = [threading.Thread(target=self._helped, args=(one,), daemon=True) for one in others]
        for thread in threads:
            thread.start()
        try:
            self._work(first, PIECES_AT_ONCE if not others else PIECES_AT_ONCE // 4)
        except BaseException as error:
            self._error = error
            raise
        finally:
            with self._changed:
                self._changed.notify_all()
            for thread in threads:
                thread.join()
        self.staging.drop(self._have.difference(map(_name, self._done)))
        packs: list[list[Any]] = [[] for _ in LAYERS]
        for piece in self._done:
            packs[piece.space.layer].append(_unpacked(self.staging.get(_name(piece)) or b""))
        return packs

    def _helped(self, source: Source) -> None:
        try:
            self._work(source, PIECES_AT_ONCE // 4)
        except KnowingError:
            return  # its share is back in the queue, and the first peer is still there

    def _work(self, source: Source, most: int) -> None:
        while (batch := self._take(most)) is not None:
            answered: list[bytes | list[Piece]] = []
            try:
                answered = ask_pieces(source.call, self.about, batch)
            finally:
                self._put(source, batch, answered)

    def _take(self, most: int) -> list[Piece] | None:
        """Pieces to ask for next; None when there is nothing left, here or with others."""
        with self._changed:
            while not self._waiting and self._flying and self._error is None:
                self._changed.wait()
            if not self._waiting or self._error is not None:
                return None
            batch = self._waiting[-most:][::-1]
            del self._waiting[-most:]
            self._flying += 1
            return batch

    def _put(self, source: Source, batch: Sequence[Piece], answered: Sequence[bytes | list[Piece]]) -> None:
        taken = 0
        try:
            for piece, found in zip(batch, answered, strict=False):
                if isinstance(found, bytes):
                    self.staging.put(_name(piece), found, source.origin)
                with self._changed:
                    if isinstance(found, bytes):
                        self._done.append(piece)
                    else:
                        self._add(found)
                taken += 1
        finally:  # whatever went wrong, somebody may be waiting for what is not taken
            with self._changed:
                self._waiting += batch[taken:][::-1]
                self._flying -= 1
                self._changed.notify_all()
        self.progress(len(self._done), len(self._done) + len(self._waiting))


def ask_pieces(call: Call, about: dict[str, Any], pieces: Sequence[Piece]) -> list[bytes | list[Piece]]:
    """For each of the first pieces its data, or the smaller pieces that it consists of."""
    answer = call("piece", {**about, "pieces": [piece.plain() for piece in pieces]})
    packs = answer.get("packs") if isinstance(answer, dict) else None
    if not isinstance(packs, list) or not 0 < len(packs) <= len(pieces):
        raise MalformedError("an answer with pieces is not well formed", code="chunk")
    found: list[bytes | list[Piece]] = []
    for piece, pack in zip(pieces, packs, strict=False):
        if isinstance(pack, list) and len(pack) == 2:
            found.append(encode(pack[1])[0])
            continue
        smaller = piece_list({"pieces": pack[0] if isinstance(pack, list) and len(pack) == 1 else None})
        if not smaller or not all(one.is_below(piece) for one in smaller):
            raise MalformedError("a piece consists of others than those below it", code="chunk")
        found.append(smaller)
    return found


def _name(piece: Piece) -> str:
    return f"{piece.root.hex()} {piece.name}"


def _unpacked(data: bytes) -> Any:
    return decode(data, COMPRESSED if data[:4] == ZSTD_MAGIC else MEDIA_TYPE)
