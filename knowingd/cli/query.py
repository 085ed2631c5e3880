"""Questions: `callers`, `callees`, `search`, `dangling`, `export`.

What people read is made from the same documents that `--json` prints, whether this node answered or a hub did.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from knowing_protocol.hashing import NodeId
from knowing_protocol.render import visible
from knowing_protocol.vocabulary import EdgeType, NodeKind

from knowingd.cli import common_options
from knowingd.cli.hub import Elsewhere, ask, believed, hub_options
from knowingd.cli.node import emit, opened, table, when
from knowingd.cli.working import base_option, working_lines
from knowingd.errors import KnowingError, NotFoundError
from knowingd.node import Node
from knowingd.query import answers
from knowingd.query import export as exporting
from knowingd.query.answers import Document, reach_json
from knowingd.query.scope import Repository, Scope
from knowingd.query.symbols import label
from knowingd.store.working import Working

type_option = click.option(
    "--type",
    "edge_type",
    type=click.Choice(["uses", *(one.value for one in EdgeType)]),
    default="calls",
    show_default=True,
    metavar="TYPE",
    help="An edge type; `uses` is calls, references, imports, decorates and extends together.",
)
repo_option = click.option("--repo", "pattern", metavar="GLOB", help="Only answers from repositories that match.")
unresolved_option = click.option("--include-unresolved", is_flag=True, help="Also what could not be resolved.")


def counted(count: int, one: str, several: str = "") -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def _label(symbol: Mapping[str, Any]) -> str:
    return visible(label(NodeId(symbol["repo"], symbol["package"], symbol["name"], symbol["kind"])))


def _answer(
    elsewhere: Elsewhere,
    home: str | None,
    name: str,
    parameters: Mapping[str, object],
    local: Callable[[Node], Document],
    show: Callable[[Document], None],
) -> None:
    """Ask the hub or the local node, and show the answer."""
    if elsewhere:
        found = ask(elsewhere, name, parameters)
    else:
        with opened(home) as node:
            found = local(node)
    with believed(elsewhere):
        show(found)


@click.command("callers")
@click.argument("symbol", metavar="SYMBOL")
@type_option
@click.option("--depth", type=click.IntRange(1, 10), default=1, show_default=True, help="Also callers of callers.")
@repo_option
@base_option
@unresolved_option
@click.option(
    "--min-confidence", type=click.FloatRange(0, 1), default=0.0, metavar="X", help="Leave out what is less sure."
)
@hub_options
@common_options
def callers(
    symbol: str,
    *,
    edge_type: str,
    depth: int,
    pattern: str | None,
    base: bool,
    include_unresolved: bool,
    min_confidence: float,
    elsewhere: Elsewhere,
    home: str | None,
    as_json: bool,
    **_common: object,
) -> None:
    """Who uses a symbol, in any repository of this node.

    SYMBOL is a simple name, a dotted path, an import name (`flask.Flask.route`), a qualified name (`package:name`), a
    canonical name (`python://hashlib.md5`) or a hash. Calls through inheritance, re-exports, return types and third
    repositories count, and so do uncommitted changes that were indexed, unless --base is given.
    """
    parameters = {
        "symbol": symbol,
        "type": edge_type,
        "depth": depth,
        "repo": pattern,
        "include-unresolved": include_unresolved,
        "min-confidence": min_confidence,
    }

    def question(scope: Scope) -> Document:
        return answers.callers(
            scope,
            symbol,
            edge_type=edge_type,
            depth=depth,
            include_unresolved=include_unresolved,
            min_confidence=min_confidence,
        )

    def show(found: Document) -> None:
        if as_json:
            emit(found)
        else:
            _print_callers(found, include_unresolved=include_unresolved)

    _answer(elsewhere, home, "callers", parameters, lambda node: node.ask(question, pattern, working=not base), show)


def _print_callers(found: Document, *, include_unresolved: bool) -> None:
    symbol, unresolved = found["symbol"], found["unresolved"]
    count = len(found["callers"]) - (unresolved if include_unresolved else 0)
    uses, doubtful = found["callers"][:count], found["callers"][count:]
    click.echo(f"{visible(symbol['repo'] or 'outside')} {_label(symbol)} ({visible(symbol['kind'])})")
    _print_uses(uses)
    if doubtful:
        click.echo("\nmay be, but could not be resolved:")
        _print_uses(doubtful)
    sites = sum(len(use["sites"]) for use in uses)
    click.echo(
        f"\n{counted(len(uses), 'caller')}, {counted(sites, 'place')}; {found['ambiguous']} ambiguous, "
        f"{unresolved} unresolved"
    )
    click.echo(_reach(found))
    if unresolved and not include_unresolved:
        click.echo("--include-unresolved shows the unresolved ones")


def _print_uses(uses: Sequence[Document]) -> None:
    repo = None
    for use in uses:
        if use["repo"] != repo:
            repo = use["repo"]
            more = " with uncommitted changes" if use["working"] else ""
            click.echo(f"\n{visible(repo)} @ {visible(use['commit'][:12])}{more}")
        depth = f" [depth {use['depth']}]" if use["depth"] > 1 else ""
        sure = "" if use["confidence"] == 1.0 else f" ({visible(use['provenance'])})"
        how = "" if use["edge_type"] == "calls" else f" {visible(use['edge_type'])}"
        doubt = " ambiguous" if use["ambiguous"] else ""
        via = f" as {visible(use['via'])}" if use["via"] else ""
        click.echo(f"  {_label(use)}{how}{via}{sure}{doubt}{depth}")
        for place in use["sites"][:3]:
            click.echo(f"    {visible(place['file'])}:{place['line']:d}:{place['col'] + 1:d}")
        if len(use["sites"]) > 3:
            click.echo(f"    and {len(use['sites']) - 3} more")


def _reach(found: Document) -> str:
    """How far an answer reaches: what was searched, how old it is, what is not in it."""
    searched = found["searched"]
    oldest = searched["oldest"]
    if oldest is None:
        return "no repositories were searched; `knowing add` registers some"
    gaps = ", ".join(f"{count:,} {visible(reason)}" for reason, count in searched["not_covered"].items()) or "none"
    age = max(0, int(time.time()) - oldest["time"]) // 3600
    days = f", {age // 24} days ago" if age >= 48 else ""
    line = (
        f"searched {counted(searched['repositories'], 'repository', 'repositories')}; "
        f"oldest snapshot {when(oldest['time'])}{days} ({visible(oldest['repo'])}); files not fully covered: {gaps}"
    )
    return "\n".join((line, *working_lines(found["reach"]["working"])))


@click.command("callees")
@click.argument("symbol", metavar="SYMBOL")
@type_option
@base_option
@unresolved_option
@hub_options
@common_options
def callees(
    symbol: str,
    *,
    edge_type: str,
    base: bool,
    include_unresolved: bool,
    elsewhere: Elsewhere,
    home: str | None,
    as_json: bool,
    **_common: object,
) -> None:
    """What a symbol uses, and where that is defined, here or in another repository."""
    parameters = {"symbol": symbol, "type": edge_type, "include-unresolved": include_unresolved}

    def question(scope: Scope) -> Document:
        return answers.callees(scope, symbol, edge_type=edge_type, include_unresolved=include_unresolved)

    show = emit if as_json else _print_callees
    _answer(elsewhere, home, "callees", parameters, lambda node: node.ask(question, working=not base), show)


def _print_callees(found: Document) -> None:
    source = found["symbol"]
    click.echo(f"{visible(source['repo'])} {_label(source)} ({visible(source['kind'])})")
    for one in found["callees"]:
        where = f":{one['sites'][0]['line']:d}" if one["sites"] else ""
        known = [definition for definition in one["resolved"] if definition != one["target"]]
        defined = "; ".join(f"{visible(each['repo'])} {_label(each)}" for each in known[:3])
        click.echo(f"  {_label(one['target'])}{where}" + (f"\n    = {defined}" if defined else ""))
    click.echo(f"\n{counted(len(found['callees']), 'callee')}; {_reach(found)}")


@click.command("search")
@click.argument("query", metavar="QUERY")
@repo_option
@base_option
@click.option("--kind", type=click.Choice([one.value for one in NodeKind]), metavar="K", help="Only symbols of a kind.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N")
@hub_options
@common_options
def search(
    query: str,
    *,
    pattern: str | None,
    base: bool,
    kind: str | None,
    limit: int,
    elsewhere: Elsewhere,
    home: str | None,
    as_json: bool,
    **_common: object,
) -> None:
    """Symbols by the words of their names, files, signatures and docs, in all repositories, best first."""
    parameters = {"query": query, "repo": pattern, "kind": kind, "limit": limit}

    def question(scope: Scope) -> Document:
        return answers.search(scope, query, kind=kind, limit=limit)

    show = emit if as_json else _print_results
    _answer(elsewhere, home, "search", parameters, lambda node: node.ask(question, pattern, working=not base), show)


def _print_results(found: Document) -> None:
    for one in found["results"]:
        where = f"  {visible(one['file'])}:{one['line']:d}" if one["file"] is not None else ""
        click.echo(f"{visible(one['repo'])} {_label(one)} ({visible(one['kind'])}){where}")
    if not found["results"]:
        click.echo("nothing found")
    for line in working_lines(found["reach"]["working"]):
        click.echo(line)


@click.command("dangling")
@click.argument("repo", metavar="[REPO]", required=False)
@click.option("--by", type=click.Choice(["reason", "module"]), help="Add up instead of listing names.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Names to list.")
@base_option
@hub_options
@common_options
def dangling(
    repo: str | None,
    *,
    by: str | None,
    limit: int,
    base: bool,
    elsewhere: Elsewhere,
    home: str | None,
    as_json: bool,
    **_common: object,
) -> None:
    """References that leave a repository: resolved in another one, ambiguous, of the standard library, unknown.

    What is unknown most often is what to `knowing add` next.
    """

    def local(node: Node) -> Document:
        wanted = node.find(repo).url if repo else None
        return node.ask(lambda scope: answers.dangling(scope, wanted, by=by), working=not base)

    def show(found: Document) -> None:
        if as_json:
            emit(found)
        else:
            _print_dangling(found, by, limit)

    _answer(elsewhere, home, "dangling", {"repo": repo or None, "by": by}, local, show)


def _print_dangling(found: Document, by: str | None, limit: int) -> None:
    if by is not None:
        table([(by, "edges"), *((visible(name), f"{count:,}") for name, count in found["totals"].items())])
    else:
        names = sorted(found["dangling"], key=lambda one: -one["edges"])
        rows = [("edges", "state", "name", "repository")]
        rows += (
            (f"{one['edges']:,}", visible(one["state"]), visible(one["name"])[:80], visible(one["repo"]))
            for one in names[:limit]
        )
        table(rows)
        if len(names) > limit:
            click.echo(f"and {len(names) - limit:,} more names (--limit)")
    for line in working_lines(found["reach"]["working"]):
        click.echo(line)


@click.command("export")
@click.argument("repo", metavar="REPO")
@click.option("--format", "form", type=click.Choice(exporting.FORMATS), default="json", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A file instead of stdout.")
@base_option
@common_options
def export(
    repo: str,
    *,
    form: str,
    output: Path | None,
    base: bool,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> None:
    """A repository's whole graph, every edge with where it leads. Without -o it goes to stdout."""
    with opened(home) as node:
        row = node.find(repo)

        def question(scope: Scope) -> tuple[str, dict[str, Working]]:
            repository = _repository(scope, row.url)
            working = {url: one for url, one in scope.working.items() if url == row.url}
            if form == "json":
                return json.dumps(exporting.export_json(repository, scope), ensure_ascii=False), working
            return "\n".join(exporting.export_text(repository, form)), working

        text, working = node.ask(question, working=not base)
        reach = reach_json(working)
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise KnowingError(f"{output}: {error.strerror}", code="cannot-write", hint="name another file") from error
    if as_json:
        emit({"file": str(output), "format": form, "reach": reach})
    elif not quiet:
        click.echo(f"{visible(row.url)} written to {output}")
        for line in working_lines(reach["working"]):
            click.echo(line)


def _repository(scope: Scope, url: str) -> Repository:
    for one in scope.repositories:
        if one.url == url:
            return one
    raise NotFoundError(f"{url} has no snapshot yet", hint="`knowing index` takes one")
