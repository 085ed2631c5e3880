"""Commands about what was and what is kept of it: `diff`, `gc`, `backup`, `restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from knowing_protocol.hashing import NodeId, snapshot_hash
from knowing_protocol.render import visible

from knowingd.cli import common_options, wait_option
from knowingd.cli.node import emit, opened, table
from knowingd.config import Home
from knowingd.errors import UsageError
from knowingd.query.symbols import label, symbol_json
from knowingd.snapshot.diff import Diff, EdgeChange

_SHOWN = 20


def _edge(change: EdgeChange) -> dict[str, Any]:
    return {
        "source": symbol_json(change.source),
        "target": symbol_json(change.target),
        "type": change.type,
        "provenance": change.provenance,
    }


def _shown(node: NodeId) -> str:
    return visible(label(node))


def _plain(found: Diff) -> dict[str, Any]:
    ends = {
        name: {"index": row.log_index, "commit": row.commit, "snapshot": snapshot_hash(row.source_root).hex()}
        for name, row in (("old", found.old), ("new", found.new))
    }
    return {
        **ends,
        "change_class": found.change_class,
        "packages": [{"package": package, "edge_types": types} for package, types in found.packages.items()],
        "edges": {
            "added": [_edge(one) for one in found.edges_added],
            "removed": [_edge(one) for one in found.edges_removed],
        },
        "symbols": {
            "added": [symbol_json(one) for one in found.symbols_added],
            "removed": [symbol_json(one) for one in found.symbols_removed],
        },
        "files": {"added": found.files_added, "removed": found.files_removed, "changed": found.files_changed},
        "names_changed": found.names_changed,
        "coverage_changed": found.coverage_changed,
    }


@click.command("diff")
@click.argument("repo", metavar="REPO")
@click.argument("old", metavar="[OLD]", required=False)
@click.argument("new", metavar="[NEW]", required=False)
@common_options
def difference(
    repo: str, old: str | None, new: str | None, *, home: str | None, as_json: bool, verbose: bool, **_common: object
) -> None:
    """What differs between two snapshots: packages, edge types, edges, symbols and files.

    OLD and NEW are an index of the log, a commit, or the beginning of a snapshot's hash; by default the newest two.
    The change class is the gravest of: behavioral, structural, runtime_drift, metadata_only, none.
    """
    with opened(home) as node:
        found = node.diff(repo, old, new)
    if as_json:
        emit(_plain(found))
        return
    click.echo(
        f"snapshot {found.old.log_index} ({visible(found.old.commit[:12])}) to {found.new.log_index} "
        f"({visible(found.new.commit[:12])}): {found.change_class}"
    )
    lines = [f"{visible(package)}: {', '.join(types)}" for package, types in found.packages.items()]
    _section("packages that differ", lines, everything=verbose)
    lines = [f"+ {_shown(one)} ({one.kind})" for one in found.symbols_added]
    lines += [f"- {_shown(one)} ({one.kind})" for one in found.symbols_removed]
    _section("symbols", lines, everything=verbose)
    lines = [f"+ {_shown(one.source)} {one.type} {_shown(one.target)}" for one in found.edges_added]
    lines += [f"- {_shown(one.source)} {one.type} {_shown(one.target)}" for one in found.edges_removed]
    _section("edges", lines, everything=verbose)
    lines = [f"+ {visible(path)}" for path in found.files_added] + [
        f"- {visible(path)}" for path in found.files_removed
    ]
    _section("files", [*lines, *(f"~ {visible(path)}" for path in found.files_changed)], everything=verbose)
    if found.names_changed:
        click.echo(f"aliases, members and type facts: {found.names_changed} changed")
    if found.coverage_changed:
        click.echo(f"coverage: {len(found.coverage_changed)} files changed")


def _section(title: str, lines: list[str], *, everything: bool) -> None:
    if not lines:
        return
    click.echo(f"{title} ({len(lines)}):")
    for line in lines if everything else lines[:_SHOWN]:
        click.echo(f"  {line}")
    if len(lines) > _SHOWN and not everything:
        click.echo(f"  and {len(lines) - _SHOWN} more (-v shows all)")


@click.command("gc")
@click.option(
    "--keep", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Snapshots to keep openable."
)
@wait_option
@common_options
def collect(*, keep: int, wait: float, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Forget what older snapshots changed, symbols that are gone for 30 days, and what nothing refers to.

    Headers and log entries stay: every snapshot can still be named and its history proven.
    """
    with opened(home) as node:
        found = node.gc(keep, wait=wait)
    if as_json:
        emit({"repos": found})
    elif not quiet and not found:
        click.echo("no repositories yet")
    elif not quiet:
        rows: list[tuple[str, ...]] = [
            ("repository", "snapshots pruned", "events", "symbols", "packages", "pages freed")
        ]
        rows += (
            (
                visible(one["repo"]),
                *(f"{one[name]:,}" for name in ("snapshots", "events", "nodes", "packages", "pages")),
            )
            for one in found
        )
        table(rows)


@click.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--with-key", is_flag=True, help="Put the node's keys into it as well: whoever has the file can be this node."
)
@common_options
def backup(file: Path, *, with_key: bool, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Write all databases into one tar file, consistent beside a running node."""
    with opened(home) as node:
        found = node.backup(file, with_key=with_key)
    if as_json:
        emit({"file": str(file), "bytes": file.stat().st_size, **found})
    elif not quiet:
        key = "with the keys: keep it secret" if with_key else "without the keys"
        click.echo(f"{len(found['repositories'])} repositories in {file}, {file.stat().st_size / 1e6:,.1f} MB, {key}")


@click.command("restore")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--new-epoch", is_flag=True, help="Begin a new log that names the last known state of the old one.")
@common_options
def restore(
    file: Path | None, *, new_epoch: bool, home: str | None, as_json: bool, quiet: bool, **_common: object
) -> None:
    """Bring a backup back into an empty data directory.

    The node then signs nothing, because it may have signed more since the backup, until it has recovered its newest
    log from a peer or --new-epoch begins a new one. Without the node's key, its repositories come back read-only.
    """
    from knowingd.snapshot.backup import restore_backup

    if file is None and not new_epoch:
        raise UsageError("name the FILE to restore, or give --new-epoch", hint="see `knowing restore --help`")
    found: dict[str, Any] = restore_backup(file, Home.at(home)) if file is not None else {}
    with opened(home) as node:
        if new_epoch and not found.get("replicas"):
            found["epoch"] = node.begin_epoch()
        found["held"] = node.store.held()
    if as_json:
        emit(found)
    elif not quiet:
        if file is not None:
            click.echo(f"{len(found['repositories'])} repositories restored")
        if found.get("replicas"):
            click.echo(
                "the node's key is not here, so they are read-only; a backup made --with-key can be written again"
            )
        elif found["held"]:
            click.echo("the node signs nothing until it has recovered its newest log, or `knowing restore --new-epoch`")
        else:
            click.echo(f"epoch {found['epoch']} has begun")
