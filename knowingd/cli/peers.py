"""`knowing peer`, `knowing sync`, `knowing evidence`: other nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from knowing_protocol.render import visible
from knowing_protocol.urls import matches

from knowingd.cli import common_options
from knowingd.cli.node import emit, opened, table, when
from knowingd.errors import UsageError
from knowingd.federation import WAITING, Federation, Synced
from knowingd.store.peerstore import ACCEPTED, PENDING


@click.group("peer", context_settings={"help_option_names": ["-h", "--help"]})
def peer() -> None:
    """Other nodes: invite, add, list, pending, accept, grant, revoke, remove."""


@peer.command("invite")
@click.option("--grant", "grants", multiple=True, metavar="GLOB", help="What whoever comes may see; repeatable.")
@click.option("--relay", is_flag=True, help="It may also pass that on, to others whom you grant it.")
@common_options
def invite(*, grants: tuple[str, ...], relay: bool, home: str | None, as_json: bool, **_common: object) -> None:
    """Print one line that lets one node in, once, within a week. Send it as you would send a password."""
    with opened(home) as node:
        text = Federation(node).invite(list(grants), relay=relay)
    if as_json:
        emit({"invite": text})
    else:
        click.echo(text)
        if not grants and sys.stderr.isatty():
            click.echo("it grants nothing yet: `knowing peer grant PEER GLOB` does", err=True)


@peer.command("add")
@click.argument("address", metavar="INVITE|URL")
@click.option("--name", default="", help="What to call it here.")
@common_options
def add(*, address: str, name: str, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Add a peer: by its invitation, or by its address, where it then waits for a human to accept this node."""
    with opened(home) as node:
        federation = Federation(node)
        row = federation.add_peer(address.strip(), name=name)
        waiting = row.note == WAITING
        found = federation.peer_status(row)
    if as_json:
        emit(found)
    elif not quiet:
        click.echo(f"added {row.name} ({row.origin.hex()[:16]}) at {row.url}")
        if not waiting:
            click.echo("`knowing sync` pulls what it offers; `knowing serve` does so in the background")
        else:
            click.echo(
                f"it must accept this node first: there, `knowing peer accept {node.keys.origin.hex()[:16]}`; "
                "compare the number with whoever runs it"
            )


@peer.command("list")
@common_options
def list_peers(*, home: str | None, as_json: bool, **_common: object) -> None:
    """The peers, what they may see, and how pulling from them went."""
    _list(home, ACCEPTED, as_json=as_json)


@peer.command("pending")
@common_options
def pending(*, home: str | None, as_json: bool, **_common: object) -> None:
    """Nodes that knocked and wait for `knowing peer accept`."""
    _list(home, PENDING, as_json=as_json)


def _list(home: str | None, state: str, *, as_json: bool) -> None:
    with opened(home) as node:
        federation = Federation(node)
        found = [federation.peer_status(row) for row in federation.peers.peers(state)]
    if as_json:
        emit({"peers": found})
        return
    if not found:
        click.echo("nobody waits" if state == PENDING else "no peers yet")
        return
    rows = [("peer", "node", "address", "may see", "synced from", "last seen", "")]
    for one in found:
        grants = ", ".join(f"{grant['pattern']}{' (relay)' if grant['relay'] else ''}" for grant in one["grants"])
        rows.append(
            (
                visible(one["peer"]),
                one["origin"][:16],
                visible(one["url"] or "-"),
                visible(grants or "-"),
                when(one["last_sync"]),
                when(one["last_seen"]),
                visible(one["last_error"][:80]),
            )
        )
    table(rows)


@peer.command("accept")
@click.argument("who", metavar="PEER")
@click.option("--grant", "grants", multiple=True, metavar="GLOB", help="What it may see; repeatable.")
@common_options
def accept(
    *, who: str, grants: tuple[str, ...], home: str | None, as_json: bool, quiet: bool, **_common: object
) -> None:
    """Accept a node that knocked. What it may see is what you grant."""
    with opened(home) as node:
        federation = Federation(node)
        row = federation.peers.accept(federation.peers.find(who).id)
        for pattern in grants:
            federation.peers.grant(row.id, pattern)
        found = federation.peer_status(row)
    if as_json:
        emit(found)
    elif not quiet:
        click.echo(f"accepted {row.name} ({row.origin.hex()[:16]})")


