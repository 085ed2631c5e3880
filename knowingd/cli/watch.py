"""`knowing watch` and `knowing stale`: keeping up with sources."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import click
from knowing_protocol.errors import KnowingError
from knowing_protocol.render import visible

from knowingd.cli import common_options
from knowingd.cli.node import emit, opened, table
from knowingd.cli.working import uncommitted
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
    """Index on every change, until interrupted. With --json, every snapshot and every change of a view is one line.

    Of a git repository a commit, merge, rebase or branch switch makes a snapshot; saving a file brings the working view
    up to date, which questions asked here use until the change is committed. Of a plain directory, every saved file
    makes a snapshot.
    """
    from watchfiles import watch as changes

    with opened(home) as node:
        rows = [node.find(text) for text in repos] if repos else node.store.roster()
        rows = [row for row in rows if row.local and row.path and Path(row.path).is_dir()]
        if not rows:
            raise UsageError("no repository to watch is on this machine", hint="`knowing add PATH` registers one")
        told: dict[int, _Told] = {}
        for row in rows:
            _index(node, row, told, quiet=quiet, as_json=as_json)
        if not quiet:
            click.echo(f"watching {len(rows)} repositories; Ctrl-C ends", err=True)
        paths = [str(row.path) for row in rows]
        for batch in changes(*paths, debounce=debounce, watch_filter=_matters, raise_interrupt=True):
            touched = [path for _, path in batch]
            for row in rows:
                if _touches(row, touched):
                    _index(node, row, told, quiet=quiet, as_json=as_json)


def _matters(_change: object, path: str) -> bool:
    """Git's own housekeeping and editors' scratch files do not count."""
    return not path.endswith(_NOISE) and f"{os.sep}.git{os.sep}objects{os.sep}" not in path


def _touches(row: RosterRow, paths: Iterable[str]) -> bool:
    root = os.path.realpath(row.path or "") + os.sep
    return any(os.path.realpath(path).startswith(root) for path in paths)


class _Told(NamedTuple):
    """What was last said of a repository: its newest snapshot, and that of its working view."""

    entry: int | None
    working: str | None


def _index(node: Node, row: RosterRow, told: dict[int, _Told], *, quiet: bool, as_json: bool) -> None:
    """Index, and say what came of it if that is news; an error is said and the watch goes on."""
    first = row.id not in told
    known = told.setdefault(row.id, _Told(node.store.head(row.url, row.ref), None))
    try:
        result = node.index(row, options=Options())
    except KnowingError as error:
        click.echo(f"{_now()} {visible(row.url)}: {error.message}", err=True)
        return
    view = result.working
    told[row.id] = now = _Told(node.store.head(row.url, row.ref), None if view is None else view["snapshot"])
    if as_json and now != known:
        click.echo(json.dumps({**result._asdict(), "index": now.entry}, ensure_ascii=False))
    if as_json or quiet:
        return
    place = f"{_now()} {visible(row.url)} @ {visible(result.commit[:12])}"
    if now.entry != known.entry:
        click.echo(f"{place}: {_read(result.parsed, result.nodes, result.edges, result.seconds)}")
    if view is not None and now != known:
        read = _read(view["parsed"], view["nodes"], view["edges"], result.seconds)
        click.echo(f"{place} {uncommitted(view)}: {read}")
    elif now.entry == known.entry and now != known:
        click.echo(f"{place}: no uncommitted changes any more")
    elif first and now == known:
        click.echo(f"{place}: up to date")


def _read(files: int, symbols: int, edges: int, seconds: float) -> str:
    return f"{files} files read, {symbols:,} symbols, {edges:,} edges, {seconds:.2f} s"


def _now() -> str:
    return time.strftime("%H:%M:%S")


@click.command("stale")
@click.argument("repo", metavar="[REPO]", required=False)
@common_options
def stale(repo: str | None, *, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Which snapshots and working views are behind their sources on this machine, and why."""
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
        for one in found:
            if one["working"] is not None:
                click.echo(f"{visible(one['repo'])}: answers come {uncommitted(one['working'])}")
        click.echo(f"{len(rows) - 1} of {len(found)} are stale; `knowing index` brings them up to date")
