"""Commands about the node and its repositories: `init`, `list`, `log`, `fsck`, `remove`, `stats`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
from knowing_protocol.errors import KnowingError
from knowing_protocol.render import visible

from knowingd.cli import common_options, wait_option
from knowingd.cli.working import uncommitted
from knowingd.config import Home
from knowingd.node import Node


def opened(home: str | None) -> Node:
    """The node of a data directory."""
    return Node(Home.at(home))


def emit(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def table(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns for people; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def when(timestamp: int | None) -> str:
    """A time as people read it."""
    return "-" if timestamp is None else datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M UTC")


@click.command("init")
@common_options
def init(*, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Make the node's key and directories. Does nothing where they are; every other command does it on first use."""
    with opened(home) as node:
        found = {"node": node.keys.origin.hex(), "home": str(node.home.path)}
    if as_json:
        emit(found)
    elif not quiet:
        click.echo(f"node {found['node'][:16]} at {found['home']}")


@click.command("list")
@common_options
def list_repositories(*, home: str | None, as_json: bool, **_common: object) -> int:
    """The repositories of this node: URL, newest commit, symbols, edges, and when they were indexed.

    Below them, which ones have uncommitted changes that questions asked here see.

    Exit 1 if a database cannot be read; the others are listed all the same.
    """
    with opened(home) as node:
        found = node.repositories()
    if as_json:
        emit({"repos": found})
    elif not found:
        click.echo("no repositories yet")
    else:
        rows = [("repository", "ref", "commit", "symbols", "edges", "indexed")]
        rows += (
            (
                visible(one["repo"]),
                visible(one["ref"]),
                visible((one["commit"] or "-")[:12]),
                f"{one['nodes']:,}",
                f"{one['edges']:,}",
                when(one["time"]),
            )
            for one in found
        )
        table(rows)
        for one in found:
            if one["working"] is not None:
                click.echo(f"{visible(one['repo'])}: answers come {uncommitted(one['working'])}")
    errors = [one["error"] for one in found if one["error"] is not None]
    for error in errors if not as_json else ():
        click.echo(f"error: {visible(error)}", err=True)
    return 1 if errors else 0


@click.command("log")
@click.argument("repo", metavar="REPO")
@click.option("--verify", is_flag=True, help="Check the node's whole log first: entries, hashes, rosters, signatures.")
@common_options
def log(repo: str, *, verify: bool, home: str | None, as_json: bool, **_common: object) -> int:
    """The snapshots of a repository, newest first.

    REPO is a URL in any spelling, a path, or a unique tail such as `shop`.
    """
    with opened(home) as node:
        errors = node.check_log() if verify else []
        found = node.log(repo)
    if as_json:
        emit({"snapshots": found, **({"errors": errors} if verify else {})})
    else:
        rows = [("index", "snapshot", "commit", "symbols", "edges", "taken")]
        rows += (
            (
                f"{one['index']}" if not one["epoch"] else f"{one['index']} (epoch {one['epoch']})",
                one["snapshot"][:16],
                visible(one["commit"][:12]),
                f"{one['nodes']:,}",
                f"{one['edges']:,}",
                when(one["time"]),
            )
            for one in found
        )
        table(rows)
        for error in errors:
            click.echo(f"error: {error}", err=True)
        if verify and not errors:
            click.echo("the log is whole: every entry, hash, roster and signature was checked")
    return 3 if errors else 0


def _fetch_damaged(node: Node, report: dict[str, Any]) -> bool:
    """Whether a replica was made whole from a peer."""
    from knowingd.federation import Federation

    federation = Federation(node)
    damaged = {(one["repo"], one["ref"]) for one in report["repos"] if one["errors"]}
    done = False
    for row in node.store.roster():
        if not row.local and (row.url, row.ref) in damaged:
            try:
                peer = federation.repair(row)
            except KnowingError as error:
                click.echo(f"{visible(row.url)} could not be repaired from a peer: {visible(error.message)}", err=True)
                continue
            click.echo(f"{visible(row.url)}: fetched what was damaged from {visible(peer)}", err=True)
            done = True
    return done


@click.command("fsck")
@click.argument("repo", metavar="[REPO]", required=False)
@click.option("--all", "_all", is_flag=True, help="All repositories; the default.")
@click.option("--repair", is_flag=True, help="Make again what can be made again, and say what cannot.")
@common_options
def check(repo: str | None, *, _all: bool, repair: bool, home: str | None, as_json: bool, **_common: object) -> int:
    """Check databases and the log: everything that is hashed is hashed again and compared.

    With --repair, what is damaged in a replica is fetched again from a peer that has it, and nothing else of it.

    Exit 0 if all is well, 3 if not.
    """
    with opened(home) as node:
        report = node.fsck(repo, repair=repair)
        if repair and not report["ok"] and _fetch_damaged(node, report):
            report = node.fsck(repo)
    if as_json:
        emit(report)
    else:
        for one in report["repos"]:
            state = "ok" if not one["errors"] else f"{len(one['errors'])} errors"
            click.echo(f"{visible(one['repo'])}: {one['nodes']:,} symbols, {one['edges']:,} edges, {state}")
            for error in one["errors"]:
                click.echo(f"  {visible(error)}")
        click.echo("log: " + ("ok" if not report["log"] else "; ".join(visible(text) for text in report["log"])))
    return 0 if report["ok"] else 3


@click.command("remove")
@click.argument("repo", metavar="REPO")
@click.option(
    "--purge", is_flag=True, help="Delete its database too; without it, `knowing add` brings it back as it was."
)
@wait_option
@common_options
def remove(
    repo: str, *, purge: bool, wait: float, home: str | None, as_json: bool, quiet: bool, **_common: object
) -> None:
    """Take a repository off this node.

    Its withdrawal is appended to the node's log, so that peers learn of it; what was signed before stays provable.
    """
    with opened(home) as node:
        row = node.remove(repo, purge=purge, wait=wait)
    if as_json:
        emit({"repo": row.url, "ref": row.ref, "purged": purge})
    elif not quiet:
        click.echo(f"{visible(row.url)} removed" + (", its database deleted" if purge else ", its database kept"))


@click.command("stats")
@click.argument("repo", metavar="[REPO]", required=False)
@common_options
def stats(repo: str | None, *, home: str | None, as_json: bool, **_common: object) -> None:
    """What is in the databases: symbols by kind, edges by type and provenance, coverage, sizes on disk."""
    with opened(home) as node:
        found = node.stats(repo)
    if as_json:
        emit({"repos": found})
        return
    if not found:
        click.echo("no repositories yet")
    for one in found:
        click.echo(f"{visible(one['repo'])} ({visible(one['ref'])}), {one['bytes'] / 1e6:,.1f} MB")
        rows = [(name, f"{one[name]:,}") for name in ("packages", "files", "aliases", "members", "snapshots", "events")]
        for group in ("symbols", "edges", "provenance", "coverage"):
            rows += [(f"{group}: {visible(name)}", f"{count:,}") for name, count in one[group].items()]
        table([(f"  {name}", count) for name, count in rows])
