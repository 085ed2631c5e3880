"""`knowing serve`, and `knowingd`: the node for its peers."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import NoReturn

import click
from knowing_protocol.render import visible

from knowingd.cli import common_options, main
from knowingd.cli.node import emit, opened
from knowingd.config import Home
from knowingd.errors import UsageError
from knowingd.settings import read_settings

DEFAULT_LISTEN = "127.0.0.1:7411"


@click.command("serve")
@click.option("--listen", metavar="HOST:PORT", help="Where to listen, if not at 127.0.0.1:7411; port 0 is any.")
@click.option("--public-url", metavar="URL", help="How others reach this node, if not at that address.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="A certificate (PEM) to serve with.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key.")
@click.option("--behind-proxy", is_flag=True, help="Speak plain HTTP: a reverse proxy in front has the certificate.")
@common_options
def serve(
    *,
    listen: str | None,
    public_url: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    home: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run the node: answer peers, pull from them in the background, until SIGTERM or Ctrl-C.

    It listens on this machine alone unless told otherwise; elsewhere it speaks TLS, with a certificate of its own whose
    fingerprint is part of invitations, or with the one you give. Requests of peers are signed, always.

    What is not given here may stand in `knowing.toml` in the node's home, together with limits and grants; a running
    node reads it again when it changes.
    """
    from knowingd.federation import Federation
    from knowingd.http.run import Listening, parse_listen, run
    from knowingd.store.addresses import node_url
    from knowingd.sync.tls import CertificateFiles

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("a certificate and its key come together", hint="give both --tls-cert and --tls-key")
    _log_to_stderr(verbose=verbose, quiet=quiet, as_json=as_json)
    settings = read_settings(Home.at(home).path)
    host, port = parse_listen(listen or settings.listen or DEFAULT_LISTEN)
    cert, key = tls_cert or settings.tls_cert, tls_key or settings.tls_key
    files = CertificateFiles(Path(cert), Path(key)) if cert is not None and key is not None else None
    public = public_url or settings.public_url
    listening = Listening(
        host, port, node_url(public) if public else None, files, behind_proxy or settings.behind_proxy
    )

    def told(url: str) -> None:
        if as_json:
            emit({"url": url, "node": node.keys.origin.hex()})
        elif not quiet:
            click.echo(f"node {node.keys.origin.hex()[:16]} at {url}")
            click.echo("invite a peer with `knowing peer invite --grant 'HOST/ORG/*'`; stop with Ctrl-C", err=True)
        sys.stdout.flush()

    with opened(home) as node:
        for url, error in node.recover().items():
            click.echo(f"warning: {visible(url)} is not served: {visible(error.message)}", err=True)
        run(Federation(node), listening, int(time.time()), told)


def daemon() -> NoReturn:
    """`knowingd`: the same as `knowing serve`, under a name of its own for service managers."""
    main(["serve", *sys.argv[1:]])


def _log_to_stderr(*, verbose: bool, quiet: bool, as_json: bool) -> None:
    import structlog

    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer()
            if as_json or not sys.stderr.isatty()
            else structlog.dev.ConsoleRenderer(),
        ],
    )
