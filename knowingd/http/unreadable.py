"""Requests that are no HTTP, or have lines beyond all measure: refused in the same shape as everything else.

They never reach the application, so its own refusals do not cover them. Nothing of them is repeated or logged: whoever
sends such things would like to fill a log.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any, Final

from aiohttp import web

MAX_LINE: Final = 32 << 10
"""The longest line of a request: two texts of a thousand characters fit, however they must be written."""


class _Handler(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        name = secrets.token_hex(8)
        told = {"code": "unreadable", "message": "the request cannot be read", "hint": "it must be HTTP/1.1, and short"}
        response = web.json_response({"error": told, "request": name}, status=status, headers={"Knowing-Request": name})
        response.force_close()
        return response


class Runner(web.AppRunner):
    """Runs an application whose refusals have one shape, also of what it never sees."""

    def __init__(self, app: web.Application, **options: Any) -> None:
        super().__init__(app, max_line_size=MAX_LINE, max_field_size=MAX_LINE, **options)

    @property
    def server(self) -> Any:
        """Makes what handles a connection."""
        found = super().server
        return None if found is None else partial(_handler, found)


def _handler(server: web.Server) -> web.RequestHandler:
    found = server()
    found.__class__ = _Handler  # the one way to it that aiohttp leaves open
    return found
