"""The OpenAPI document of a node, made from one table of its endpoints; `docs/openapi.json` is the same, written out.

Bodies between nodes are described as bytes: what stands in them is in `protocol/SPEC.md`, which is normative.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

from knowingd import __version__
from knowingd.http.parameters import Parameter
from knowingd.http.queries import QUERIES
from knowingd.http.schemas import ANSWERS, FLAG, SCHEMAS, Schema, named, record
from knowingd.sync.wire import COMPRESSED, MEDIA_TYPE

JSON: Final = "application/json"
TOKEN: Final = "token"  # noqa: S105 - the name of a security scheme
SIGNATURE: Final = "signature"
_BYTES: Final[Schema] = {"type": "string", "format": "binary"}
_WIRE: Final = {MEDIA_TYPE: _BYTES, COMPRESSED: _BYTES}
_ANY: Final[Schema] = {"type": "object"}
_REASONS: Final = {
    400: "What was asked makes no sense as it was asked.",
    401: "No token or signature, or one that does not count here.",
    403: "Not for whoever asks.",
    404: "There is no such thing here, or not for whoever asks: the two cannot be told apart.",
    409: "The state that the request builds on is no longer the newest.",
    413: "The body is too large.",
    429: "Too many requests; Retry-After says when to come again.",
    500: "An internal error; the node's log has the request's name.",
    503: "Too slow, or too much is being written: ask for less, or again later.",
}
_ASKED: Final = (400, 401, 404, 429, 500, 503)
_EXCHANGED: Final = (400, 401, 403, 404, 409, 413, 429, 500, 503)


class Endpoint(NamedTuple):
    """What a node answers at one path. `security` are alternatives; none means anybody."""

    method: str
    path: str
    about: str
    answer: dict[str, Schema]
    refusals: tuple[int, ...] = (500,)
    parameters: tuple[Parameter, ...] = ()
    body: dict[str, Schema] | None = None
    security: tuple[str, ...] = ()


def _wired(name: str, about: str, *security: str) -> Endpoint:
    return Endpoint("post", f"/v1/{name}", about, _WIRE, _EXCHANGED, (), _WIRE, security)


_NONCE: Final = Parameter(
    "nonce",
    "nonce",
    {"type": "string", "pattern": "^[A-Za-z0-9]{1,64}$"},
    "Letters and digits that the answer is signed over.",
    required=True,
)

ENDPOINTS: Final = (
    Endpoint("get", "/healthz", "Whether the process runs.", {JSON: record(ok=FLAG)}),
    Endpoint("get", "/readyz", "Whether the node answers; 503 while it does not.", {JSON: record(ready=FLAG)}),
    Endpoint(
        "get",
        "/metrics",
        "Numbers for Prometheus: from this machine, or with a token for all repositories.",
        {"text/plain": {"type": "string"}},
        (401, 403, 500),
        security=("", TOKEN),
    ),
    Endpoint("get", "/v1/openapi.json", "This document.", {JSON: _ANY}),
    Endpoint("get", "/v1/node", "Who the node is, signed.", {JSON: named("Node")}, (400, 429, 500), (_NONCE,)),
    *(
        Endpoint("get", one.path, one.about, {JSON: ANSWERS[one.path]}, _ASKED, one.parameters, None, (TOKEN,))
        for one in QUERIES
    ),
    _wired("join", "Become a peer, with an invitation.", SIGNATURE),
    _wired("knock", "Ask to become a peer; a human decides.", SIGNATURE),
    _wired("keys", "Show the keys that a peer has by now.", SIGNATURE),
    _wired("roster", "What is new, for whoever asks.", SIGNATURE, TOKEN),
    _wired("log", "Headers and proofs of an origin's log.", SIGNATURE, TOKEN),
    _wired("pull", "The difference from a known base.", SIGNATURE, TOKEN),
    _wired("descend", "Fingerprints of branches, to find what differs from an unknown base.", SIGNATURE, TOKEN),
    _wired("pieces", "The pieces of a first transfer.", SIGNATURE, TOKEN),
    _wired("piece", "One piece of a first transfer.", SIGNATURE, TOKEN),
    _wired("publish", "Append a snapshot to this node's log, for CI runners.", TOKEN),
    Endpoint(
        "get",
        "/v1/events",
        "Server-sent events: something is new. Goes on until one side ends it.",
        {"text/event-stream": {"type": "string"}},
        (401, 500),
        security=(SIGNATURE,),
    ),
)


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for one in ENDPOINTS:
        paths.setdefault(one.path, {})[one.method] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "knowing",
            "version": __version__,
            "summary": "A node of a federated code knowledge graph.",
            "description": "Every refusal has one shape, and names its request. Bodies between nodes are in "
            "protocol/SPEC.md.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": {f"Refusal{status}": _refusal(status) for status in _REASONS},
            "securitySchemes": {
                TOKEN: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made with `knowing token create`; sees the repositories of its pattern.",
                },
                SIGNATURE: {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Signature",
                    "description": "RFC 9421 with Signature-Input and Content-Digest, by the Ed25519 key of a node.",
                },
            },
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    name = endpoint.path.removeprefix("/v1").strip("/").partition(".")[0]
    found: dict[str, Any] = {
        "operationId": name,
        "summary": endpoint.about,
        "responses": {
            "200": {"description": "The answer.", "content": _content(endpoint.answer)},
            **{str(status): {"$ref": f"#/components/responses/Refusal{status}"} for status in endpoint.refusals},
        },
        "security": [{one: []} if one else {} for one in endpoint.security],
    }
    if endpoint.path == "/readyz":
        found["responses"]["503"] = {"description": "Not yet, or no longer.", "content": _content(endpoint.answer)}
    if endpoint.parameters:
        found["parameters"] = [
            {"name": one.name, "in": "query", "required": one.required, "description": one.about, "schema": one.schema}
            for one in endpoint.parameters
        ]
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": _content(endpoint.body)}
    return found


def _content(types: dict[str, Schema]) -> dict[str, Any]:
    return {media_type: {"schema": schema} for media_type, schema in types.items()}


def _refusal(status: int) -> dict[str, Any]:
    header = {"description": "The name of the request, in the node's log too.", "schema": {"type": "string"}}
    return {
        "description": _REASONS[status],
        "headers": {"Knowing-Request": header},
        "content": {JSON: {"schema": named("Error")}},
    }
