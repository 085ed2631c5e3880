"""Pulls from peers while the node runs: at once when a peer says that something is new, and now and then anyway.

One thread a peer, each with a connection of its own: a peer that hangs holds nobody else up. A peer that fails is tried
again after a while that grows with its failures and is never the same twice.
"""

from __future__ import annotations

import threading
from typing import Final

import structlog

from knowingd.errors import KnowingError
from knowingd.federation import Federation, back_off
from knowingd.settings import FILE, read_settings
from knowingd.store.peerstore import PeerRow

LOOK_EVERY: Final = 1.0
PULL_EVERY: Final = 300.0

log = structlog.get_logger("knowing.sync")


class Background:
    """The pulling threads of a running node."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self._stop = threading.Event()
        self._threads: dict[bytes, threading.Thread] = {}
        self._manager = threading.Thread(target=self._manage, name="knowing-peers", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._manager.start()

    def stop(self) -> None:
        """End; what is being committed is finished or undone by its transaction."""
        self._stop.set()
        self._manager.join(5)

    def _manage(self) -> None:
        seen: object = None
        while not self._stop.wait(LOOK_EVERY if self._threads else 0.1):
            seen = self._read_settings(seen)
            for peer in self.federation.syncable():
                thread = self._threads.get(peer.origin)
                if thread is None or not thread.is_alive():
                    thread = threading.Thread(target=self._follow, args=(peer,), name=f"peer {peer.name}", daemon=True)
                    self._threads[peer.origin] = thread
                    thread.start()
            self._stop.wait(LOOK_EVERY)

    def _read_settings(self, seen: object) -> object:
        """Grants of the settings file, whenever it or the peers have changed; what was seen now."""
        home = self.federation.node.home.path
        try:
            now = ((home / FILE).stat().st_mtime_ns, [peer.name for peer in self.federation.peers.peers()])
        except FileNotFoundError:
            now = (0, [])
        if now == seen or (seen is None and now[0] == 0):
            return now
        try:
            self.federation.apply_grants(read_settings(home))
            log.info("settings read", file=str(home / FILE))
        except KnowingError as error:
            log.warning("settings not read", error=error.message)
        return now

    def _follow(self, peer: PeerRow) -> None:
        """One peer, until it is removed or the node stops."""
        while not self._stop.is_set():
            known = self.federation.peers.peer(peer.origin)
            if known is None or known.url is None:
                return
            synced = self.federation.sync(known)
            for outcome in synced.outcomes:
                if outcome.error is not None:
                    log.warning("not pulled", peer=known.name, repo=outcome.repo, error=outcome.error.message)
                elif outcome.mode != "noop":
                    log.info(
                        "pulled", peer=known.name, repo=outcome.repo, mode=outcome.mode, added=outcome.added,
                        removed=outcome.removed, bytes=outcome.bytes_received,
                    )  # fmt: skip
            if synced.error is not None:
                failures = self.federation.peers.sync_state(known.id).failures
                log.warning("peer failed", peer=known.name, error=synced.error.message, failures=failures)
                self._stop.wait(back_off(failures))
                continue
            self._wait_for_news(known)

    def _wait_for_news(self, peer: PeerRow) -> None:
        """Return when the peer has something new, or when it is time to ask anyway."""
        client = self.federation.client(peer)
        view = self.federation.peers.sync_state(peer.id).view
        deadline = threading.Event()
        timer = threading.Timer(PULL_EVERY, deadline.set)
        timer.daemon = True
        timer.start()
        try:
            with client.stream("/v1/events") as lines:
                for line in lines:
                    if self._stop.is_set() or deadline.is_set():
                        return
                    if line.startswith(b"data: ") and line[6:].strip().decode() != (view.hex() if view else ""):
                        return
        except (KnowingError, OSError, ValueError):
            self._stop.wait(back_off(1))  # the next pull says what is wrong
        finally:
            timer.cancel()
            client.close()
