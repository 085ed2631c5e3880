"""Requests to another node: signed, bounded, over one connection, given up when nothing moves for half a minute.

Plain `http.client`: a pull is one request after another, and a command that pulls should not wait for a framework to be
imported. The server is known by its key: who cannot sign with it is not the peer, whatever its certificate says.
"""

from __future__ import annotations

import http.client
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from knowingd.errors import KnowingError, PeerError
from knowingd.sync.pulling import Meter
from knowingd.sync.signatures import sign
from knowingd.sync.wire import COMPRESSED, MAX_SENT, MEDIA_TYPE, decode, encode

TIMEOUT: Final = 30.0
MAX_PATIENCE: Final = 30.0
"""How many seconds a request waits in all for a peer that is busy."""
_MAX_ERROR: Final = 1 << 16


class Identity(NamedTuple):
    """Who asks: the key that signs requests now, and how."""

    key: bytes
    sign: Callable[[bytes], bytes]


class PeerClient:
    """A connection to one node; not for several threads at once."""

    def __init__(
        self,
        url: str,
        recipient: bytes,
        me: Identity | None,
        pin: bytes | None = None,
        timeout: float = TIMEOUT,
        token: str = "",
    ) -> None:
        """`me` is None for requests that need no signature, or that carry a token instead."""
        self.url = url
        self.recipient = recipient
        self.me = me
        self.pin = pin
        self.timeout = timeout
        self.token = token
        self.meter = Meter()
        self._parts = urlsplit(url)
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, name: str, value: Any) -> Any:
        """Ask for something, by the name of its endpoint; where the peer asks for patience, it is given some."""
        waited = 0.0
        while True:
            try:
                return self._call(name, value)
            except PeerError as error:
                wait = _patience(error)
                if wait is None or waited + wait > MAX_PATIENCE:
                    raise
                waited += wait
                time.sleep(wait)

    def _call(self, name: str, value: Any) -> Any:
        body, media_type = encode(value)
        path = f"/v1/{name}"  # what is signed: whoever is in front of the node may have it under a longer one
        headers = {"Content-Type": media_type, "Accept": f"{COMPRESSED}, {MEDIA_TYPE}"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        elif self.me is not None:
            headers |= sign(
                "POST",
                path,
                "",
                body,
                self.recipient,
                self.me.key,
                self.me.sign,
                int(time.time()),
                secrets.token_bytes(16),
            )
        with self._translated():
            response = self._request("POST", self._parts.path + path, body, headers)
            data = response.read(MAX_SENT + 1)
        self.meter.trips += 1
        self.meter.sent += len(body)
        self.meter.received += len(data)
        if len(data) > MAX_SENT:
            self.close()
            raise PeerError("the peer answers with more than is ever taken", code="too-large")
        if response.status != 200:
            error = _refusal(self.url, response.status, data)
            error.retry_after = response.headers.get("Retry-After", "")
            raise error
        return decode(data, response.headers.get_content_type())

    def get(self, path: str) -> Any:
        """A JSON document that needs no signature."""
        with self._translated():
            response = self._request("GET", self._parts.path + path, None, {"Accept": "application/json"})
            data = response.read(_MAX_ERROR + 1)
        if response.status != 200 or len(data) > _MAX_ERROR:
            raise _refusal(self.url, response.status, data)
        try:
            return json.loads(data)
        except ValueError:
            raise PeerError(f"{self.url} does not answer like a knowing node", code="not-a-node") from None

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[bytes]]:
        """Lines of a signed request that goes on; each must come before the timeout."""
        assert self.me is not None
        signed = sign(
            "GET",
            path,
            "",
            b"",
            self.recipient,
            self.me.key,
            self.me.sign,
            int(time.time()),
            secrets.token_bytes(16),
        )
        with self._translated():
            response = self._request("GET", self._parts.path + path, None, {"Accept": "text/event-stream", **signed})
            if response.status != 200:
                raise _refusal(self.url, response.status, response.read(_MAX_ERROR))
            try:
                yield iter(lambda: response.readline(_MAX_ERROR), b"")
            finally:
                self.close()

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> http.client.HTTPResponse:
        fresh = self._connection is None
        try:
            connection = self._connected()
            connection.request(method, path, body, headers)
            return connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self.close()
            if fresh:
                raise
        # A connection that was kept open and that the other side had closed meanwhile.
        connection = self._connected()
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                self._connection = self._secured(host, port)
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=self.timeout)
        return self._connection

    def _secured(self, host: str, port: int | None) -> http.client.HTTPConnection:
        import ssl  # noqa: PLC0415 - only for those who need it

        context = ssl.create_default_context()
        if self.pin is not None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the fingerprint says more than any authority
        connection = http.client.HTTPSConnection(host, port, timeout=self.timeout, context=context)
        connection.connect()
        if self.pin is not None:
            raw = connection.sock.getpeercert(binary_form=True)
            if raw is None or sha256(raw).digest() != self.pin:
                connection.close()
                raise PeerError(
                    f"{self.url} shows another certificate than the one that was pinned",
                    code="certificate",
                    hint="somebody is in between, or the peer has a new certificate: ask for a new invitation",
                )
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            self.close()
            raise PeerError(
                f"{self.url} makes no progress for {self.timeout:.0f} seconds", code="timeout", hint="try again later"
            ) from error
        except OSError as error:
            self.close()
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise PeerError(
                    f"no authority vouches for the certificate of {self.url}",
                    code="certificate",
                    hint="its own certificate is known by its fingerprint: add the peer by an invitation, or give it",
                ) from error
            raise PeerError(
                f"{self.url} cannot be reached: {error.strerror or error}",
                code="unreachable",
                hint="is `knowing serve` running there, and the address right?",
            ) from error
        except http.client.HTTPException as error:
            self.close()
            raise PeerError(f"{self.url} does not answer in HTTP", code="not-a-node") from error
        except KnowingError:
            raise


def _patience(error: PeerError) -> float | None:
    """How long to wait before the same request is sent again; None if that is of no use."""
    if error.code == "replayed":
        return 1.1  # signed in the second in which the peer started: it cannot know whether it has seen that before
    if error.code == "too-many-requests":
        return min(float(error.retry_after), 10.0) if error.retry_after.isdigit() else 1.0
    return None


def _refusal(url: str, status: int, data: bytes) -> PeerError:
    """A refusal as the other side words it."""
    try:
        found = json.loads(data[:_MAX_ERROR])["error"]
        code, message, hint = (str(found.get(name, "")) for name in ("code", "message", "hint"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return PeerError(f"{url} answers with HTTP status {status}", code="not-a-node")
    printable = "".join(char for char in message[:500] if char.isprintable())
    hint = "".join(char for char in hint[:300] if char.isprintable())
    return PeerError(f"{url}: {printable}", code=code[:60] or "refused", hint=hint)