@peer.command("grant")
@click.argument("who", metavar="PEER")
@click.argument("pattern", metavar="GLOB")
@click.option("--relay", is_flag=True, help="It may also pass that on, to others whom you grant it.")
@common_options
def grant(
    *, who: str, pattern: str, relay: bool, home: str | None, as_json: bool, quiet: bool, **_common: object
) -> None:
    """Let a peer see repositories; `*` also matches `/`."""
    with opened(home) as node:
        federation = Federation(node)
        row = federation.peers.find(who)
        made = federation.peers.grant(row.id, pattern, relay=relay)
        urls = sorted({one.url for one in node.store.roster() if matches(made.pattern, one.url)})
        found = federation.peer_status(row)
    if as_json:
        emit(found)
    elif not quiet:
        click.echo(f"{row.name} may see {made.pattern}{', and relay it' if relay else ''}")
        click.echo(
            f"that is {', '.join(urls[:5])}{' …' if len(urls) > 5 else ''}" if urls else "nothing here matches yet"
        )


@peer.command("revoke")
@click.argument("who", metavar="PEER")
@click.argument("pattern", metavar="[GLOB]", required=False)
@common_options
def revoke(*, who: str, pattern: str | None, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """End a grant, or all grants of a peer. It keeps what it has, and gets nothing new."""
    with opened(home) as node:
        federation = Federation(node)
        row = federation.peers.find(who)
        ended, kept = federation.revoke(row, pattern)
    if as_json:
        emit({"peer": row.name, "revoked": [one.pattern for one in ended], "keeps": kept})
    elif not quiet:
        click.echo(f"{row.name} no longer sees {', '.join(one.pattern for one in ended)}")
        if kept:
            click.echo(f"whatever it pulled so far of {', '.join(kept)} stays with it: that cannot be taken back")


@peer.command("remove")
@click.argument("who", metavar="PEER")
@common_options
def remove(*, who: str, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Forget a peer and its grants. What was pulled from it stays until `knowing remove`."""
    with opened(home) as node:
        federation = Federation(node)
        row = federation.peers.find(who)
        federation.peers.remove_peer(row.id)
    if as_json:
        emit({"peer": row.name, "removed": True})
    elif not quiet:
        click.echo(f"removed {row.name}")


@click.command("sync")
@click.argument("who", metavar="[PEER]", required=False)
@click.option("--repo", "pattern", metavar="GLOB", help="Only repositories that match.")
@click.option("--again", is_flag=True, help="Also try what a peer sent wrongly before.")
@common_options
def sync(
    *,
    who: str | None,
    pattern: str | None,
    again: bool,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> int:
    """Pull now what peers offer. Only what differs travels, and only what its origin signed is kept.

    Exit 5 if a peer could not be reached or sent what cannot be believed.
    """
    with opened(home) as node:
        federation = Federation(node)
        peers = [federation.peers.find(who)] if who else federation.syncable()
        if not peers:
            raise UsageError("there are no peers to pull from", code="no-peers", hint="`knowing peer add` adds one")
        found = []
        for one in peers:
            if again:
                federation.origins.clear_quarantine(one.origin)
            progress = _Progress(enabled=not (quiet or as_json) and sys.stderr.isatty())
            found.append(federation.sync(one, pattern, progress))
            progress.done()
    failed = any(one.error is not None or any(repo.error for repo in one.outcomes) for one in found)
    if as_json:
        emit({"peers": [_synced_json(one) for one in found]})
    else:
        for synced in found:
            _print_synced(synced, quiet=quiet)
    return 5 if failed else 0


class _Progress:
    """What is being done, on one line of a terminal."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._width = 0

    def __call__(self, repo: str, stage: str, done: int, total: int) -> None:
        if self.enabled:
            text = f"{visible(repo)} {stage}" + (f" {done}/{total}" if total else "")
            click.echo("\r" + text.ljust(self._width), nl=False, err=True)
            self._width = len(text)

    def done(self) -> None:
        """Take the line away."""
        if self.enabled and self._width:
            click.echo("\r" + " " * self._width + "\r", nl=False, err=True)


def _synced_json(synced: Synced) -> dict[str, Any]:
    return {
        "peer": synced.peer.name,
        "error": synced.error.as_json()["error"] if synced.error else None,
        "no_longer_offered": list(synced.gone),
        "repos": [
            {
                "repo": one.repo,
                "origin": one.origin.hex(),
                "mode": one.mode,
                "round_trips": one.round_trips,
                "bytes_sent": one.bytes_sent,
                "bytes_received": one.bytes_received,
                "added": one.added,
                "removed": one.removed,
                "snapshot": one.snapshot.hex() if one.snapshot else None,
                "seconds": round(one.seconds, 3),
                "error": one.error.as_json()["error"] if one.error else None,
            }
            for one in synced.outcomes
        ],
    }


def _print_synced(synced: Synced, *, quiet: bool) -> None:
    name = visible(synced.peer.name)
    if synced.error is not None:
        hint = f"\n  {visible(synced.error.hint)}" if synced.error.hint else ""
        click.echo(f"{name}: {visible(synced.error.message)}{hint}", err=True)
        return
    changed = [one for one in synced.outcomes if one.mode != "noop" or one.error]
    for one in changed:
        if one.error is not None:
            hint = f"\n  {visible(one.error.hint)}" if one.error.hint else ""
            click.echo(f"{name}: {visible(one.repo)}: {visible(one.error.message)}{hint}", err=True)
        elif not quiet:
            click.echo(
                f"{name}: {visible(one.repo)}: {one.mode}, {one.added:,} added, {one.removed:,} removed, "
                f"{one.bytes_received:,} bytes in {one.round_trips} round trip{'s' * (one.round_trips != 1)}, "
                f"{one.seconds:.1f} s"
            )
    for url in synced.gone if not quiet else ():
        click.echo(f"{name}: {visible(url)} is no longer offered; what is here stays until `knowing remove`")
    if not changed and not quiet:
        click.echo(f"{name}: nothing new")


@click.command("evidence")
@click.argument("number", type=int, required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it to a file.")
@common_options
def evidence(*, number: int | None, output: Path | None, home: str | None, as_json: bool, **_common: object) -> None:
    """Proof that a node signed two histories that cannot both be true. With a number, that piece itself."""
    with opened(home) as node:
        federation = Federation(node)
        if number is not None:
            body = federation.origins.evidence_by_id(number).body
            if output is None:
                click.echo(body)
            else:
                output.write_text(body + "\n", encoding="utf-8")
            return
        rows = federation.origins.evidence()
    if as_json:
        emit(
            {
                "evidence": [
                    {"id": row.id, "origin": row.origin.hex(), "kind": row.kind, "found_at": row.found_at}
                    for row in rows
                ]
            }
        )
    elif not rows:
        click.echo("no evidence against anybody")
    else:
        table(
            [
                ("number", "node", "what", "found"),
                *((str(row.id), row.origin.hex()[:16], row.kind, when(row.found_at)) for row in rows),
            ]
        )


@click.command("status")
@common_options
def status(*, home: str | None, as_json: bool, **_common: object) -> int:
    """The node at a glance: where it serves, repositories, peers, evidence. Exit 1 if something needs attention."""
    with opened(home) as node:
        found = Federation(node).status()
    trouble = bool(
        found["evidence"] or found["held"] or found["quarantine"] or any(one["error"] for one in found["repos"])
    )
    if as_json:
        emit(found)
        return int(trouble)
    click.echo(f"node {found['node'][:16]} in {visible(found['home'])}")
    click.echo(f"serving at {found['serving']}" if found["serving"] else "not serving")
    if found["tls_fingerprint"]:
        click.echo(f"certificate {found['tls_fingerprint']}")
    if found["held"]:
        click.echo(f"signs nothing: {visible(found['held'])}")
    own = [one for one in found["repos"] if one["local"]]
    click.echo(
        f"{len(own)} repositories of its own, {len(found['repos']) - len(own)} of others; "
        f"{found['log']['size']:,} entries in its log"
    )
    for one in found["repos"]:
        if one["error"]:
            click.echo(f"  {visible(one['repo'])}: {visible(one['error'])}")
    for one in found["peers"]:
        state = one["last_error"] or (f"synced {when(one['last_sync'])}" if one["last_sync"] else one["state"])
        click.echo(f"peer {visible(one['peer'])} ({one['origin'][:16]}): {visible(state)}")
    for one in found["quarantine"]:
        click.echo(f"quarantined: {one['root'][:16]} from {one['peer'][:16]}: {visible(one['reason'])}")
    if found["evidence"]:
        click.echo(f"EVIDENCE against {found['evidence']} statement(s) of other nodes: see `knowing evidence`")
    return int(trouble)
