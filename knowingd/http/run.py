"""Runs the node: the server and the background puller in one process, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

from knowingd.errors import UsageError
from knowingd.federation import SERVING, Federation
from knowingd.http.app import Server
from knowingd.http.background import Background
from knowingd.http.unreadable import Runner
from knowingd.sync.tls import CertificateFiles, fingerprint, own_certificate, server_context

DRAIN: Final = 10.0


class Listening(NamedTuple):
    """Where and how to listen."""

    host: str
    port: int
    public_url: str | None = None
    certificate: CertificateFiles | None = None
    behind_proxy: bool = False


def parse_listen(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"{text!r} is not HOST:PORT", hint="for example 127.0.0.1:7411")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(federation: Federation, listening: Listening, now: int, told: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `told` is given the address once it can be reached."""
    asyncio.run(_run(federation, listening, now, told))


def _certificate(federation: Federation, listening: Listening, now: int) -> CertificateFiles | None:
    if listening.certificate is not None:
        return listening.certificate
    if is_loopback(listening.host) or listening.behind_proxy:
        return None
    # Whoever listens to others does it encrypted, with a certificate of its own if there is no other.
    return own_certificate(Path(federation.node.home.path) / "tls", now, [listening.host])


async def _run(federation: Federation, listening: Listening, now: int, told: Callable[[str], None]) -> None:
    files = _certificate(federation, listening, now)
    server = Server(federation)
    runner = Runner(server.application(), access_log=None, shutdown_timeout=DRAIN)
    await runner.setup()
    context = server_context(files) if files is not None else None
    site = web.TCPSite(runner, listening.host, listening.port, ssl_context=context)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise UsageError(
            f"cannot listen on {listening.host}:{listening.port}: {error.strerror}",
            code="listen",
            hint="another port, with --listen HOST:PORT",
        ) from error
    port = runner.addresses[0][1]
    # An invitation with "everywhere" in it would lead nowhere.
    host = socket.getfqdn() if listening.host in ("0.0.0.0", "::") else listening.host  # noqa: S104
    shown = f"[{host}]" if ":" in host else host
    url = listening.public_url or f"{'https' if files else 'http'}://{shown}:{port}"
    own = files is not None and listening.certificate is None
    pin = fingerprint(files.certificate).hex() if files is not None and own else ""
    federation.nodes.set_setting(SERVING, f"{url} {pin}".strip())
    background = Background(federation)
    background.start()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    told(url)
    try:
        await stopped.wait()
    finally:
        federation.nodes.set_setting(SERVING, "")
        await runner.cleanup()
        await asyncio.to_thread(background.stop)
