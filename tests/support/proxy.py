"""A reverse proxy for tests, in a process of its own: it does to requests what those of the world do, or worse.

It changes the host, says whom it passes on, and streams answers as they come. What it is told to break, it breaks
in requests for the roster: `body` adds a byte to what is sent, `query` a parameter.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final

from aiohttp import ClientSession, ClientTimeout, web
from yarl import URL

# RFC 9110, 7.6.1: these speak of one connection; the others are passed on.
_HOP: Final = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length"}


class Proxy:
    """The process, and its address."""

    def __init__(self, upstream: str, broken: str = "") -> None:
        command = [sys.executable, __file__, upstream, broken]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


async def _serve(upstream: str, broken: str) -> None:
    async with ClientSession(auto_decompress=False, timeout=ClientTimeout(total=None)) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
            headers |= {"Host": "inside.example", "X-Forwarded-Host": request.host, "X-Forwarded-Proto": "https"}
            headers["X-Forwarded-For"] = request.remote or ""
            body, path = await request.read(), request.raw_path
            if path.endswith("/roster"):
                body += b"\0" if broken == "body" else b""
                path += "?more=1" if broken == "query" else ""
            sent = body if request.body_exists else None  # a GET has no body, not an empty one
            address = URL(upstream + path, encoded=True)
            async with session.request(
                request.method, address, data=sent, headers=headers, allow_redirects=False
            ) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            return response

        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
