"""`knowing add` and `knowing index`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from knowing_protocol.errors import KnowingError
from knowing_protocol.render import visible

from knowingd.cli import common_options, wait_option
from knowingd.cli.node import emit, opened, table
from knowingd.cli.progress import Progress
from knowingd.cli.working import uncommitted
from knowingd.errors import UsageError
from knowingd.node import Node, Options, Result
from knowingd.source import list_repositories, locate

jobs_option = click.option(
    "--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, metavar="N", help="Processes to read with."
)


def _run(
    work: Iterable[tuple[str, Callable[[Options], Result]]], options: Options, *, quiet: bool, as_json: bool
) -> int:
    """Index one after the other; one that fails does not keep the others from it."""
    found: list[Result] = []
    failed: list[dict[str, str]] = []
    for title, job in work:
        progress = Progress(visible(title), quiet=quiet or as_json)
        try:
            result = job(options._replace(report=progress))
        except KnowingError as error:
            progress.clear()
            failed.append({"repo": title, **error.as_json()["error"]})
            if not as_json:
                hint = f"\n  {error.hint}" if error.hint else ""
                click.echo(f"error: {visible(title)}: {error.message}{hint}", err=True)
            continue
        progress.clear()
        found.append(result)
        for note in result.notes if not quiet and not as_json else ():
            click.echo(f"note: {visible(note)}", err=True)
    if as_json:
        emit({"repos": [_plain(one) for one in found], **({"failed": failed} if failed else {})})
    elif not quiet and found:
        rows: list[tuple[str, ...]] = [
            ("repository", "commit", "files", "read", "failed", "skipped", "symbols", "edges", "seconds")
        ]
        rows += (
            (
                visible(one.repo),
                visible(one.commit[:12]),
                *(f"{count:,}" for count in (one.files, one.parsed, one.failed, one.skipped, one.nodes, one.edges)),
                f"{one.seconds:.2f}",
            )
            for one in found
        )
        table(rows)
        for one in found:
            if one.working is not None:
                click.echo(f"{visible(one.repo)}: {uncommitted(one.working)}; peers and proofs see the commit")
    return 1 if failed else 0


def _plain(one: Result) -> dict[str, Any]:
    return {**one._asdict(), "seconds": round(one.seconds, 3), "notes": list(one.notes)}


@click.command("add")
@click.argument("places", metavar="PATH|GIT-URL...", nargs=-1)
@click.option(
    "--from", "listed", type=click.Path(path_type=Path), metavar="FILE", help="A file with one path or URL a line."
)
@click.option("--url", metavar="URL", help="What to call it, if its remote does not say.")
@click.option("--ref", metavar="REF", help="A branch, tag or commit instead of what is checked out.")
@jobs_option
@wait_option
@common_options
def add(
    places: tuple[str, ...],
    *,
    listed: Path | None,
    url: str | None,
    ref: str | None,
    jobs: int,
    wait: float,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> int:
    """Register repositories and index them.

    A path is a git repository, a bare one, or a plain directory. Of a git repository the commit is read and signed;
    where its work tree differs from it, questions asked here also see the uncommitted files. A git URL is mirrored into
    the node's data directory. Adding one again indexes what changed.
    """
    locations = [locate(text, Path.cwd()) for text in places]
    if listed is not None:
        locations += list_repositories(listed)
    if not locations:
        raise UsageError("name a path or a git URL, or a file of them with --from", hint="for example: knowing add .")
    if url is not None and len(locations) > 1:
        raise UsageError("--url names one repository, and several were given")
    with opened(home) as node:
        work = (
            (one.shown, lambda options, one=one: node.add(one, url=url, ref=ref, options=options)) for one in locations
        )
        return _run(work, Options(jobs=jobs, wait=wait), quiet=quiet, as_json=as_json)


@click.command("index")
@click.argument("repos", metavar="[REPO...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All repositories that are on this machine; the default.")
@click.option("--fetch", is_flag=True, help="Bring mirrors up to date first.")
@click.option("--ref", metavar="REF", help="A branch, tag or commit instead of what is checked out.")
@click.option("--full", is_flag=True, help="Read and link everything again.")
@jobs_option
@wait_option
@common_options
def index(
    repos: tuple[str, ...],
    *,
    everything: bool,
    fetch: bool,
    ref: str | None,
    full: bool,
    jobs: int,
    wait: float,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> int:
    """Index repositories again. Only changed files are read; `--full` reads all of them.

    Of a git repository the commit is signed. Uncommitted changes and untracked files that are not ignored go into a
    working view beside it, which only questions asked here use.
    """
    if everything and repos:
        raise UsageError("name repositories, or give --all, not both")
    with opened(home) as node:
        rows = [node.find(text) for text in repos] if repos else _here(node)
        work = (
            (row.url, lambda options, row=row: node.index(row, ref=ref, fetch=fetch, options=options)) for row in rows
        )
        return _run(work, Options(jobs=jobs, wait=wait, full=full), quiet=quiet, as_json=as_json)


def _here(node: Node) -> list[Any]:
    return [row for row in node.store.roster() if row.local and row.path is not None]
