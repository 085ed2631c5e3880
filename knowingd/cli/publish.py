"""`knowing publish`: index here, append to a hub's log. For CI runners."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from knowing_protocol.render import visible

from knowingd.cli import common_options
from knowingd.cli.index import jobs_option
from knowingd.cli.node import emit, opened
from knowingd.errors import UsageError
from knowingd.node import Options
from knowingd.source import locate

TOKEN = "KNOWING_TOKEN"  # noqa: S105 - the name of a variable


def read_token(token_file: Path | None) -> str:
    """The token of a file or of the environment."""
    if token_file is not None:
        try:
            found = token_file.read_text("utf-8").strip()
        except OSError as error:
            raise UsageError(f"{token_file}: {error.strerror}", hint="check the path") from error
    else:
        found = os.environ.get(TOKEN, "").strip()
    if not found:
        raise UsageError(
            "there is no token", code="token-missing", hint=f"set {TOKEN}, or give --token-file; the hub makes tokens"
        )
    return found


@click.command("publish")
@click.argument("hub", metavar="HUB")
@click.argument("repositories", nargs=-1, metavar="[REPO|PATH...]")
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE", help=f"Where the token is, if not in {TOKEN}."
)
@click.option("--tls-fingerprint", metavar="HEX", help="The hub's certificate, if no authority vouches for it.")
@click.option("--url", metavar="URL", help="What to call the repository, if its remote does not say.")
@jobs_option
@common_options
def publish(
    *,
    hub: str,
    repositories: tuple[str, ...],
    token_file: Path | None,
    tls_fingerprint: str | None,
    url: str | None,
    jobs: int,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> None:
    """Index repositories here and append their graphs to a hub's log: for CI runners.

    The hub recomputes every root before it signs, and records which token it came with. Without repositories, all of
    this node's own are published; a path is indexed first. Only what differs from the hub's state travels.
    """
    from knowingd.federation import Federation
    from knowingd.store.addresses import node_url
    from knowingd.sync.client import PeerClient
    from knowingd.sync.tls import parse_fingerprint

    address, _, inside = hub.partition("#")
    fingerprint = tls_fingerprint or inside
    pin = parse_fingerprint(fingerprint) if fingerprint else None
    client = PeerClient(node_url(address), b"", None, pin, token=read_token(token_file))
    found = []
    try:
        with opened(home) as node:
            rows = []
            for text in repositories:
                if Path(text).is_dir():
                    result = node.add(locate(text, Path.cwd()), url=url, options=Options(jobs=jobs))
                    rows.append(node.find(result.repo))
                else:
                    rows.append(node.find(text))
            if not repositories:
                rows = [row for row in node.store.roster() if row.local and row.path is not None]
            if not rows:
                raise UsageError("there is nothing to publish", hint="name a repository, or a directory")
            federation = Federation(node)
            for row in rows:
                made = federation.publish(client, row)
                found.append(made)
                if not (as_json or quiet):
                    what = (
                        "the hub has it already"
                        if made.entry is None
                        else f"entry {made.entry} of the hub's log, {made.bytes_sent:,} bytes sent"
                    )
                    click.echo(f"{visible(made.repo)} {visible(made.commit[:12])}: {what}")
                    sys.stdout.flush()
    finally:
        client.close()
    if as_json:
        emit(
            {
                "hub": client.url,
                "repos": [
                    {
                        "repo": one.repo,
                        "commit": one.commit,
                        "index": one.entry,
                        "attempts": one.attempts,
                        "bytes_sent": one.bytes_sent,
                        "snapshot": one.snapshot.hex(),
                    }
                    for one in found
                ],
            }
        )
