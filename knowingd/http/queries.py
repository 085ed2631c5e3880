"""Questions of people and scripts over HTTP: the documents of the command line, for whoever has a token.

A token's pattern decides which repositories there are: the others are not opened, not counted and not named, and asking
for one of them is asking for something that does not exist. Work trees of this machine are never served, nor is where
anything lies on it. A question has its time and the caller its share of the threads, and both are given back: what is
too slow is ended, not only left.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import structlog
from aiohttp import web
from knowing_protocol.vocabulary import EdgeType, NodeKind

from knowingd.errors import KnowingError, StoreError, UsageError
from knowingd.federation import Federation
from knowingd.http.callers import BusyPeerError, Callers
from knowingd.http.parameters import Parameter, one_of, read, text
from knowingd.node import Node
from knowingd.query import answers
from knowingd.query.answers import Document
from knowingd.query.scope import Scope
from knowingd.store.peerstore import TokenRow
from knowingd.sync.limits import Limiter, Limits
from knowingd.sync.tokens import READ, allows

TOKEN_LIMITS: Final = Limits(per_second=50.0, burst=400.0, concurrent=4)
TIME_LIMIT: Final = 30.0
MAX_ANSWER: Final = 32 << 20
MAX_TEXT: Final = 1024

log = structlog.get_logger("knowing.http")

Work = Callable[..., Awaitable[Any]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TooSlowError(KnowingError):
    """A question that takes longer than questions may."""

    code = "too-slow"

    def __init__(self) -> None:
        super().__init__(
            f"the question takes more than {TIME_LIMIT:.0f} seconds",
            hint="ask for less: a smaller depth, one repository",
        )


class Asker(NamedTuple):
    """On whose behalf a question is asked, and until when."""

    node: Node
    token: TokenRow
    deadline: float
    stopping: threading.Event

    def visible(self, url: str) -> bool:
        """Whether there is such a repository for whoever asks; asked before each one is opened."""
        self.check()
        return _visible(self.token.scope, self.token.pattern, url)

    def check(self) -> None:
        """End what takes too long, or longer than the server runs."""
        if time.monotonic() > self.deadline or self.stopping.is_set():
            raise TooSlowError

    def ask(self, question: Callable[[Scope], Document], pattern: str | None = None) -> Document:
        """Ask the signed state of what is visible."""
        return self.node.ask(question, pattern, working=False, visible=self.visible, check=self.check)


@lru_cache(1 << 16)
def _visible(scope: str, pattern: str, url: str) -> bool:
    row = TokenRow("", b"", scope, pattern, "", 0)
    return allows(row, READ, url)


class Query(NamedTuple):
    """A question: its path, what may be given with it, and who answers."""

    path: str
    about: str
    parameters: tuple[Parameter, ...]
    answer: Callable[..., Document]


# What is asked


def _callers(asker: Asker, *, pattern: str | None, **options: Any) -> Document:
    return asker.ask(partial(answers.callers, **options), pattern)


def _callees(asker: Asker, **options: Any) -> Document:
    return asker.ask(partial(answers.callees, **options))


def _search(asker: Asker, *, pattern: str | None, **options: Any) -> Document:
    return asker.ask(partial(answers.search, **options), pattern)


def _dangling(asker: Asker, *, repo: str | None, by: str | None) -> Document:
    wanted = asker.node.find(repo, asker.visible).url if repo else None
    return asker.ask(partial(answers.dangling, wanted=wanted, by=by))


def _repos(asker: Asker) -> Document:
    found = asker.node.repositories(asker.visible)
    for one in found:
        # Places of this machine are nobody's business elsewhere, and the reason names one.
        one["path"] = None
        one["error"] = None if one["error"] is None else "its database cannot be read"
    return {"repos": found}


def _stats(asker: Asker, *, repo: str | None) -> Document:
    return {"repos": asker.node.stats(repo, asker.visible)}


_SYMBOL: Final = Parameter(
    "symbol", "symbol", text(MAX_TEXT), "A symbol, as a person would type it, or its hash.", True
)
_TYPE: Final = Parameter(
    "type",
    "edge_type",
    one_of(["uses", *(one.value for one in EdgeType)], default="calls"),
    "An edge type; `uses` is calls, references, imports, decorates and extends together.",
)
_PATTERN: Final = Parameter(
    "repo", "pattern", text(MAX_TEXT), "Only answers from repositories that match; `*` also matches `/`."
)
_REPO: Final = Parameter("repo", "repo", text(MAX_TEXT), "A repository: its URL in any spelling, or a unique tail.")
_UNRESOLVED: Final = Parameter(
    "include-unresolved",
    "include_unresolved",
    {"type": "boolean", "default": False},
    "Also what could not be resolved.",
)

QUERIES: Final = (
    Query(
        "/v1/callers",
        "Who uses a symbol, in any repository.",
        (
            _SYMBOL,
            _TYPE,
            Parameter(
                "depth",
                "depth",
                {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
                "Also callers of callers.",
            ),
            _PATTERN,
            _UNRESOLVED,
            Parameter(
                "min-confidence",
                "min_confidence",
                {"type": "number", "minimum": 0, "maximum": 1, "default": 0.0},
                "Leave out what is less sure.",
            ),
        ),
        _callers,
    ),
    Query("/v1/callees", "What a symbol uses, and where that is defined.", (_SYMBOL, _TYPE, _UNRESOLVED), _callees),
    Query(
        "/v1/search",
        "Symbols by the words of their names, files, signatures and docs, best first.",
        (
            Parameter("query", "query", text(MAX_TEXT), "Words.", True),
            _PATTERN,
            Parameter("kind", "kind", one_of([one.value for one in NodeKind]), "Only symbols of a kind."),
            Parameter(
                "limit", "limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20}, "At most so many."
            ),
        ),
        _search,
    ),
    Query(
        "/v1/dangling",
        "References that leave a repository, and where they lead.",
        (_REPO, Parameter("by", "by", one_of(["reason", "module"]), "Add up instead of listing names.")),
        _dangling,
    ),
    Query("/v1/repos", "The repositories and their newest snapshots.", (), _repos),
    Query("/v1/stats", "What is in the databases, and how much room it takes.", (_REPO,), _stats),
)


class Queries:
    """The query endpoints of a server. `work` runs something in one of its threads; some stay free for peers."""

    def __init__(self, federation: Federation, callers: Callers, work: Work, at_once: int) -> None:
        self._node = federation.node
        self._callers = callers
        self._work = work
        self._limits = Limiter(TOKEN_LIMITS)
        self._threads = asyncio.Semaphore(max(1, at_once))
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the questions that are being answered."""
        self._stopping.set()

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the endpoints."""
        for query in QUERIES:
            router.add_get(query.path, self._handler(query))

    def _handler(self, query: Query) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            token = await self._work(self._callers.token, request)
            refusal = self._limits.enter(token.id, time.monotonic())
            if refusal is not None:
                raise BusyPeerError(refusal.reason, refusal.retry_after)
            given = {name: request.query.getall(name) for name in request.query}
            task = asyncio.ensure_future(self._run(query, token, given))
            # Counted until the thread has really ended, also if nobody waits for it any more.
            task.add_done_callback(partial(self._ended, token.id))
            done, _ = await asyncio.wait((task,), timeout=TIME_LIMIT)
            if not done:
                raise TooSlowError
            return web.Response(
                body=task.result(), content_type="application/json", headers={"Cache-Control": "no-store"}
            )

        return handle

    def _ended(self, caller: str, task: asyncio.Future[bytes]) -> None:
        self._limits.leave(caller)
        if not task.cancelled():
            task.exception()  # somebody must look, or it is reported as forgotten

    async def _run(self, query: Query, token: TokenRow, given: dict[str, list[str]]) -> bytes:
        options = read(query.parameters, given)
        asker = Asker(self._node, token, time.monotonic() + TIME_LIMIT, self._stopping)
        async with self._threads:
            found: bytes = await self._work(_answered, query, asker, options)
            return found


def _answered(query: Query, asker: Asker, options: dict[str, Any]) -> bytes:
    asker.check()
    try:
        body = json.dumps(query.answer(asker, **options)).encode()
    except StoreError as error:
        # The message names a file of this machine.
        log.error("a question failed", path=query.path, error=error.message, hint=error.hint)  # noqa: TRY400
        raise StoreError(
            "a database of this node cannot be read", hint="whoever runs the node finds the reason in its log"
        ) from error
    if len(body) > MAX_ANSWER:
        raise UsageError(
            f"the answer has more than {MAX_ANSWER >> 20} MiB",
            code="too-large",
            hint="ask for less: one repository, or sums instead of names",
        )
    return body
