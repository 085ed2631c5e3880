"""`knowing watch` and `knowing stale`: keeping up with sources."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import click
from knowing_protocol.errors import KnowingError
from knowing_protocol.render import visible

from knowingd.cli import common_options
from knowingd.cli.node import emit, opened, table
from knowingd.errors import UsageError
from knowingd.node import Node, Options
from knowingd.store.nodestore import RosterRow

_NOISE = (".lock", "-journal", ".swp", "~")


@click.command("watch")
@click.argument("repos", metavar="[REPO...]", nargs=-1)
@click.option(
    "--debounce", type=click.IntRange(10, 60_000), default=400, show_default=True, metavar="MS", help="Wait for quiet."
)
@common_options
def watch(
    repos: tuple[str, ...], *, debounce: int, home: str | None, as_json: bool, quiet: bool, **_common: object
) -> None:
    """Index on every change, until interrupted. With --json, every snapshot is one line.

    Of a git repository the commit is indexed, so a commit, merge, rebase or branch switch makes a snapshot and saving a
    file does not; of a plain directory, every saved file counts.
    """
    from watchfiles import watch as changes

    with opened(home) as node:
        rows = [node.find(text) for text in repos] if repos else node.store.roster()
        rows = [row for row in rows if row.local and row.path and Path(row.path).is_dir()]
        if not rows:
            raise UsageError("no repository to watch is on this machine", hint="`knowing add PATH` registers one")
        for row in rows:
            _index(node, row, quiet=quiet, as_json=as_json, first=True)
        if not quiet:
            click.echo(f"watching {len(rows)} repositories; Ctrl-C ends", err=True)
        paths = [str(row.path) for row in rows]
        for batch in changes(*paths, debounce=debounce, watch_filter=_matters, raise_interrupt=True):
            touched = [path for _, path in batch]
            for row in rows:
                if _touches(row, touched):
                    _index(node, row, quiet=quiet, as_json=as_json, first=False)


def _matters(_change: object, path: str) -> bool:
    """Git's own housekeeping and editors' scratch files do not count."""
    return not path.endswith(_NOISE) and f"{os.sep}.git{os.sep}objects{os.sep}" not in path


def _touches(row: RosterRow, paths: Iterable[str]) -> bool:
    root = os.path.realpath(row.path or "") + os.sep
    return any(os.path.realpath(path).startswith(root) for path in paths)


def _index(node: Node, row: RosterRow, *, quiet: bool, as_json: bool, first: bool) -> None:
    """Index, and say what came of it; an error is said and the watch goes on."""
    before = node.store.head(row.url, row.ref)
    try:
        result = node.index(row, options=Options())
    except KnowingError as error:
        click.echo(f"{_now()} {visible(row.url)}: {error.message}", err=True)
        return
    after = node.store.head(row.url, row.ref)
    if as_json:
        if after != before:
            click.echo(json.dumps({**result._asdict(), "index": after}, ensure_ascii=False))
    elif not quiet and after != before:
        click.echo(
            f"{_now()} {visible(row.url)} @ {visible(result.commit[:12])}: {result.parsed} files read, "
            f"{result.nodes:,} symbols, {result.edges:,} edges, {result.seconds:.2f} s"
        )
    elif not quiet and first:
        click.echo(f"{_now()} {visible(row.url)} @ {visible(result.commit[:12])}: up to date")


def _now() -> str:
    return time.strftime("%H:%M:%S")


@click.command("stale")
@click.argument("repo", metavar="[REPO]", required=False)
@common_options
def stale(repo: str | None, *, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Which snapshots are behind their sources on this machine, and why."""
    with opened(home) as node:
        found = node.stale(repo)
    if as_json:
        emit({"repos": found})
        return
    rows = [("repository", "indexed", "now", "")]
    rows += (
        (
            visible(one["repo"]),
            visible((one["indexed"] or "-")[:12]),
            visible((one["current"] or "-")[:12]),
            visible("; ".join(one["reasons"])),
        )
        for one in found
        if one["stale"]
    )
    if len(rows) > 1:
        table(rows)
    if not quiet:
        click.echo(f"{len(rows) - 1} of {len(found)} are stale; `knowing index` brings them up to date")
