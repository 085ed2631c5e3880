"""Questions: `callers`, `callees`, `search`, `dangling`, `export`."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
from knowing_protocol.hashing import NodeId
from knowing_protocol.render import visible
from knowing_protocol.vocabulary import EdgeType, NodeKind

from knowingd.cli import common_options
from knowingd.cli.node import emit, opened, table, when
from knowingd.errors import KnowingError, NotFoundError, UsageError
from knowingd.query import callers as asking
from knowingd.query import export as exporting
from knowingd.query import leaving
from knowingd.query.scope import Repository, Scope
from knowingd.query.symbols import label, meant, symbol_json

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


class SeveralError(UsageError):
    """A text that may mean several symbols."""

    code = "ambiguous"

    def __init__(self, text: str, choices: tuple[NodeId, ...]) -> None:
        shown = "".join(
            f"\n  {visible(one.repo or '(outside)')} {visible(label(one))} ({one.kind})" for one in choices[:20]
        )
        more = f"\n  and {len(choices) - 20} more" if len(choices) > 20 else ""
        super().__init__(f"{text!r} may be any of:{shown}{more}", hint="write more of it, or its hash")
        self.choices = choices

    def as_json(self) -> dict[str, Any]:
        """The error with its choices."""
        return {"error": {**super().as_json()["error"], "choices": [symbol_json(one) for one in self.choices]}}


def one_symbol(text: str, scope: Scope) -> NodeId:
    """The one symbol that a text means."""
    found = meant(text, scope)
    if len(found) > 1:
        raise SeveralError(text, found)
    return found[0]


def counted(count: int, one: str, several: str = "") -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def _place(place: asking.Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.line, "col": place.col}


def _row(use: asking.Use) -> dict[str, Any]:
    first = use.places[0] if use.places else None
    return {
        "repo": use.repo,
        "commit": use.commit,
        "package": use.symbol.package,
        "name": use.symbol.name,
        "kind": use.symbol.kind,
        "file": first.file if first else None,
        "line": first.line if first else None,
        "sites": [_place(one) for one in use.places],
        "edge_type": use.type,
        "provenance": use.provenance,
        "confidence": use.confidence,
        "depth": use.depth,
        "via": use.via,
        "ambiguous": use.ambiguous,
    }


@click.command("callers")
@click.argument("symbol", metavar="SYMBOL")
@type_option
@click.option("--depth", type=click.IntRange(1, 10), default=1, show_default=True, help="Also callers of callers.")
@repo_option
@unresolved_option
@click.option(
    "--min-confidence", type=click.FloatRange(0, 1), default=0.0, metavar="X", help="Leave out what is less sure."
)
@common_options
def callers(
    symbol: str,
    *,
    edge_type: str,
    depth: int,
    pattern: str | None,
    include_unresolved: bool,
    min_confidence: float,
    home: str | None,
    as_json: bool,
    **_common: object,
) -> None:
    """Who uses a symbol, in any repository of this node.

    SYMBOL is a simple name, a dotted path, an import name (`flask.Flask.route`), a qualified name (`package:name`), a
    canonical name (`python://hashlib.md5`) or a hash. Calls through inheritance, re-exports, return types and third
    repositories count.
    """
    with opened(home) as node, node.scope(pattern) as scope:
        found = asking.callers(one_symbol(symbol, scope), scope, asking.edge_types(edge_type), depth)
        reach = _reach(scope)
    uses = [use for use in found.uses if use.confidence >= min_confidence]
    if as_json:
        rows = [*uses, *(found.unresolved if include_unresolved else ())]
        emit(
            {
                "symbol": symbol_json(found.symbol),
                "callers": [_row(use) for use in rows],
                "repos_searched": found.repositories,
                "unresolved": len(found.unresolved),
                "ambiguous": found.ambiguous,
            }
        )
        return
    click.echo(f"{visible(found.symbol.repo or 'outside')} {visible(label(found.symbol))} ({found.symbol.kind})")
    _print_uses(uses)
    if include_unresolved and found.unresolved:
        click.echo("\nmay be, but could not be resolved:")
        _print_uses(found.unresolved)
    sites = sum(len(use.places) for use in uses)
    click.echo(
        f"\n{counted(len(uses), 'caller')}, {counted(sites, 'place')}; {found.ambiguous} ambiguous, "
        f"{len(found.unresolved)} unresolved"
    )
    click.echo(reach)
    if found.unresolved and not include_unresolved:
        click.echo("--include-unresolved shows the unresolved ones")


def _print_uses(uses: Any) -> None:
    repo = None
    for use in uses:
        if use.repo != repo:
            repo = use.repo
            click.echo(f"\n{visible(repo)} @ {visible(use.commit[:12])}")
        depth = f" [depth {use.depth}]" if use.depth > 1 else ""
        sure = "" if use.confidence == 1.0 else f" ({use.provenance})"
        how = "" if use.type == "calls" else f" {use.type}"
        doubt = " ambiguous" if use.ambiguous else ""
        via = f" as {visible(use.via)}" if use.via else ""
        click.echo(f"  {visible(label(use.symbol))}{how}{via}{sure}{doubt}{depth}")
        for place in use.places[:3]:
            click.echo(f"    {visible(place.file)}:{place.line}:{place.col + 1}")
        if len(use.places) > 3:
            click.echo(f"    and {len(use.places) - 3} more")


def _reach(scope: Scope) -> str:
    """How far an answer reaches: what was searched, how old it is, what is not in it."""
    rows = [one for one in scope.repositories if scope.wanted(one.url)]
    if not rows:
        return "no repositories were searched; `knowing add` registers some"
    oldest = min(rows, key=lambda one: one.snapshot.timestamp)
    missing: Counter[str] = Counter()
    for one in rows:
        missing.update(json.loads(one.snapshot.coverage))
    gaps = ", ".join(f"{count:,} {reason}" for reason, count in sorted(missing.items())) or "none"
    age = max(0, int(time.time()) - oldest.snapshot.timestamp) // 3600
    days = f", {age // 24} days ago" if age >= 48 else ""
    searched = counted(len(rows), "repository", "repositories")
    return (
        f"searched {searched}; oldest snapshot {when(oldest.snapshot.timestamp)}{days} "
        f"({visible(oldest.url)}); files not fully covered: {gaps}"
    )


@click.command("callees")
@click.argument("symbol", metavar="SYMBOL")
@type_option
@unresolved_option
@common_options
def callees(
    symbol: str, *, edge_type: str, include_unresolved: bool, home: str | None, as_json: bool, **_common: object
) -> None:
    """What a symbol uses, and where that is defined, here or in another repository."""
    with opened(home) as node, node.scope() as scope:
        source = one_symbol(symbol, scope)
        if source.kind == NodeKind.EXTERNAL:
            raise NotFoundError(
                f"{source.name} is defined in no repository here", hint="`knowing add` the one that does"
            )
        found = leaving.callees(source, scope, asking.edge_types(edge_type), with_unresolved=include_unresolved)
        reach = _reach(scope)
    if as_json:
        rows = [
            {
                "target": symbol_json(one.target),
                "resolved": [symbol_json(definition) for definition in one.definitions],
                "edge_type": one.type,
                "provenance": one.provenance,
                "sites": [_place(place) for place in one.places],
            }
            for one in found
        ]
        emit({"symbol": symbol_json(source), "callees": rows})
        return
    click.echo(f"{visible(source.repo)} {visible(label(source))} ({source.kind})")
    for one in found:
        where = f":{one.places[0].line}" if one.places else ""
        target = visible(label(one.target))
        known = [one_definition for one_definition in one.definitions if one_definition != one.target]
        defined = "; ".join(f"{visible(each.repo)} {visible(label(each))}" for each in known[:3])
        click.echo(f"  {target}{where}" + (f"\n    = {defined}" if defined else ""))
    click.echo(f"\n{counted(len(found), 'callee')}; {reach}")


@click.command("search")
@click.argument("query", metavar="QUERY")
@repo_option
@click.option("--kind", type=click.Choice([one.value for one in NodeKind]), metavar="K", help="Only symbols of a kind.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N")
@common_options
def search(
    query: str, *, pattern: str | None, kind: str | None, limit: int, home: str | None, as_json: bool, **_common: object
) -> None:
    """Symbols by the words of their names, files, signatures and docs, in all repositories, best first."""
    found = []
    with opened(home) as node, node.scope(pattern) as scope:
        for one in (one for one in scope.repositories if scope.wanted(one.url)):
            for hit in one.graph.session.search(query, limit, [kind] if kind else []):
                symbol = one.graph.session.node(hit.node).node
                places = one.graph.session.declarations_of(hit.node)
                found.append((hit.score, one.url, symbol, places[0] if places else None))
    found.sort(key=lambda one: (one[0], one[1], one[2]))
    found = found[:limit]
    if as_json:
        emit(
            {
                "results": [
                    {
                        **symbol_json(symbol),
                        "file": place[0] if place else None,
                        "line": place[1].line if place else None,
                        "signature": place[1].signature if place else "",
                        "score": round(-score, 4),
                    }
                    for score, _, symbol, place in found
                ]
            }
        )
        return
    for _, url, symbol, place in found:
        where = f"  {visible(place[0])}:{place[1].line}" if place else ""
        click.echo(f"{visible(url)} {visible(label(symbol))} ({symbol.kind}){where}")
    if not found:
        click.echo("nothing found")


@click.command("dangling")
@click.argument("repo", metavar="[REPO]", required=False)
@click.option("--by", type=click.Choice(["reason", "module"]), help="Add up instead of listing names.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Names to list.")
@common_options
def dangling(
    repo: str | None, *, by: str | None, limit: int, home: str | None, as_json: bool, **_common: object
) -> None:
    """References that leave a repository: resolved in another one, ambiguous, of the standard library, unknown.

    What is unknown most often is what to `knowing add` next.
    """
    found: list[tuple[str, leaving.Dangling]] = []
    with opened(home) as node:
        wanted = node.find(repo).url if repo else None
        with node.scope() as scope:
            for one in scope.repositories:
                if wanted in (None, one.url):
                    found += ((one.url, row) for row in leaving.dangling(one, scope))
    if by is not None:
        totals: Counter[str] = Counter()
        for _, row in found:
            totals[row.state if by == "reason" else row.module or "(unresolved receiver)"] += row.edges
        if as_json:
            emit({"by": by, "totals": dict(totals.most_common())})
        else:
            table([(by, "edges"), *((visible(name), f"{count:,}") for name, count in totals.most_common())])
        return
    if as_json:
        plain = [
            {**row._asdict(), "repo": url, "definitions": [symbol_json(node) for node in row.definitions]}
            for url, row in found
        ]
        emit({"dangling": plain})
        return
    found.sort(key=lambda one: -one[1].edges)
    rows = [("edges", "state", "name", "repository")]
    rows += ((f"{row.edges:,}", row.state, visible(row.name)[:80], visible(url)) for url, row in found[:limit])
    table(rows)
    if len(found) > limit:
        click.echo(f"and {len(found) - limit:,} more names (--limit)")


@click.command("export")
@click.argument("repo", metavar="REPO")
@click.option("--format", "form", type=click.Choice(exporting.FORMATS), default="json", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A file instead of stdout.")
@common_options
def export(
    repo: str, *, form: str, output: Path | None, home: str | None, as_json: bool, quiet: bool, **_common: object
) -> None:
    """A repository's whole graph, every edge with where it leads. Without -o it goes to stdout."""
    with opened(home) as node:
        row = node.find(repo)
        with node.scope() as scope:
            repository = _repository(scope, row.url)
            if form == "json":
                text = json.dumps(exporting.export_json(repository, scope), ensure_ascii=False)
            else:
                text = "\n".join(exporting.export_text(repository, form))
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise KnowingError(f"{output}: {error.strerror}", code="cannot-write", hint="name another file") from error
    if as_json:
        emit({"file": str(output), "format": form})
    elif not quiet:
        click.echo(f"{visible(row.url)} written to {output}")


def _repository(scope: Scope, url: str) -> Repository:
    for one in scope.repositories:
        if one.url == url:
            return one
    raise NotFoundError(f"{url} has no snapshot yet", hint="`knowing index` takes one")
