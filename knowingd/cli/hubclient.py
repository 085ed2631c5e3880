"""A connection to a hub: that of a peer, but whoever asks has a token instead of a key."""

from __future__ import annotations

from typing import Final

from knowingd.errors import PeerError
from knowingd.sync.client import PeerClient

MAX_ANSWER: Final = 64 << 20


class HubClient(PeerClient):
    """A connection of somebody with a token."""

    def fetch(self, path: str, token: str) -> tuple[int, bytes]:
        """Status and body of what a node answers."""
        headers = {"Accept": "application/json", "Authorization": f"Bearer {token}"}
        with self._translated():
            response = self._request("GET", self._parts.path + path, None, headers)
            data = response.read(MAX_ANSWER + 1)
        if len(data) > MAX_ANSWER:
            self.close()
            raise PeerError(f"{self.url} answers with more than is ever taken", code="too-large")
        return response.status, data
