"""The HTTP application: every request has a name of its own, a bound, a caller, and one shape of refusal.

What a peer may not see answers like what does not exist: the same code, the same bytes but for the request's name.
Work on databases happens in threads, so that a long answer holds nobody up.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog
from aiohttp import web
from knowing_protocol.errors import KnowingError

from knowingd.errors import BusyError, NotFoundError, UsageError
from knowingd.federation import Federation, NotAllowedError
from knowingd.http.callers import MAX_REQUEST, BusyPeerError, Callers
from knowingd.http.events import Events
from knowingd.http.metrics import Metrics
from knowingd.http.openapi import document
from knowingd.http.queries import Queries, TooSlowError
from knowingd.store.peerstore import PeerRow
from knowingd.sync.limits import Limiter, Limits
from knowingd.sync.serving import MovedError, Serving
from knowingd.sync.signatures import SignatureError
from knowingd.sync.tokens import TokenError
from knowingd.sync.visible import PeerViewer, TokenViewer, Viewer
from knowingd.sync.wire import MAX_BODY, MAX_QUESTION, decode, encode

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PEER_LIMITS: Final = Limits(per_second=50.0, burst=400.0, concurrent=16)
MAX_INTRODUCTION: Final = 1 << 18
"""The most that somebody who is not known may say: its keys, and where it is."""
STRANGER_LIMITS: Final = Limits(per_second=5.0, burst=100.0, concurrent=8)  # behind a proxy, all are one

log = structlog.get_logger("knowing.http")


def status_of(error: KnowingError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, (SignatureError, TokenError)):
        return 401
    if isinstance(error, NotAllowedError):
        return 403 if error.code != "token-missing" else 401
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, MovedError):
        return 409
    if isinstance(error, BusyPeerError):
        return 429
    if isinstance(error, (BusyError, TooSlowError)):
        return 503
    return 400 if isinstance(error, UsageError) or error.exit_code in (2, 3) else 500


class Server:
    """The endpoints of one node."""

    def __init__(self, federation: Federation, *, threads: int = 4) -> None:
        self.federation = federation
        self.serving = Serving(federation)
        self.callers = Callers(federation, int(time.time()))
        self.metrics = Metrics(federation)
        self.events = Events(federation)
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="knowing-http")
        self.peer_limits = Limiter(PEER_LIMITS)
        self.stranger_limits = Limiter(STRANGER_LIMITS)
        # One thread is left for peers, however much is asked.
        self.queries = Queries(federation, self.callers, self.work, threads - 1)
        self.ready = False

    def application(self) -> web.Application:
        """The application."""
        app = web.Application(client_max_size=MAX_REQUEST, middlewares=[self._refusals])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/openapi.json", self._openapi)
        app.router.add_get("/v1/node", self._node)
        app.router.add_post("/v1/join", self._join)
        app.router.add_post("/v1/knock", self._knock)
        app.router.add_post("/v1/keys", self._keys)
        app.router.add_get("/v1/events", self._events)
        app.router.add_post("/v1/publish", self._publish)
        for name in ("roster", "log", "pull", "descend", "pieces", "piece"):
            app.router.add_post(f"/v1/{name}", self._peer_handler(getattr(self.serving, name)))
        self.queries.add_to(app.router)
        app.on_startup.append(self._started)
        app.on_shutdown.append(self._stopping)
        return app

    async def _started(self, _: web.Application) -> None:
        self.ready = True
        self.events.start()

    async def _stopping(self, _: web.Application) -> None:
        self.ready = False
        self.queries.stop()
        await self.events.stop()
        self.executor.shutdown(wait=False, cancel_futures=True)

    async def work(self, job: Callable[..., Any], *arguments: Any) -> Any:
        """Do something that waits for disks, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, job, *arguments)

    # Refusals

    @web.middleware
    async def _refusals(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        name = secrets.token_hex(8)
        start = time.monotonic()
        try:
            response = await handler(request)
        except KnowingError as error:
            response = _refusal(error, status_of(error), name)
        except web.HTTPException as error:
            code = {404: "no-endpoint", 405: "method", 413: "too-large"}.get(error.status, "http")
            response = _refusal(KnowingError(error.reason, code=code), error.status, name)
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("request failed", request=name, path=request.path)
            response = _refusal(KnowingError(f"an internal error ({type(error).__name__})"), 500, name)
        self.metrics.request(request.path, response.status, time.monotonic() - start)
        if not response.prepared:
            response.headers["Knowing-Request"] = name
        return response

    # For anybody

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.json_response({"ready": self.ready}, status=200 if self.ready else 503)

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.json_response(document())

    async def _metrics(self, request: web.Request) -> web.Response:
        await self.work(self.callers.operator, request)  # it names repositories and peers
        text = await self.work(self.metrics.text)
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    async def _node(self, request: web.Request) -> web.Response:
        nonce = request.query.get("nonce", "")
        if not (nonce.isascii() and nonce.isalnum() and len(nonce) <= 64):
            raise UsageError("a nonce is up to 64 letters and digits", code="nonce")
        self._limited(self.stranger_limits, request.remote or "")
        return web.json_response(await self.work(self.federation.hello, nonce))

    def _limited(self, limiter: Limiter, caller: str) -> None:
        refusal = limiter.enter(caller, time.monotonic())
        if refusal is not None:
            raise BusyPeerError(refusal.reason, refusal.retry_after)
        limiter.leave(caller)

    async def _stranger(self, request: web.Request) -> tuple[dict[str, Any], Any]:
        """What somebody says of itself, signed with the key that it shows."""
        self._limited(self.stranger_limits, request.remote or "")
        body = await request.read()
        value = decode(body, request.content_type, MAX_INTRODUCTION)
        if not isinstance(value, dict) or not isinstance(value.get("first_key"), bytes):
            raise UsageError("whoever comes shows its first key", code="fields")
        notes = value.get("key_notes")
        if not isinstance(notes, list) or any(not isinstance(note, str) for note in notes) or len(notes) > 64:
            raise UsageError("whoever comes shows its key notes", code="fields")
        return value, self.callers.stranger(request, body, value["first_key"], notes)

    async def _join(self, request: web.Request) -> web.Response:
        value, chain = await self._stranger(request)
        code = value.get("code")
        if not isinstance(code, bytes) or not isinstance(value.get("url"), str):
            raise UsageError("an invitation has a code", code="fields")

        def join() -> PeerRow:
            federation = self.federation
            row = federation.peers.redeem(code, chain.keys[0], int(time.time()), url=value["url"] or None)
            federation.origins.add_origin(chain.keys[0])
            federation.origins.add_key_notes(chain.origin, value["key_notes"])
            return row

        row = await self.work(join)
        log.info("peer joined", peer=row.name)
        return _answer({"state": row.state})

    async def _knock(self, request: web.Request) -> web.Response:
        value, chain = await self._stranger(request)
        url = value.get("url")
        row = await self.work(
            lambda: self.federation.peers.knock(
                chain.keys[0], int(time.time()), url=url if isinstance(url, str) and url else None
            )
        )
        log.info("somebody knocks", peer=row.name, state=row.state)
        return _answer({"state": row.state})

    async def _keys(self, request: web.Request) -> web.Response:
        value, chain = await self._stranger(request)

        def keep() -> None:
            if self.federation.peers.peer(chain.origin) is None:
                raise NotAllowedError("only peers show their keys here")
            self.federation.origins.add_key_notes(chain.origin, value["key_notes"])

        await self.work(keep)
        return _answer({})

    # For peers

    def _peer_handler(self, answer: Callable[[Viewer, Any], dict[str, Any]]) -> Handler:
        """For peers by their signatures; for runners, which read before they publish, by their tokens."""

        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            caller, viewer = await self.work(self._viewer, request, body)
            return await self._limited_answer(caller, lambda value: answer(viewer, value), request, body, MAX_QUESTION)

        return handle

    def _viewer(self, request: web.Request, body: bytes) -> tuple[str, Viewer]:
        if "Authorization" in request.headers:
            token = self.callers.token(request)
            return f"token {token.id}", TokenViewer(self.federation, token.pattern)
        peer = self.callers.peer(request, body)
        self.federation.peers.seen(peer.id, int(time.time()))
        return peer.name, PeerViewer(self.federation, peer)

    async def _limited_answer(
        self, caller: str, answer: Callable[[Any], dict[str, Any]], request: web.Request, body: bytes, limit: int
    ) -> web.Response:
        refusal = self.peer_limits.enter(caller, time.monotonic())
        if refusal is not None:
            raise BusyPeerError(refusal.reason, refusal.retry_after)

        def work() -> tuple[bytes, str]:
            return encode(answer(decode(body, request.content_type, limit)))

        try:
            data, media_type = await self.work(work)
        finally:
            self.peer_limits.leave(caller)
        self.metrics.moved(caller, len(body), len(data))
        return _raw(data, media_type)

    async def _publish(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        token = await self.work(self.callers.token, request)
        return await self._limited_answer(
            f"token {token.id}", lambda value: self.federation.take_published(token, value), request, body, MAX_BODY
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        peer = await self.work(self.callers.peer, request, b"")
        return await self.events.serve(request, peer)


def _raw(data: bytes, media_type: str) -> web.Response:
    return web.Response(body=data, content_type=media_type)


def _answer(value: Any) -> web.Response:
    return _raw(*encode(value))


def _refusal(error: KnowingError, status: int, name: str) -> web.Response:
    body = {**error.as_json(), "request": name}
    headers = {"Retry-After": str(int(error.wait) + 1)} if isinstance(error, BusyPeerError) else {}
    if isinstance(error, TokenError) or error.code == "token-missing":
        headers["WWW-Authenticate"] = 'Bearer realm="knowing"'
    return web.json_response(body, status=status, headers=headers)
