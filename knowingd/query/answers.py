"""Answers as documents: what `--json` prints, and what a node answers over HTTP, made in one place.

Everything that the command line shows to people is made from these documents too, so that an answer of a node elsewhere
reads like one of this node.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from knowing_protocol.hashing import NodeId
from knowing_protocol.render import visible
from knowing_protocol.vocabulary import NodeKind

from knowingd.errors import NotFoundError, UsageError
from knowingd.query import callers as asking
from knowingd.query import leaving
from knowingd.query.scope import Scope
from knowingd.query.symbols import label, meant, symbol_json
from knowingd.store.working import Working

Document = dict[str, Any]


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


def callers(
    scope: Scope,
    symbol: str,
    *,
    edge_type: str = "calls",
    depth: int = 1,
    include_unresolved: bool = False,
    min_confidence: float = 0.0,
) -> Document:
    """Who uses a symbol. Unresolved uses, if they are asked for, come last and are as many as `unresolved` says."""
    found = asking.callers(one_symbol(symbol, scope), scope, asking.edge_types(edge_type), depth)
    working = scope.working
    uses = [use for use in found.uses if use.confidence >= min_confidence]
    rows = [*uses, *(found.unresolved if include_unresolved else ())]
    return {
        "symbol": symbol_json(found.symbol),
        "callers": [_use(use, working) for use in rows],
        "repos_searched": found.repositories,
        "unresolved": len(found.unresolved),
        "ambiguous": found.ambiguous,
        "reach": reach_json(working),
        "searched": _searched(scope),
    }


def callees(scope: Scope, symbol: str, *, edge_type: str = "calls", include_unresolved: bool = False) -> Document:
    """What a symbol uses, and where that is defined."""
    source = one_symbol(symbol, scope)
    if source.kind == NodeKind.EXTERNAL:
        raise NotFoundError(f"{source.name} is defined in no repository here", hint="`knowing add` the one that does")
    found = leaving.callees(source, scope, asking.edge_types(edge_type), with_unresolved=include_unresolved)
    working = scope.working
    rows = [
        {
            "target": symbol_json(one.target),
            "resolved": [symbol_json(definition) for definition in one.definitions],
            "edge_type": one.type,
            "provenance": one.provenance,
            "sites": [_place(place) for place in one.places],
            "working": source.repo in working,
        }
        for one in found
    ]
    return {
        "symbol": symbol_json(source),
        "callees": rows,
        "reach": reach_json(working),
        "searched": _searched(scope),
    }


def search(scope: Scope, query: str, *, kind: str | None = None, limit: int = 20) -> Document:
    """Symbols by words, best first."""
    found = []
    for one in (one for one in scope.repositories if scope.wanted(one.url)):
        with one.graph.reading() as session:
            for hit in session.search(query, limit, [kind] if kind else []):
                places = session.declarations_of(hit.node)
                found.append((hit.score, one.url, session.node(hit.node).node, places[0] if places else None))
    working = scope.working
    best = sorted(found, key=lambda one: (one[0], one[1], one[2]))[:limit]
    return {
        "results": [
            {
                **symbol_json(symbol),
                "file": place[0] if place else None,
                "line": place[1].line if place else None,
                "signature": place[1].signature if place else "",
                "score": round(-score, 4),
                "working": url in working,
            }
            for score, url, symbol, place in best
        ],
        "reach": reach_json(working),
    }


def dangling(scope: Scope, wanted: str | None = None, *, by: str | None = None) -> Document:
    """References that leave one repository, or all; added up `by` their reason or module, if that is given."""
    repositories = [one for one in scope.repositories if wanted in (None, one.url)]
    found = [(one.url, row) for one in repositories for row in leaving.dangling(one, scope)]
    working = {url: one for url, one in scope.working.items() if wanted in (None, url)}
    if by is not None:
        totals: Counter[str] = Counter()
        for _, row in found:
            totals[row.state if by == "reason" else row.module or "(unresolved receiver)"] += row.edges
        return {"by": by, "totals": dict(totals.most_common()), "reach": reach_json(working)}
    return {
        "dangling": [
            {
                **row._asdict(),
                "repo": url,
                "definitions": [symbol_json(node) for node in row.definitions],
                "working": url in working,
            }
            for url, row in found
        ],
        "reach": reach_json(working),
    }


def reach_json(working: Mapping[str, Working]) -> Document:
    """How far an answer reaches beyond what was committed and signed."""
    return {"working": [{"repo": url, "commit": one.base.commit, **one.as_json()} for url, one in working.items()]}


def _searched(scope: Scope) -> Document:
    """How far an answer reaches: what was searched, how old it is, what is not in it."""
    rows = [one for one in scope.repositories if scope.wanted(one.url)]
    oldest = min(rows, key=lambda one: one.snapshot.timestamp, default=None)
    missing: Counter[str] = Counter()
    for one in rows:
        missing.update(json.loads(one.snapshot.coverage))
    return {
        "repositories": len(rows),
        "oldest": None if oldest is None else {"repo": oldest.url, "time": oldest.snapshot.timestamp},
        "not_covered": dict(sorted(missing.items())),
    }


def _place(place: asking.Place) -> Document:
    return {"file": place.file, "line": place.line, "col": place.col}


def _use(use: asking.Use, working: Collection[str]) -> Document:
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
        "working": use.repo in working,
    }
