"""`knowing token`: let people, scripts and CI runners ask this node, or publish to it."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click
from knowing_protocol.render import visible

from knowingd.cli import common_options
from knowingd.cli.node import emit, opened, table, when
from knowingd.federation import SERVING
from knowingd.store.peerstore import PeerStore, TokenRow
from knowingd.sync.tokens import SCOPES, new_token

_DAY: Final = 86400
_MAX_DAYS: Final = 36500


@click.group("token", context_settings={"help_option_names": ["-h", "--help"]})
def token() -> None:
    """Tokens for people, scripts and CI runners: create, list, revoke."""


def _shown(row: TokenRow, now: int) -> dict[str, Any]:
    """A token as lists show it; its secret is not kept, so it cannot be shown."""
    return {
        "id": row.id,
        "scope": row.scope,
        "repo": row.pattern,
        "name": row.name,
        "created": row.created,
        "expires": row.expires,
        "revoked": row.revoked,
        "last_used": row.last_used,
        "state": _state(row, now),
    }


def _state(row: TokenRow, now: int) -> str:
    if row.revoked is not None:
        return "revoked"
    return "expired" if row.expires is not None and now >= row.expires else "valid"


@token.command("create")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    required=True,
    help="`read` asks; `publish` also appends snapshots of the repositories.",
)
@click.option("--repo", "pattern", required=True, metavar="GLOB", help="The repositories it is for; `*` is any text.")
@click.option("--name", default="", metavar="TEXT", help="What it is for; shown in lists.")
@click.option("--expires", type=click.IntRange(1, _MAX_DAYS), metavar="DAYS", help="Days until it ends.")
@common_options
def create(
    *,
    scope: str,
    pattern: str,
    name: str,
    expires: int | None,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> None:
    """Make a token and print it, once: the node keeps only its hash.

    For whoever holds it, repositories that GLOB does not match do not exist here.
    """
    now = int(time.time())
    made = new_token()
    ends = None if expires is None else now + expires * _DAY
    with opened(home) as node:
        row = PeerStore(node.store.database).add_token(
            TokenRow(made.id, made.digest, scope, pattern, name, now, expires=ends)
        )
        address, _, pin = node.store.setting(SERVING).partition(" ")
    if as_json:
        emit({"token": made.text, **_shown(row, now)})
        return
    click.echo(made.text)
    if not quiet:
        hub = f"{address}#{pin}" if pin else address or "URL"
        until = f" until {when(ends)}" if ends is not None else ""
        click.echo(f"it is shown this once; {scope} of {row.pattern}{until}", err=True)
        click.echo(f"KNOWING_TOKEN=… knowing callers SYMBOL --hub '{hub}'", err=True)


@token.command("list")
@common_options
def list_tokens(*, home: str | None, as_json: bool, **_common: object) -> None:
    """The tokens of this node: what they are for, until when, and when they were last used."""
    now = int(time.time())
    with opened(home) as node:
        found = [_shown(row, now) for row in PeerStore(node.store.database).tokens()]
    if as_json:
        emit({"tokens": found})
        return
    if not found:
        click.echo("no tokens yet")
        return
    rows = [("token", "scope", "repositories", "state", "ends", "last used", "name")]
    rows += (
        (
            one["id"],
            one["scope"],
            visible(one["repo"]),
            one["state"],
            when(one["expires"]),
            when(one["last_used"]),
            visible(one["name"]),
        )
        for one in found
    )
    table(rows)


@token.command("revoke")
@click.argument("which", metavar="ID")
@common_options
def revoke(*, which: str, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """End a token, from its next request on. ID is from `knowing token list`; `-` reads a whole token from stdin."""
    now = int(time.time())
    # Whoever found a leaked token has its text, and should not put it on a command line once more.
    text = sys.stdin.readline(200).strip() if which == "-" else which
    parts = text.split("_", 2)
    name = parts[1] if len(parts) == 3 and parts[0] == "knowing" else text
    with opened(home) as node:
        row = PeerStore(node.store.database).revoke_token(name, now)
    if as_json:
        emit(_shown(row, now))
    elif not quiet:
        click.echo(f"the token {row.id} ({row.scope} of {visible(row.pattern)}) is revoked")
