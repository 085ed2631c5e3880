"""Numbers for Prometheus, as text: made when they are asked for, from the databases and a few counters."""

from __future__ import annotations

import threading
import time
from collections import Counter

from knowing_protocol.history import checkpoint_time
from knowing_protocol.note import parse_checkpoint, parse_note

from knowingd.federation import Federation


class Metrics:
    """The counters of one server."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._bytes: Counter[tuple[str, str]] = Counter()

    def request(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        known = path if path.startswith("/v1/") or path in ("/healthz", "/readyz", "/metrics") else "other"
        if status == 404:
            known = "other"  # strangers must not be able to fill memory with paths
        with self._lock:
            self._requests[known, status] += 1
            self._seconds[known] += int(seconds * 1e6)

    def moved(self, peer: str, received: int, sent: int) -> None:
        """Bodies were exchanged with a peer."""
        with self._lock:
            self._bytes[peer, "received"] += received
            self._bytes[peer, "sent"] += sent

    def text(self) -> str:
        """Everything, in Prometheus' text format."""
        now = time.time()
        federation = self.federation
        with self._lock:
            lines = [
                "# TYPE knowing_http_requests_total counter",
                *(f'knowing_http_requests_total{{path="{path}",status="{status}"}} {count}'
                  for (path, status), count in sorted(self._requests.items())),
                "# TYPE knowing_http_request_seconds_total counter",
                *(f'knowing_http_request_seconds_total{{path="{path}"}} {micro / 1e6:.6f}'
                  for path, micro in sorted(self._seconds.items())),
                "# TYPE knowing_peer_bytes_total counter",
                *(f'knowing_peer_bytes_total{{peer="{peer}",direction="{way}"}} {count}'
                  for (peer, way), count in sorted(self._bytes.items())),
            ]  # fmt: skip
        rows = federation.nodes.roster()
        lines += ["# TYPE knowing_repositories gauge", f"knowing_repositories {len(rows)}"]
        lines.append("# TYPE knowing_repository_disk_bytes gauge")
        for row in rows:
            path = federation.node.home.repository(row.database)
            size = path.stat().st_size if path.exists() else 0
            lines.append(f'knowing_repository_disk_bytes{{repo="{_label(row.url)}",ref="{_label(row.ref)}"}} {size}')
        note = federation.nodes.checkpoint()
        if note:
            age = now - checkpoint_time(parse_checkpoint(parse_note(note).text))
            lines += ["# TYPE knowing_checkpoint_age_seconds gauge", f"knowing_checkpoint_age_seconds {age:.0f}"]
        lines.append("# TYPE knowing_sync_lag_seconds gauge")
        lines.append("# TYPE knowing_sync_failures gauge")
        for peer in federation.peers.peers():
            state = federation.peers.sync_state(peer.id)
            if state.last_ok is not None:
                lines.append(f'knowing_sync_lag_seconds{{peer="{_label(peer.name)}"}} {now - state.last_ok:.0f}')
            lines.append(f'knowing_sync_failures{{peer="{_label(peer.name)}"}} {state.failures}')
        lines += ["# TYPE knowing_quarantined gauge", f"knowing_quarantined {len(federation.origins.quarantines())}"]
        lines += ["# TYPE knowing_evidence gauge", f"knowing_evidence {len(federation.origins.evidence())}"]
        return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
