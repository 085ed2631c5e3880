"""Tells peers that something is new, as server-sent events: the number of the change, and what the roster is now.

Other processes index into the same home, so the databases are looked at a few times a second: the files say cheaply
whether anything was written. An id has the run of the server and a number that grows by one with each change of what
the peer may see, as far as one of its streams saw it: another number than the next one means that something was missed.
What is new stands in the event itself, so that nothing is lost by that.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Final

from aiohttp import web

from knowingd.errors import KnowingError
from knowingd.federation import Federation
from knowingd.http.callers import BusyPeerError
from knowingd.store.peerstore import PeerRow
from knowingd.sync.serving import Serving
from knowingd.sync.visible import PeerViewer

LOOK_EVERY: Final = 0.2
HEARTBEAT: Final = 10.0
MAX_STREAMS: Final = 4


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
        self._shown: dict[bytes, tuple[bytes, int]] = {}
        self._streams: dict[bytes, int] = {}

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
        if self._streams.get(peer.origin, 0) >= MAX_STREAMS:
            raise BusyPeerError("streams", HEARTBEAT)
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        self._streams[peer.origin] = self._streams.get(peer.origin, 0) + 1
        try:
            with contextlib.suppress(ConnectionResetError):  # the peer has gone, as peers do
                await self._tell(response, peer)
        finally:
            self._streams[peer.origin] -= 1
        return response

    async def _tell(self, response: web.StreamResponse, peer: PeerRow) -> None:
        loop = asyncio.get_running_loop()
        sent: bytes | None = None
        quiet_since = loop.time()
        while not self._ended:
            number = self.number
            view = await asyncio.to_thread(self._view, peer)
            if view is None:
                break  # no longer a peer
            newest, count = self._shown.get(peer.origin, (None, 0))
            if view != newest:
                count += 1
                self._shown[peer.origin] = (view, count)
            if view != sent:  # of this stream: another one of the same peer may have been faster
                sent = view
                await response.write(f"id: {self.run}-{count}\nevent: roster\ndata: {view.hex()}\n\n".encode())
                quiet_since = loop.time()
            elif loop.time() - quiet_since >= HEARTBEAT:
                await response.write(b": still here\n\n")
                quiet_since = loop.time()
            async with self._changed:
                if self.number == number and not self._ended:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), HEARTBEAT - (loop.time() - quiet_since) + 0.01)

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
