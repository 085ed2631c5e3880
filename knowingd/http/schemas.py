"""The shapes of answers, as JSON schemas: what a client may rely on. More fields may be present, none fewer."""

from __future__ import annotations

from typing import Any, Final

from knowing_protocol.vocabulary import Coverage, EdgeType, NodeKind, Provenance

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TIME: Final[Schema] = {"type": "integer", "description": "Seconds since 1970."}
FLAG: Final[Schema] = {"type": "boolean"}
HASH: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
KIND: Final[Schema] = {"type": "string", "enum": [one.value for one in NodeKind]}
EDGE_TYPE: Final[Schema] = {"type": "string", "enum": [one.value for one in EdgeType]}
PROVENANCE: Final[Schema] = {"type": "string", "enum": [one.value for one in Provenance]}
COUNTS: Final[Schema] = {"type": "object", "additionalProperties": COUNT}
STATES: Final = ("resolved", "ambiguous", "standard library", "unknown", "unresolved")


def record(**fields: Schema) -> Schema:
    """An object with at least these fields."""
    return {"type": "object", "required": list(fields), "properties": fields}


def rows(of: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": of}


def maybe(schema: Schema) -> Schema:
    """That, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def named(name: str) -> Schema:
    """A schema by its name in the document."""
    return {"$ref": f"#/components/schemas/{name}"}


SYMBOL: Final = {"repo": TEXT, "package": TEXT, "name": TEXT, "kind": KIND, "hash": HASH}
SCHEMAS: Final[dict[str, Schema]] = {
    "Error": record(
        error={
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": {"type": "string", "description": "Stable, for machines."},
                "message": {"type": "string", "description": "What happened."},
                "hint": {"type": "string", "description": "What to do next; may be empty."},
                "choices": {**rows(named("Symbol")), "description": "What an ambiguous symbol may be."},
            },
        },
        request={"type": "string", "description": "The name of the request, as in the field Knowing-Request."},
    ),
    "Symbol": record(**SYMBOL),
    "Place": record(file=TEXT, line=COUNT, col=COUNT),
    "Caller": record(
        repo=TEXT,
        commit=TEXT,
        package=TEXT,
        name=TEXT,
        kind=KIND,
        file=maybe(TEXT),
        line=maybe(COUNT),
        sites=rows(named("Place")),
        edge_type=EDGE_TYPE,
        provenance=PROVENANCE,
        confidence={"type": "number", "minimum": 0, "maximum": 1},
        depth={"type": "integer", "minimum": 1},
        via=maybe(TEXT),
        ambiguous=FLAG,
        working=FLAG,
    ),
    "Callee": record(
        target=named("Symbol"),
        resolved=rows(named("Symbol")),
        edge_type=EDGE_TYPE,
        provenance=PROVENANCE,
        sites=rows(named("Place")),
        working=FLAG,
    ),
    "Result": record(
        **SYMBOL, file=maybe(TEXT), line=maybe(COUNT), signature=TEXT, score={"type": "number"}, working=FLAG
    ),
    "Dangling": record(
        name=TEXT,
        module=TEXT,
        state={"type": "string", "enum": list(STATES)},
        edges=COUNT,
        definitions=rows(named("Symbol")),
        repo=TEXT,
        working=FLAG,
    ),
    "Reach": record(
        working={"type": "array", "maxItems": 0, "description": "Uncommitted changes; a node never serves any."}
    ),
    "Searched": record(
        repositories=COUNT,
        oldest=maybe(record(repo=TEXT, time=TIME)),
        not_covered={
            "type": "object",
            "propertyNames": {"enum": [one.value for one in Coverage]},
            "additionalProperties": COUNT,
        },
    ),
    "Repository": record(
        repo=TEXT,
        ref=TEXT,
        origin=HASH,
        local=FLAG,
        path={"type": "null"},
        commit=maybe(TEXT),
        index=maybe(COUNT),
        nodes=COUNT,
        edges=COUNT,
        time=maybe(TIME),
        working={"type": "null"},
        error=maybe(TEXT),
    ),
    "Statistics": record(
        repo=TEXT,
        ref=TEXT,
        bytes=COUNT,
        packages=COUNT,
        files=COUNT,
        aliases=COUNT,
        members=COUNT,
        snapshots=COUNT,
        events=COUNT,
        symbols=COUNTS,
        edges=COUNTS,
        provenance=COUNTS,
        coverage=COUNTS,
    ),
    "Node": record(
        origin=HASH,
        first_key=HASH,
        key_notes=rows(TEXT),
        protocols=rows({"type": "integer", "minimum": 1}),
        note={"type": "string", "description": "A signed note over the nonce and the versions."},
    ),
}

ANSWERS: Final[dict[str, Schema]] = {
    "/v1/callers": record(
        symbol=named("Symbol"),
        callers=rows(named("Caller")),
        repos_searched=COUNT,
        unresolved=COUNT,
        ambiguous=COUNT,
        reach=named("Reach"),
        searched=named("Searched"),
    ),
    "/v1/callees": record(
        symbol=named("Symbol"), callees=rows(named("Callee")), reach=named("Reach"), searched=named("Searched")
    ),
    "/v1/search": record(results=rows(named("Result")), reach=named("Reach")),
    "/v1/dangling": {
        "anyOf": [
            record(dangling=rows(named("Dangling")), reach=named("Reach")),
            record(by={"type": "string", "enum": ["reason", "module"]}, totals=COUNTS, reach=named("Reach")),
        ]
    },
    "/v1/repos": record(repos=rows(named("Repository"))),
    "/v1/stats": record(repos=rows(named("Statistics"))),
}
"""The documents of the query endpoints."""
