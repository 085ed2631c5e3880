"""Tells peers that something is new, as server-sent events: the number of the change, and what the roster is now.

Other processes index into the same home, so the databases are looked at a few times a second: SQLite says cheaply
whether anything was written. Numbers count the changes since the server started, one after another, so that whoever
missed one sees it; the `since` of the stream tells two runs of a server apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Final

from aiohttp import web

from knowingd.errors import KnowingError
from knowingd.federation import Federation
from knowingd.store.peerstore import PeerRow
from knowingd.sync.serving import Serving
from knowingd.sync.visible import PeerViewer

LOOK_EVERY: Final = 0.2
HEARTBEAT: Final = 10.0


class Events:
    """The event streams of one server."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.serving = Serving(federation)
        self.run = secrets.token_hex(4)
        self.number = 0
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def stop(self) -> None:
        """End all streams."""
        self._ended = True
        async with self._changed:
            self._changed.notify_all()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        seen = None
        while True:
            version = await asyncio.to_thread(self.federation.nodes.database.version)
            if version != seen:
                seen = version
                async with self._changed:
                    self.number += 1
                    self._changed.notify_all()
            await asyncio.sleep(LOOK_EVERY)

    async def serve(self, request: web.Request, peer: PeerRow) -> web.StreamResponse:
        """One peer's stream: an event when what it may see has changed, a comment now and then so that it knows."""
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # the peer has gone, as peers do
            await self._tell(response, peer)
        return response

    async def _tell(self, response: web.StreamResponse, peer: PeerRow) -> None:
        shown: bytes | None = None
        count = 0
        while not self._ended:
            number = self.number
            view = await asyncio.to_thread(self._view, peer)
            if view is None:
                break  # no longer a peer
            if view != shown:
                shown = view
                count += 1
                await response.write(f"id: {self.run}-{count}\nevent: roster\ndata: {view.hex()}\n\n".encode())
            async with self._changed:
                if self.number == number and not self._ended:
                    try:
                        await asyncio.wait_for(self._changed.wait(), HEARTBEAT)
                    except TimeoutError:
                        await response.write(b": still here\n\n")

    def _view(self, peer: PeerRow) -> bytes | None:
        known = self.federation.peers.peer(peer.origin)
        if known is None or known.state != peer.state:
            return None
        try:
            answer = self.serving.roster(PeerViewer(self.federation, known), {"view": None, "logs": []})
        except KnowingError:
            return None
        found: bytes = answer["view"]
        return found
